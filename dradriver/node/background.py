"""Tasks that run as long as the plugin does."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

__all__ = ["Background"]

_log = logging.getLogger(__name__)


class Background:
    """Owns tasks that should never end by themselves; `await stop()` cancels and awaits them."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._failed = asyncio.Event()
        self._error: BaseException | None = None

    def start(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """Runs `work` until `stop()`."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    async def failure(self) -> None:
        """Waits until a task fails, and raises what it raised: a defect, nothing that goes away by waiting."""
        await self._failed.wait()
        assert self._error is not None  # noqa: S101 - set together
        raise self._error

    async def stop(self) -> None:
        """Cancels the tasks and waits for their end."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()

    def _ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            _log.error("%s ended: %s", task.get_name(), error, exc_info=error)
            self._error = error
            self._failed.set()
