"""Lock claims by UID, in this process and across processes.

Across processes, a claim's lock is a lock on one byte of a file (`byte_locks`). The byte's offset is a hash of
the claim's UID.
"""

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from dradriver.aio.key_locks import KeyLocks
from dradriver.node.errors import StillRunningError
from dradriver.node.state import byte_locks

__all__ = ["ClaimLocks"]

_POLL_SECONDS: Final = (0.005, 0.25)


class ClaimLocks:
    """The locks of claims; call `close()` at the end.

    Raises:
        StateError: the lock file cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self._file = byte_locks.open_lock_file(path)
        self._local = KeyLocks()
        self._is_abandoned = False

    def close(self) -> None:
        """Close the file, which releases its locks; no-op if work in progress or abandoned work has a lock."""
        if not (self._is_abandoned or self._local):
            os.close(self._file)

    @asynccontextmanager
    async def hold(self, uid: str) -> AsyncIterator[None]:
        """Hold the claim's lock; waits until its holder, in this or another process, has released it.

        If the work in the `with` block cannot be stopped (`StillRunningError`), the lock is held until the
        process ends, so that no other process works on the claim at the same time.
        """
        async with self._local.hold(uid):
            offset = _offset_of(uid)
            await self._acquire(offset)
            try:
                yield
            except StillRunningError:
                self._is_abandoned = True
                raise
            except BaseException:
                byte_locks.free(self._file, offset)
                raise
            byte_locks.free(self._file, offset)

    @asynccontextmanager
    async def hold_if_free(self, uid: str) -> AsyncIterator[bool]:
        """Hold the claim's lock if it is free, without waiting; yield whether the lock is held."""
        if uid in self._local or not byte_locks.take(self._file, _offset_of(uid)):
            yield False
            return
        async with self.hold(uid):  # the lock is granted again, because this open file already has it
            yield True

    async def _acquire(self, offset: int) -> None:
        wait, longest = _POLL_SECONDS
        while not byte_locks.take(self._file, offset):
            await asyncio.sleep(wait)
            wait = min(wait * 2, longest)


def _offset_of(uid: str) -> int:
    return int.from_bytes(hashlib.sha256(uid.encode()).digest()[:8]) >> 2
