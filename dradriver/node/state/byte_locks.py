"""Lock bytes of an empty file, with F_OFD_SETLK and F_OFD_GETLK of fcntl(2).

The locks belong to an open file: the kernel releases them when the file is closed or its process dies for any
reason. No function blocks, except for opening the file, so the event loop may call them.
"""

import fcntl
import os
import struct
from pathlib import Path
from typing import Final

from dradriver.node.errors import StateError
from dradriver.node.files import atomic

__all__ = ["find_locked", "free", "open_lock_file", "take"]

# struct flock of Linux on 64-bit machines: l_type, l_whence, l_start, l_len, l_pid (0 for F_OFD locks).
_FLOCK: Final = struct.Struct("hhqqi4x")
_TO_THE_END: Final = 0


def open_lock_file(path: Path) -> int:
    """Open the file, create it if needed, and return its descriptor; closing the descriptor releases all locks.

    Raises:
        StateError: the file cannot be opened.
    """
    try:
        return atomic.open_lock(path)
    except OSError as error:
        raise StateError(f"lock file {path}: cannot be opened: {error}") from error


def take(descriptor: int, offset: int) -> bool:
    """Lock the byte at `offset` unless another open file has locked it; return whether it is locked now."""
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, offset, 1, 0))
    except (BlockingIOError, PermissionError):
        return False
    return True


def free(descriptor: int, offset: int) -> None:
    """Release the lock on the byte at `offset`, if there is one."""
    fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_UNLCK, os.SEEK_SET, offset, 1, 0))


def find_locked(descriptor: int, offset: int) -> int | None:
    """Return the offset of a byte, at or after `offset`, that another open file has locked; None if none is."""
    request = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, offset, _TO_THE_END, 0)
    kind, _, start, _, _ = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, request))
    return None if kind == fcntl.F_UNLCK else max(int(start), offset)
