"""Run the calls of kube-scheduler, but only while this process leads.

If the process stops to lead, it ends the calls in progress before it releases the Lease. So no call of this
process writes after another process has taken over.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from dradriver.errors import DraError
from dradriver.extender.protocol import Verbs

__all__ = ["NotLeadingError", "VerbCalls"]

_log = logging.getLogger(__name__)

T = TypeVar("T")

_CANCEL_SECONDS: Final = 1.0


class NotLeadingError(DraError):
    """This process does not lead, so it decides nothing. Another process may lead."""


class VerbCalls:
    """The calls in progress. Calls are rejected until `open()`.

    A call runs in the task of its caller. A task of its own would delay each call by two rounds of the event
    loop, and kube-scheduler waits for `filter` and `prioritize` before it looks at the next pod.

    Args:
        explain: returns why calls are rejected now.
    """

    def __init__(self, explain: Callable[[], str]) -> None:
        self._explain = explain
        self._verbs: Verbs | None = None
        self._callers: set[asyncio.Task[Any]] = set()
        self._canceled: set[asyncio.Task[Any]] = set()
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def is_open(self) -> bool:
        """Return whether calls are accepted."""
        return self._verbs is not None

    @property
    def notice(self) -> str:
        """Return what operators should know although calls are accepted; empty if there is nothing."""
        return self._verbs.notice if self._verbs is not None else ""

    @property
    def second_allocator(self) -> str:
        """Return the signs of another allocator for the same devices; empty if there is none, or no term."""
        return self._verbs.second_allocator if self._verbs is not None else ""

    def open(self, verbs: Verbs) -> None:
        """Accept calls from now on."""
        self._verbs = verbs

    async def close(self, grace: float) -> None:
        """Reject new calls, wait for the calls in progress, and cancel them after `grace` seconds."""
        self._verbs = None
        if grace > 0 and await self._is_idle_within(grace):
            return
        self._canceled |= self._callers
        for caller in self._callers:
            caller.cancel()
        if not await self._is_idle_within(_CANCEL_SECONDS):
            _log.error("%d calls of kube-scheduler ignore their cancellation", len(self._callers))

    async def run(self, call: Callable[[Verbs], Coroutine[Any, Any, T]]) -> T:
        """Run one call and return its result. If the caller is canceled, the call is canceled.

        Args:
            call: calls one verb.

        Raises:
            NotLeadingError: calls are rejected, or `close()` has canceled the call.
        """
        if self._verbs is None:
            raise NotLeadingError(self._explain())
        caller = asyncio.current_task()
        assert caller is not None  # noqa: S101 - a coroutine of asyncio runs in a task
        self._callers.add(caller)
        self._idle.clear()
        try:
            return await call(self._verbs)
        except asyncio.CancelledError:
            if caller not in self._canceled or caller.uncancel() > 0:
                raise  # the caller itself is canceled
            raise NotLeadingError(self._explain()) from None
        finally:
            self._callers.discard(caller)
            self._canceled.discard(caller)
            if not self._callers:
                self._idle.set()

    async def _is_idle_within(self, seconds: float) -> bool:
        """Return whether all calls ended within some seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._idle.wait()
        return not self._callers
