"""The one loop: take a key from the queue, decide, carry out the action, repeat until nothing is left to do."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable
from types import TracebackType
from typing import Final, Generic, Protocol, Self, TypeVar

from dradriver.control.runtime.actions import Action, NextAction, Step
from dradriver.control.runtime.work_queue import WorkQueue
from dradriver.errors import DraError

__all__ = ["Decider", "Loop", "Looping"]

_log = logging.getLogger(__name__)

_MAX_STEPS: Final = 64
"""Steps for one key in a row. A decision that never ends must not keep a worker."""
_MAX_CONFLICTS: Final = 5
"""Actions in a row whose objects had changed since the decision (as in client-go's `RetryOnConflict`)."""

K = TypeVar("K", bound=Hashable)
K_contra = TypeVar("K_contra", bound=Hashable, contravariant=True)


class Decider(Protocol[K_contra]):
    """Decides the steps of a key."""

    async def decide(self, key: K_contra) -> Step:
        """Return the next step, from the objects as they are now."""

    async def failed(self, key: K_contra, error: DraError) -> None:
        """Handle an error of the last step. The key is retried later."""


class Loop(Generic[K]):
    """Works on keys with several workers: `async with Loop(...) as loop: loop.queue.add(key)`.

    Nothing is remembered between two steps. The next decision sees the state after the step, and the same is
    true after a crash. An error concerns its key alone: that key is retried, the others continue.
    """

    def __init__(
        self,
        name: str,
        decider: Decider[K],
        execute: Callable[[Action], Awaitable[bool]],
        *,
        workers: int,
        queue: WorkQueue[K],
    ) -> None:
        """Create a loop that does not run yet.

        Args:
            name: the name of its tasks and in its logs.
            decider: returns the steps.
            execute: carries out an action; returns False when the objects had changed and a new decision is
                needed.
            workers: number of keys that are worked on concurrently.
            queue: the source of the keys.
        """
        self.queue = queue
        self._name = name
        self._decider = decider
        self._execute = execute
        self._workers = workers
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self._tasks = [
            asyncio.create_task(self._work(), name=f"{self._name} worker {number}")
            for number in range(self._workers)
        ]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.queue.close()

    async def _work(self) -> None:
        while True:
            key = await self.queue.get()
            try:
                then = await self._steps(key)
            except DraError as error:
                _log.warning("%s: %s: %s", self._name, key, error)
                await self._decider.failed(key, error)
                then = NextAction.LATER
            except Exception:
                _log.exception("%s: %s: a defect, trying again later", self._name, key)
                then = NextAction.LATER
            finally:
                self.queue.done(key)
            if then is NextAction.DONE:
                self.queue.forget(key)
            elif then is NextAction.LATER:
                self.queue.add_later(key)

    async def _steps(self, key: K) -> NextAction:
        conflicts = 0
        for _ in range(_MAX_STEPS):
            step = await self._decider.decide(key)
            settled = step.action is None or await self._execute(step.action)
            conflicts = 0 if settled else conflicts + 1
            if conflicts == _MAX_CONFLICTS:
                break
            if settled and step.then is not NextAction.AGAIN:
                return step.then
        return NextAction.LATER


class Looping(Generic[K]):
    """A decider that works while its loop runs: `async with`. A subclass creates `_loop`."""

    _loop: Loop[K]

    async def __aenter__(self) -> Self:
        await self._loop.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._loop.__aexit__(kind, error, trace)
