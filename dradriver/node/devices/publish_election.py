"""Publish election: of several instances (rolling update), only the one that registered last publishes.

Two instances may have different inventories, and only one inventory can be published. The state of the election
consists of locks on bytes of one file (`node.state.byte_locks`), which the kernel releases when a process dies:

| byte | holder of its lock                                                                            |
|------|-----------------------------------------------------------------------------------------------|
| 0    | an instance, while it takes a ticket                                                          |
| 1    | the instance that publishes; the next instance waits until this instance has stopped          |
| n    | the instance with ticket n, which is registered and alive; a later ticket has a higher number |

The instance with the highest ticket publishes. If the publishing instance is killed, the kernel frees its
bytes, and another instance finds that its own ticket is the highest and takes over. The published slices stay
in the meantime. If a waiting instance is killed, nothing changes. If an instance is stopped by a signal
(SIGSTOP), it keeps its ticket until its liveness probe fails and the kubelet kills it.
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
    """Represents one instance in the election.

    Call `run()`, which runs until it is canceled, and then `close()`. Call `join()` and `leave()` at any time
    before `close()`.

    Raises:
        StateError: the lock file cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self._file = byte_locks.open_lock_file(path)
        self._ticket: int | None = None
        self._wants_ticket = False
        self._changed = asyncio.Event()
        self.is_waiting = False
        """Whether this instance waits until another instance stops publishing."""

    def join(self) -> None:
        """Let `run()` take the highest ticket, because the kubelet has just registered this instance."""
        self._wants_ticket = True
        self._changed.set()

    def leave(self) -> None:
        """Give back the ticket, because the kubelet has rejected this instance or the instance is stopping."""
        self._wants_ticket = False
        if self._ticket is not None:
            byte_locks.free(self._file, self._ticket)
            self._ticket = None
        self._changed.set()

    @property
    def has_successor(self) -> bool:
        """Return whether another instance was registered later than this one."""
        return self._ticket is not None and byte_locks.find_locked(self._file, self._ticket + 1) is not None

    def close(self) -> None:
        """Close the file, which frees the instance's locks."""
        os.close(self._file)

    async def run(self, publish: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run `publish` whenever this instance is elected, and cancel it when another instance is elected.

        Raises:
            Exception: the exception of `publish`.
        """
        while True:
            await self._wait_elected()
            task = asyncio.create_task(publish(), name="publisher")
            try:
                while self._is_elected() and not task.done():
                    await self._wait_change()
            finally:
                await end({task})
                byte_locks.free(self._file, _PUBLISHING)
            if task.done() and not task.cancelled():
                task.result()
            if self._ticket is not None:
                _log.info("another instance of the driver was registered later and publishes from now on")

    async def _wait_elected(self) -> None:
        while not (self._is_elected() and byte_locks.take(self._file, _PUBLISHING)):
            if self._ticket is not None and not self.is_waiting:
                _log.info("another instance of the driver publishes: this one waits until it has stopped")
                self.is_waiting = True
            await self._wait_change()
        self.is_waiting = False

    async def _wait_change(self) -> None:
        try:
            async with asyncio.timeout(_POLL_SECONDS):
                await self._changed.wait()
        except TimeoutError:
            pass
        self._changed.clear()

    def _is_elected(self) -> bool:
        if self._wants_ticket:
            self._take_ticket()
        return self._ticket is not None and not self.has_successor

    def _take_ticket(self) -> None:
        """Take a ticket that is higher than all tickets in use, then free the old ticket."""
        if not byte_locks.take(self._file, _TAKING):
            return  # another instance is taking its ticket right now
        highest = self._ticket or _FIRST - 1
        while (other := byte_locks.find_locked(self._file, highest + 1)) is not None:
            highest = other
        if highest != self._ticket:
            byte_locks.take(self._file, highest + 1)
            if self._ticket is not None:
                byte_locks.free(self._file, self._ticket)
            self._ticket = highest + 1
        byte_locks.free(self._file, _TAKING)
        self._wants_ticket = False
