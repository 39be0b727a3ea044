"""Processes that have a device node open."""

from collections.abc import Collection
from pathlib import Path

__all__ = ["find_users"]


def find_users(proc: Path, nodes: Collection[str]) -> list[str]:
    """Return the processes that have one of the device nodes open, as `812 (nvidia-persistenced)`. Blocking.

    All processes of the node are read if `proc` is the host's procfs. A process in a container has its own path
    of the node, which is the same in NVIDIA's and in this driver's containers.

    Args:
        proc: procfs.
        nodes: paths of device nodes, for example `/dev/nvidia0`.
    """
    processes = (folder for folder in _list(proc) if folder.name.isdigit())
    return sorted(f"{each.name} ({_read_name(each)})" for each in processes if _has_open(each / "fd", nodes))


def _list(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:  # the process has ended
        return []


def _has_open(folder: Path, nodes: Collection[str]) -> bool:
    for link in _list(folder):
        try:
            if str(link.readlink()) in nodes:
                return True
        except OSError:
            continue
    return False


def _read_name(folder: Path) -> str:
    try:
        return (folder / "comm").read_text().strip()
    except OSError:
        return "ended"
