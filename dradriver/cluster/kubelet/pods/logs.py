"""Reads a container's log for `kubectl logs`."""

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
    """Yield the output of a container, in chunks.

    Args:
        path: the log file; a missing one is empty.
        text_of: returns the container's output from one line of the file.
        tail: only the last lines, None for all.
        more: returns whether the container may still write; then the end of the file is not the end.
    """
    file = await asyncio.to_thread(_open, path)
    if file is None:
        return
    try:
        while True:
            # Asked before the read, so that output between the question and the read is not lost.
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
    """Return the lines from here to the end, or the last of them.

    While the container may still write, an incomplete last line is left for the next call.
    """
    lines = list(file) if tail is None else list(deque(file, maxlen=tail))
    if waiting and lines and not lines[-1].endswith(b"\n"):
        file.seek(-len(lines.pop()), os.SEEK_CUR)
    return lines
