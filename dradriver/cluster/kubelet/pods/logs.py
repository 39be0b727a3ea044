"""Reading a container's log, as `kubectl logs` asks for it."""

import asyncio
import os
from collections import deque
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import BinaryIO, Final

__all__ = ["read_log"]

_PERIOD: Final = 0.1


async def read_log(
    path: Path, text_of: Callable[[bytes], bytes], tail: int | None, more: Callable[[], bool]
) -> AsyncIterator[bytes]:
    """What the container wrote, in chunks.

    Args:
        path: the log file; a missing one is empty.
        text_of: what the container wrote, from one line of the file.
        tail: only the last lines, None for all.
        more: whether the container may still write; then the end of the file is not the end.
    """
    file = await asyncio.to_thread(_open, path)
    if file is None:
        return
    try:
        while True:
            # Asked before reading: what is written between the question and the read is still read.
            waiting = more()
            lines = await asyncio.to_thread(_lines, file, tail, waiting)
            tail = None
            if lines:
                yield b"".join(text_of(line) for line in lines)
            elif waiting:
                await asyncio.sleep(_PERIOD)
            else:
                return
    finally:
        file.close()


def _open(path: Path) -> BinaryIO | None:
    try:
        return path.open("rb")
    except FileNotFoundError:
        return None


def _lines(file: BinaryIO, tail: int | None, waiting: bool) -> list[bytes]:  # noqa: FBT001
    """The lines from here to the end, or the last of them; while waiting, a line without its end is left."""
    lines = list(file) if tail is None else list(deque(file, maxlen=tail))
    if waiting and lines and not lines[-1].endswith(b"\n"):
        file.seek(-len(lines.pop()), os.SEEK_CUR)
    return lines
