"""One lock a claim, in this process and across processes.

Across processes it is a byte-range lock of an open file description (fcntl(2), F_OFD_SETLK) on a file that
holds nothing: the byte's place is a hash of the claim's UID. The kernel releases it when the process dies, and
asking for it never blocks, so the event loop may ask.
"""

import asyncio
import fcntl
import hashlib
import os
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from dradriver.node.errors import StateError, StillRunningError

__all__ = ["ClaimLocks"]

_POLL_SECONDS: Final = (0.005, 0.25)
# struct flock of Linux on 64-bit machines: l_type, l_whence, l_start, l_len, l_pid (0 for these locks).
_FLOCK: Final = struct.Struct("hhqqi4x")


class ClaimLocks:
    """Locks by claim UID; `close()` when done.

    Raises:
        StateError: the lock file can't be opened.
    """

    def __init__(self, path: Path) -> None:
        try:
            self._file = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StateError(f"lock file {path} can't be opened: {error}") from error
        self._local: dict[str, tuple[asyncio.Lock, int]] = {}
        self._kept = False

    def close(self) -> None:
        """Closes the file and so releases its locks; but not while one of them is kept."""
        if not self._kept:
            os.close(self._file)

    @asynccontextmanager
    async def hold(self, uid: str) -> AsyncIterator[None]:
        """Holds the claim's lock; waits for whoever has it, in this process or another.

        Work that can't be stopped (`StillRunningError`) keeps the lock until the process ends: no other process
        may begin while it goes on.
        """
        lock, waiting = self._local.get(uid, (asyncio.Lock(), 0))
        self._local[uid] = (lock, waiting + 1)
        try:
            async with lock:
                await self._acquire(uid)
                try:
                    yield
                except StillRunningError:
                    self._kept = True
                    raise
                except BaseException:
                    self._set(uid, fcntl.F_UNLCK)
                    raise
                self._set(uid, fcntl.F_UNLCK)
        finally:
            lock, waiting = self._local.pop(uid)
            if waiting > 1:
                self._local[uid] = (lock, waiting - 1)

    @asynccontextmanager
    async def hold_if_free(self, uid: str) -> AsyncIterator[bool]:
        """Holds the claim's lock if nobody has it; says whether it does. Never waits."""
        if uid in self._local or not self._set(uid, fcntl.F_WRLCK):
            yield False
            return
        async with self.hold(uid):  # an open file that has the lock gets it again
            yield True

    async def _acquire(self, uid: str) -> None:
        wait, longest = _POLL_SECONDS
        while not self._set(uid, fcntl.F_WRLCK):
            await asyncio.sleep(wait)
            wait = min(wait * 2, longest)

    def _set(self, uid: str, kind: int) -> bool:
        request = _FLOCK.pack(kind, os.SEEK_SET, _place(uid), 1, 0)
        try:
            fcntl.fcntl(self._file, fcntl.F_OFD_SETLK, request)
        except (BlockingIOError, PermissionError):
            return False
        return True


def _place(uid: str) -> int:
    return int.from_bytes(hashlib.sha256(uid.encode()).digest()[:8]) >> 2
