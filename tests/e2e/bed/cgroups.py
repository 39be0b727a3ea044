"""Control groups of a bed: each process in them belongs to the bed."""

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path("/sys/fs/cgroup")
_KILL_SECONDS: Final = 20.0


def _unified() -> bool:
    """Return whether the machine has version 2 of control groups (one hierarchy)."""
    return (ROOT / "cgroup.procs").exists()


def _hierarchies() -> list[Path]:
    if _unified():
        return [ROOT]
    return [each for each in ROOT.glob("*") if not each.is_symlink() and (each / "cgroup.procs").exists()]


def _groups(name: str) -> Iterator[Path]:
    """Yield the groups below a name in every hierarchy, the innermost first."""
    for hierarchy in _hierarchies():
        yield from (Path(path) for path, _, _ in os.walk(hierarchy / name, topdown=False))


def make(name: str) -> None:
    """Create a group in every hierarchy; in version 2 with all controllers."""
    for hierarchy in _hierarchies():
        (hierarchy / name).mkdir(parents=True, exist_ok=True)
    if _unified():
        controllers = " ".join(f"+{each}" for each in (ROOT / "cgroup.controllers").read_text().split())
        for parent in reversed((ROOT / name).relative_to(ROOT).parents):
            (ROOT / parent / "cgroup.subtree_control").write_text(controllers)


def join_command(name: str) -> str:
    """Return the shell command that moves the shell into a group without limits."""
    group = (ROOT if _unified() else ROOT / "pids") / name
    group.mkdir(parents=True, exist_ok=True)
    return f"echo 0 > {group}/cgroup.procs"


def list_processes(name: str) -> set[int]:
    """Return the processes of a group and of its children."""
    found = set()
    for group in _groups(name):
        with contextlib.suppress(OSError):
            found |= {int(pid) for pid in (group / "cgroup.procs").read_text().split()}
    return found


def kill(name: str) -> None:
    """Kill every process of a group, including processes that start meanwhile."""
    deadline = time.monotonic() + _KILL_SECONDS
    while (left := list_processes(name)) and time.monotonic() < deadline:
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


def remove(name: str) -> None:
    """Remove a group after its processes have ended."""
    deadline = time.monotonic() + _KILL_SECONDS
    while left := list(_groups(name)):
        for group in left:
            # A process that has just ended holds its group for a moment.
            with contextlib.suppress(OSError):
                group.rmdir()
        if time.monotonic() > deadline:
            return
        time.sleep(0.02)
