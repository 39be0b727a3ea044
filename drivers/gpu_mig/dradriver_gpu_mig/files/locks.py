"""One process at a time works on a thing, also during a rolling update."""

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, TextIO

import dradriver as dra
from dradriver_gpu_mig.files.durable import name_path

__all__ = ["BusyError", "hold_lock"]

_LOCK_SECONDS: Final = 10.0
"""Seconds for which a prepare waits for a recovery, or for the previous process of a rolling update."""

_POLL_SECONDS: Final = 0.1


class BusyError(dra.DraError):
    """Another process, or another call of this process, has the lock."""


@asynccontextmanager
async def hold_lock(path: Path, name: str, *, wait: bool = True) -> AsyncIterator[None]:
    """Keep others from working on a thing, until the context ends or this process dies.

    The holder of the lock may remove its file. A call that waits for the lock then creates the file again.

    Args:
        path: the lock file, which is created if it is missing.
        name: the thing, for the error: `device gpu-0000-07-00-0`.
        wait: whether the call waits for a while.

    Returns:
        A context, in which the caller has the lock.

    Raises:
        BusyError: another process, or another call of this process, still works on the thing.
        DraError: the folder is not writable.
    """
    clock = asyncio.get_running_loop().time
    deadline = clock() + (_LOCK_SECONDS if wait else 0)
    while (lock := await asyncio.to_thread(_try_lock, path)) is None:
        if clock() >= deadline:
            raise BusyError(f"{name}: another process of this driver works on it")
        await asyncio.sleep(_POLL_SECONDS)
    try:
        yield
    finally:
        lock.close()


def _try_lock(path: Path) -> TextIO | None:
    with name_path(path, "opened"):
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = path.open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_current = os.path.samestat(os.fstat(lock.fileno()), path.stat())
    except (BlockingIOError, FileNotFoundError):
        is_current = False
    if is_current:
        return lock
    lock.close()
    return None
