"""Waits for processes of this machine and sends them signals."""

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

__all__ = ["find_processes", "send_signal", "wait_for_exit"]

_PROC = Path("/proc")


async def wait_for_exit(pid: int) -> None:
    """Wait for the end of a process that is not a child of this process."""
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


def send_signal(pids: Iterator[int] | list[int], number: signal.Signals) -> None:
    """Send a signal to processes. Processes that no longer exist are ignored."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def find_processes(entry: str) -> list[int]:
    """Return the processes that were started with `entry` (`NAME=VALUE`) in their environment."""
    wanted = entry.encode()
    found = []
    for folder in _PROC.glob("[0-9]*"):
        with suppress(OSError):
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return found
