"""Publish election: of several instances (rolling update), the one that the kubelet registered last publishes.

Two instances may have different inventories, and only one can be published. The state is in locks on bytes of
one file (`node.state.byte_locks`), so it needs no repair when a process dies:

| byte | holder of its lock                                                                    |
|------|---------------------------------------------------------------------------------------|
| 0    | the instance that is taking a ticket, for a moment                                    |
| 1    | the instance that publishes; the next one waits until this one has stopped            |
| n    | the instance with ticket n: registered and alive; a later one has a higher number     |

The instance with the highest ticket publishes. A kill -9 of the publishing instance frees its bytes: the other
instance finds that its own ticket is the highest and takes over. A kill -9 of the waiting instance changes
nothing. The published slices stay in between. An instance that is stopped by a signal (SIGSTOP) keeps its
ticket until its liveness probe ends it.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final

from dradriver.aio.tasks import end
from dradriver.node.state import byte_locks

__all__ = ["FILE_NAME", "PublishElection"]

_log = logging.getLogger(__name__)

FILE_NAME: Final = "publisher.lock"
_POLL_SECONDS: Final = 0.25
_TAKING, _PUBLISHING, _FIRST = 0, 1, 2


class PublishElection:
    """One instance's part in the election: `join()`, `leave()`, `run()` until canceled, then `close()`.

    Raises:
        StateError: the lock file cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self._file = byte_locks.open_lock_file(path)
        self._ticket: int | None = None
        self._wants_ticket = False
        self._news = asyncio.Event()
        self.waiting = False
        """Whether another instance publishes now, and this one publishes after it."""

    def join(self) -> None:
        """Join: the kubelet has registered this instance, later than all others."""
        self._wants_ticket = True
        self._news.set()

    def leave(self) -> None:
        """Leave: the kubelet has rejected this instance, or the instance is about to stop."""
        self._wants_ticket = False
        if self._ticket is not None:
            byte_locks.free(self._file, self._ticket)
            self._ticket = None
        self._news.set()

    @property
    def succeeded(self) -> bool:
        """Return whether another instance was registered later than this one."""
        return self._ticket is not None and byte_locks.next_locked(self._file, self._ticket + 1) is not None

    def close(self) -> None:
        """Close the file, which frees the instance's locks."""
        os.close(self._file)

    async def run(self, publish: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run `publish` whenever this instance is elected, and cancel it when it no longer is.

        Raises:
            Exception: the exception of `publish`.
        """
        while True:
            await self._my_turn()
            task = asyncio.create_task(publish(), name="publisher")
            try:
                while self._is_first() and not task.done():
                    await self._pause()
            finally:
                await end({task})
                byte_locks.free(self._file, _PUBLISHING)
            if task.done() and not task.cancelled():
                task.result()
            if self._ticket is not None:
                _log.info("another instance of the driver was registered later: it publishes from now on")

    async def _my_turn(self) -> None:
        while not (self._is_first() and byte_locks.take(self._file, _PUBLISHING)):
            if self._ticket is not None and not self.waiting:
                _log.info("another instance of the driver publishes: waiting for its end")
                self.waiting = True
            await self._pause()
        self.waiting = False

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(_POLL_SECONDS):
                await self._news.wait()
        except TimeoutError:
            pass
        self._news.clear()

    def _is_first(self) -> bool:
        if self._wants_ticket:
            self._take_ticket()
        return self._ticket is not None and not self.succeeded

    def _take_ticket(self) -> None:
        """Take a ticket higher than all held ones, then free the old one."""
        if not byte_locks.take(self._file, _TAKING):
            return  # another instance is taking its ticket right now
        highest = self._ticket or _FIRST - 1
        while (other := byte_locks.next_locked(self._file, highest + 1)) is not None:
            highest = other
        if highest != self._ticket:
            byte_locks.take(self._file, highest + 1)
            if self._ticket is not None:
                byte_locks.free(self._file, self._ticket)
            self._ticket = highest + 1
        byte_locks.free(self._file, _TAKING)
        self._wants_ticket = False
