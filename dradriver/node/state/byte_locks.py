"""Locks on bytes of an empty file: F_OFD_SETLK and F_OFD_GETLK of fcntl(2).

They belong to an open file: the kernel releases them when the file is closed or its process dies for any
reason. A request never blocks, so the event loop may make it.
"""

import fcntl
import os
import struct
from pathlib import Path
from typing import Final

from dradriver.node.errors import StateError
from dradriver.node.files import atomic

__all__ = ["free", "next_locked", "open_lock_file", "take"]

# struct flock of Linux on 64-bit machines: l_type, l_whence, l_start, l_len, l_pid (0 for these locks).
_FLOCK: Final = struct.Struct("hhqqi4x")
_TO_THE_END: Final = 0


def open_lock_file(path: Path) -> int:
    """Open the file, create it if needed, and return its descriptor; closing it releases its locks.

    Raises:
        StateError: it cannot be opened.
    """
    try:
        return atomic.open_lock(path)
    except OSError as error:
        raise StateError(f"lock file {path} can't be opened: {error}") from error


def take(descriptor: int, place: int) -> bool:
    """Lock the byte at `place` unless another open file holds it; return whether it is locked now."""
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, place, 1, 0))
    except (BlockingIOError, PermissionError):
        return False
    return True


def free(descriptor: int, place: int) -> None:
    """Release the byte at `place`, locked or not."""
    fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_UNLCK, os.SEEK_SET, place, 1, 0))


def next_locked(descriptor: int, place: int) -> int | None:
    """Return a byte at or after `place` that another open file has locked; None if there is none."""
    asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, place, _TO_THE_END, 0)
    kind, _, start, _, _ = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, asked))
    return None if kind == fcntl.F_UNLCK else max(int(start), place)
