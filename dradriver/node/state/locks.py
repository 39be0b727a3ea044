"""One lock for each claim, in this process and across processes.

Across processes it is a lock on one byte of a file (`byte_locks`). The byte's position is a hash of the claim's
UID.
"""

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from dradriver.node.errors import StillRunningError
from dradriver.node.state import byte_locks

__all__ = ["ClaimLocks"]

_POLL_SECONDS: Final = (0.005, 0.25)


class ClaimLocks:
    """Locks by claim UID; call `close()` at the end.

    Raises:
        StateError: the lock file cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self._file = byte_locks.open_lock_file(path)
        self._local: dict[str, tuple[asyncio.Lock, int]] = {}
        self._kept = False

    def close(self) -> None:
        """Close the file, which releases its locks, unless abandoned work still has one."""
        if not (self._kept or self._local):
            os.close(self._file)

    @asynccontextmanager
    async def hold(self, uid: str) -> AsyncIterator[None]:
        """Hold the claim's lock; waits for its holder, in this process or another.

        Work that cannot be stopped (`StillRunningError`) keeps the lock until the process ends: no other
        process may begin while it continues.
        """
        lock, waiting = self._local.get(uid, (asyncio.Lock(), 0))
        self._local[uid] = (lock, waiting + 1)
        try:
            async with lock:
                place = _place(uid)
                await self._acquire(place)
                try:
                    yield
                except StillRunningError:
                    self._kept = True
                    raise
                except BaseException:
                    byte_locks.free(self._file, place)
                    raise
                byte_locks.free(self._file, place)
        finally:
            lock, waiting = self._local.pop(uid)
            if waiting > 1:
                self._local[uid] = (lock, waiting - 1)

    @asynccontextmanager
    async def hold_if_free(self, uid: str) -> AsyncIterator[bool]:
        """Hold the claim's lock if it is free, and yield whether it is held; never waits."""
        if uid in self._local or not byte_locks.take(self._file, _place(uid)):
            yield False
            return
        async with self.hold(uid):  # an open file that already has the lock gets it again
            yield True

    async def _acquire(self, place: int) -> None:
        wait, longest = _POLL_SECONDS
        while not byte_locks.take(self._file, place):
            await asyncio.sleep(wait)
            wait = min(wait * 2, longest)


def _place(uid: str) -> int:
    return int.from_bytes(hashlib.sha256(uid.encode()).digest()[:8]) >> 2
