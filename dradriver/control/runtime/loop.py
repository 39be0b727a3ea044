"""The loop of every controller: take a key, decide, carry out the action, and repeat until no work is left."""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Hashable
from types import TracebackType
from typing import Final, Generic, Self, TypeVar

from dradriver.control.runtime.actions import Action, NextAction, Step
from dradriver.control.runtime.work_queue import WorkQueue
from dradriver.errors import DraError

__all__ = ["Loop", "LoopController"]

_log = logging.getLogger(__name__)

_MAX_STEPS: Final = 64
"""Maximum number of steps for a key in a row, so that endless decisions cannot occupy a worker."""
_MAX_CONFLICTS: Final = 5
"""Maximum number of actions in a row that fail because objects have changed (client-go: `RetryOnConflict`)."""

K = TypeVar("K", bound=Hashable)


class LoopController(ABC, Generic[K]):
    """Decides the steps of keys; its loop runs inside `async with`. A subclass must create `_loop`."""

    _loop: "Loop[K]"

    @abstractmethod
    async def decide(self, key: K) -> Step:
        """Return the next step for a key, from the current objects."""

    async def handle_error(self, key: K, error: DraError) -> None:
        """Handle an error of the last step; the loop retries the key later.

        The default does nothing, because the next decision is based on the objects.
        """

    async def __aenter__(self) -> Self:
        await self._loop.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._loop.__aexit__(kind, error, trace)


class Loop(Generic[K]):
    """Processes keys with several workers: `async with Loop(...) as loop: loop.queue.add(key)`.

    The loop stores no state between two steps: each decision is based on the objects after the previous step,
    even if the process was restarted in between. If a step fails, its key is retried, and other keys continue.
    """

    def __init__(
        self,
        name: str,
        controller: LoopController[K],
        execute: Callable[[Action], Awaitable[bool]],
        *,
        workers: int,
        queue: WorkQueue[K],
    ) -> None:
        """Create a loop that does not run yet.

        Args:
            name: the name of the loop in its tasks and logs.
            controller: decides the steps.
            execute: carries out an action. It returns False if the objects had changed, so that a new decision
                is needed.
            workers: the number of keys that are processed concurrently.
            queue: the source of the keys.
        """
        self.queue = queue
        self._name = name
        self._controller = controller
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
                next_action = await self._take_steps(key)
            except DraError as error:
                _log.warning("%s: %s: %s", self._name, key, error)
                await self._controller.handle_error(key, error)
                next_action = NextAction.RETRY
            except Exception:
                _log.exception("%s: %s: unexpected error, retrying later", self._name, key)
                next_action = NextAction.RETRY
            finally:
                self.queue.done(key)
            if next_action is NextAction.DONE:
                self.queue.forget(key)
            elif next_action is NextAction.RETRY:
                self.queue.add_rate_limited(key)

    async def _take_steps(self, key: K) -> NextAction:
        conflicts = 0
        for _ in range(_MAX_STEPS):
            step = await self._controller.decide(key)
            is_current = step.action is None or await self._execute(step.action)
            conflicts = 0 if is_current else conflicts + 1
            if conflicts == _MAX_CONFLICTS:
                break
            if is_current and step.next is not NextAction.CONTINUE:
                return step.next
        return NextAction.RETRY
