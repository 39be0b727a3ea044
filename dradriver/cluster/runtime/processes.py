"""Waiting for, and ending, processes of this machine."""

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

__all__ = ["gone", "marked", "send"]

_PROC = Path("/proc")


async def gone(pid: int) -> None:
    """Returns when the process, no child of ours, has ended."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    # A pidfd becomes readable when its process ends.
    loop.add_reader(handle, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(handle)
        os.close(handle)


def send(pids: Iterator[int] | list[int], number: signal.Signals) -> None:
    """Sends a signal to processes; those that are gone already do not matter."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def marked(entry: str) -> list[int]:
    """The processes that were started with `entry` (`NAME=VALUE`) in their environment."""
    wanted = entry.encode()
    found = []
    for folder in _PROC.glob("[0-9]*"):
        with suppress(OSError):
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return found
