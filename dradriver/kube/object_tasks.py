"""Run a task for each object with work to do, so that a slow object delays no other."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

from dradriver.errors import DraError
from dradriver.kube.backoff import Backoff

__all__ = ["RETRY_SECONDS", "ObjectTasks", "pause"]

_log = logging.getLogger(__name__)

RETRY_SECONDS: Final = (0.5, 30.0)

T = TypeVar("T")


class ObjectTasks(Generic[T]):
    """Runs the steps of each object until no work is left; call `await end()` at the end.

    Args:
        kind: the kind of the objects, for the log.
        find: returns the object with a key as it is now; None if there is none.
        has_work: whether there is work for an object.
        step: executes the next work for an object and returns whether there was any. The event reports changes
            of the object.
    """

    def __init__(
        self,
        kind: str,
        find: Callable[[str], T | None],
        has_work: Callable[[T], bool],
        step: Callable[[T, asyncio.Event], Awaitable[bool]],
    ) -> None:
        self._kind = kind
        self._find = find
        self._has_work = has_work
        self._step = step
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._changes: dict[str, asyncio.Event] = {}

    def __len__(self) -> int:
        """Return the number of objects with work to do."""
        return len(self._tasks)

    def serve(self, key: str) -> None:
        """Handle an object that is new or changed."""
        if changed := self._changes.get(key):
            changed.set()
            return
        item = self._find(key)
        if item is not None and self._has_work(item):
            self._changes[key] = asyncio.Event()
            self._tasks[key] = asyncio.create_task(self._work(key), name=f"{self._kind} {key}")

    def wake_all(self) -> None:
        """Wake all waiting tasks, so that each checks again whether it can continue."""
        for changed in self._changes.values():
            changed.set()

    async def end(self) -> None:
        """Cancel the running tasks."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _work(self, key: str) -> None:
        backoff = Backoff(*RETRY_SECONDS)
        changed = self._changes[key]
        try:
            while (item := self._find(key)) is not None:
                changed.clear()
                try:
                    if not await self._step(item, changed) and not changed.is_set():
                        return
                    backoff.reset()
                except DraError as error:
                    _log.warning("%s %s: %s", self._kind, key, error)
                    await pause(changed, backoff.next())
                except Exception:
                    _log.exception("%s %s: unexpected error, retrying", self._kind, key)
                    await pause(changed, backoff.next())
        finally:
            del self._changes[key], self._tasks[key]


async def pause(changed: asyncio.Event, seconds: float) -> None:
    """Wait for the event, at most for `seconds`."""
    try:
        async with asyncio.timeout(seconds):
            await changed.wait()
    except TimeoutError:
        pass
