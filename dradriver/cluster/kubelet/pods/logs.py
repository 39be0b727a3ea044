"""Reads a container's log for `kubectl logs`."""

import asyncio
import os
from collections import deque
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import BinaryIO, Final

__all__ = ["read_log"]

_PERIOD_SECONDS: Final = 0.1


async def read_log(
    path: Path, parse_log_line: Callable[[bytes], bytes], tail: int | None, is_running: Callable[[], bool]
) -> AsyncIterator[bytes]:
    """Yield the output of a container, in chunks.

    Args:
        path: the log file; a missing file counts as empty.
        parse_log_line: returns the container's output from one line of the file.
        tail: number of last lines to yield; None: all lines.
        is_running: returns whether the container may still write. If so, the function waits for more output at
            the end of the file.
    """
    file = await asyncio.to_thread(_open, path)
    if file is None:
        return
    try:
        while True:
            # `is_running` is called before the read, so that output between the call and the read is not lost.
            waiting = is_running()
            lines = await asyncio.to_thread(_lines, file, tail, waiting)
            tail = None
            if lines:
                yield b"".join(parse_log_line(line) for line in lines)
            elif waiting:
                await asyncio.sleep(_PERIOD_SECONDS)
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
    """Return the lines from the current position to the end, or only the last `tail` of them.

    While the container may still write, an incomplete last line is left for the next call.
    """
    lines = list(file) if tail is None else list(deque(file, maxlen=tail))
    if waiting and lines and not lines[-1].endswith(b"\n"):
        file.seek(-len(lines.pop()), os.SEEK_CUR)
    return lines
