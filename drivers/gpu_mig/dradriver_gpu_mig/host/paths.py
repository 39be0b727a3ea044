"""Paths of the node's files, as this process sees them and as the container runtime sees them."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["PROGRAM_FOLDERS", "HostPaths", "find_program", "resolve"]


@dataclass(frozen=True, slots=True)
class HostPaths:
    """Folders of the host.

    Attributes:
        driver_root: folder below which the driver is installed, as this process sees it.
        driver_root_on_host: the same folder, as the container runtime sees it: `/`, or `/run/nvidia/driver`.
        dev, proc, sysfs: the host's folders /dev, /proc and /sys, as this process sees them.
        cdi: folders of CDI specs, as this process sees them. The first folder with a usable spec is used.
        root: root of the node, as this process sees it.
    """

    driver_root: Path = Path("/")
    driver_root_on_host: Path = Path("/")
    dev: Path = Path("/dev")
    proc: Path = Path("/proc")
    sysfs: Path = Path("/sys")
    cdi: tuple[Path, ...] = (Path("/var/run/cdi"), Path("/etc/cdi"))
    root: Path = Path("/")


PROGRAM_FOLDERS: Final = (
    "usr/local/sbin",
    "usr/local/bin",
    "usr/sbin",
    "usr/bin",
    "sbin",
    "bin",
    "usr/local/nvidia/bin",
)
"""Folders with programs below a root."""


def find_program(root: Path, name: str, folders: tuple[str, ...] = PROGRAM_FOLDERS) -> Path | None:
    """Return the path of an executable below `root`, or None if it does not exist. Blocking.

    Args:
        root: root folder.
        name: file name.
        folders: folders below `root`, in order of precedence.
    """
    paths = (root / folder / name for folder in folders)
    return next((path for path in paths if path.is_file() and os.access(path, os.X_OK)), None)


_MAX_LINKS: Final = 40  # the kernel's own limit of links in a path


def resolve(root: Path, path: Path) -> Path:
    """Return the file that `path` means to a process whose root is `root`. Absolute links stay below `root`.

    Args:
        root: root folder of the other process, as this process sees it.
        path: a path below `root`, as this process sees it.

    Returns:
        The path of the same file below `root`, without links. If a part of the path cannot be resolved, that
        part is unchanged.
    """
    resolved, remaining, links = Path(), list(path.relative_to(root).parts), 0
    while remaining:
        part = remaining.pop(0)
        if part == "..":
            resolved = resolved.parent
            continue
        current = root / resolved / part
        if links == _MAX_LINKS or not current.is_symlink():
            resolved /= part
            continue
        links += 1
        target = current.readlink()
        if target.is_absolute():
            resolved, target = Path(), target.relative_to("/")
        remaining = [*target.parts, *remaining]
    return root / resolved
