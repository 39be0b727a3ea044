"""Finds programs that have a character device open or mapped."""

from collections.abc import Iterator
from pathlib import Path

from dradriver_fabric_cxl.memory.sysfs.files import list_folder, read

__all__ = ["find_user"]


def find_user(proc: Path, number: int) -> str:
    """Return the first program that has a character device open or mapped, for people; "" if none is seen.

    Programs are seen only if `proc` shows all processes of the node.

    Args:
        proc: mount point of proc.
        number: the device's number, as `os.makedev` returns it.
    """
    for process in list_folder(proc, "[0-9]*"):
        for path in _list_files(process):
            try:
                found = path.stat().st_rdev
            except OSError:
                continue
            if found == number:
                return f"process {process.name} ({read(process / 'comm')}) has it open"
    return ""


def _list_files(process: Path) -> Iterator[Path]:
    yield from list_folder(process / "fd", "*")
    for line in read(process / "maps").splitlines():
        addresses, mode, _, _, _, *path = line.split(maxsplit=5)
        if mode.endswith("s") and path and path[0].startswith("/"):
            yield process / "map_files" / addresses
