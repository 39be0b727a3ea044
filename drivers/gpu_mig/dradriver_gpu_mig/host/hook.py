"""The program `nvidia-cdi-hook`, which a container runtime runs on the node while it creates a container.

The image of this driver contains the program. The driver copies it to its own folder, which the container
runtime sees at the same path. See decision record 0040.
"""

import fcntl
import filecmp
import logging
import os
import shutil
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from dradriver_gpu_mig.host.paths import PROGRAM_FOLDERS, find_program, resolve

__all__ = [
    "BASIC_COMMANDS",
    "PROGRAM",
    "SHIPPED",
    "SHIPPED_COMMANDS",
    "HookProgram",
    "find_hook",
    "find_ldconfig",
    "install_hook",
]

_log: Final = logging.getLogger(__name__)

PROGRAM: Final = "nvidia-cdi-hook"
SHIPPED: Final = Path(sys.prefix) / "libexec" / PROGRAM
"""The program in the image of this driver: `packaging/Containerfile` puts it there."""

BASIC_COMMANDS: Final = frozenset({"create-symlinks", "update-ldcache"})
"""The commands of every version of the program. Versions before 1.18 fail on an unknown command, and the
container does not start. Source: `cmd/nvidia-cdi-hook` of NVIDIA's container toolkit, versions 1.16 to 1.20."""
SHIPPED_COMMANDS: Final = BASIC_COMMANDS | {
    "disable-device-node-modification",
    "enable-cuda-compat",
    "update-application-profile",
}
"""The commands that this driver uses of the shipped version."""

_TOOLKIT_FOLDERS: Final = ("usr/local/nvidia/toolkit", *PROGRAM_FOLDERS)
"""Where the program is on a node. The GPU Operator installs the container toolkit into the first folder."""
_LDCONFIG: Final = ("sbin/ldconfig", "usr/sbin/ldconfig")


@dataclass(frozen=True, slots=True)
class HookProgram:
    """A program that the container runtime can run.

    Attributes:
        path: the program, as the container runtime sees it.
        commands: the commands that it is known to support.
    """

    path: Path
    commands: frozenset[str] = BASIC_COMMANDS


def install_hook(folder: Path, shipped: Path = SHIPPED) -> HookProgram | None:
    """Copy the shipped program into a folder of the node, if it is not there already. Blocking.

    The copy replaces another version atomically: containers that start now run the old or the new one. If the
    process dies before the rename, the next start writes the temporary file again. If it dies right after the
    rename, the program is complete, and the next start leaves it as it is. It stays when the driver is
    uninstalled, because containers that are restarted still need it.

    Args:
        folder: an existing folder that the container runtime sees at the same path.
        shipped: the program in the image.

    Returns:
        The program, or None if the image does not contain it or the node cannot run it from this folder. The
        log has the reason.
    """
    target = folder / PROGRAM
    try:
        if not shipped.is_file():
            return None
        if not (target.is_file() and filecmp.cmp(shipped, target, shallow=False)):
            _replace(target, shipped)
    except OSError as error:
        _log.warning("%s cannot be written, so the node's own %s is used: %s", target, PROGRAM, error)
        return None
    if not os.access(target, os.X_OK):  # also false on a file system that is mounted with noexec
        _log.warning("%s cannot be executed, so the node's own %s is used", target, PROGRAM)
        return None
    return HookProgram(target, SHIPPED_COMMANDS)


def _replace(target: Path, source: Path) -> None:
    temporary = target.with_suffix(".new")
    # During a rolling update, two processes may start at once.
    with (
        target.with_suffix(".lock").open("w") as lock,
        source.open("rb") as read,
    ):
        fcntl.flock(lock, fcntl.LOCK_EX)
        _write(temporary, read)
        temporary.replace(target)


def _write(temporary: Path, read: IO[bytes]) -> None:
    with temporary.open("wb") as written:
        shutil.copyfileobj(read, written)
        written.flush()
        os.fsync(written.fileno())
    temporary.chmod(0o755)


def find_hook(driver_root: Path, driver_root_on_host: Path, root: Path) -> HookProgram | None:
    """Return the program of a container toolkit on the node: below the driver's root, else on the node itself.

    Blocking.

    Args:
        driver_root: root of the driver, as this process sees it.
        driver_root_on_host: the same folder, as the container runtime sees it.
        root: root of the node, as this process sees it.
    """
    for folder, seen_as in ((driver_root, driver_root_on_host), (root, Path("/"))):
        found = find_program(folder, PROGRAM, _TOOLKIT_FOLDERS)
        if found is not None:
            return HookProgram(seen_as / found.relative_to(folder))
    return None


def find_ldconfig(roots: Iterable[tuple[Path, Path]]) -> Path | None:
    """Return `ldconfig`, as the container runtime sees it. `update-ldcache` runs it. Blocking.

    Args:
        roots: roots as this process sees them, and the same folders as the container runtime sees them.
    """
    for folder, seen_as in roots:
        for name in _LDCONFIG:
            if resolve(folder, folder / name).is_file():
                return seen_as / name
    return None
