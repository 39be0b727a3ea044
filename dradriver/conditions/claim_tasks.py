"""Run a task for each claim with work to do, so that a slow claim delays no other."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from dradriver.errors import DraError
from dradriver.kube.backoff import Backoff
from dradriver.model.resource.claim import ResourceClaim

__all__ = ["RETRY_SECONDS", "ClaimTasks", "pause"]

_log = logging.getLogger(__name__)

RETRY_SECONDS: Final = (0.5, 30.0)

Step = Callable[[ResourceClaim, asyncio.Event], Awaitable[bool]]
"""Executes the next work for a claim and returns whether there was any; the event reports its changes."""


class ClaimTasks:
    """Runs the steps of each claim until no work is left; call `await end()` at the end.

    Args:
        claims: the claims as they are now.
        concerns_us: whether there is work for a claim.
        step: executes the next work.
    """

    def __init__(
        self, claims: Mapping[str, ResourceClaim], concerns_us: Callable[[ResourceClaim], bool], step: Step
    ) -> None:
        self._claims = claims
        self._concerns_us = concerns_us
        self._step = step
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._news: dict[str, asyncio.Event] = {}

    def serve(self, ref: str) -> None:
        """Handle a claim that is new or changed."""
        if news := self._news.get(ref):
            news.set()
            return
        claim = self._claims.get(ref)
        if claim is not None and self._concerns_us(claim):
            self._news[ref] = asyncio.Event()
            self._tasks[ref] = asyncio.create_task(self._work(ref), name=f"claim {ref}")

    def nudge(self) -> None:
        """Wake all waiting tasks, so that they check again."""
        for news in self._news.values():
            news.set()

    async def end(self) -> None:
        """Cancel the running tasks."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _work(self, ref: str) -> None:
        backoff = Backoff(*RETRY_SECONDS)
        news = self._news[ref]
        try:
            while (claim := self._claims.get(ref)) is not None:
                news.clear()
                try:
                    if not await self._step(claim, news):
                        return
                    backoff.reset()
                except DraError as error:
                    _log.warning("claim %s: %s", ref, error)
                    await pause(news, backoff.next())
                except Exception:
                    _log.exception("claim %s: a defect, trying again", ref)
                    await pause(news, backoff.next())
        finally:
            del self._news[ref], self._tasks[ref]


async def pause(news: asyncio.Event, seconds: float) -> None:
    """Wait for news, at most for `seconds`."""
    try:
        async with asyncio.timeout(seconds):
            await news.wait()
    except TimeoutError:
        pass
