"""Reads and writes attributes. Devices can disappear at any time: a missing file reads as empty text."""

import os
import re
from pathlib import Path

from dradriver_fabric_cxl.memory.errors import CxlMemoryError

__all__ = ["AttributeWriteError", "find_driver", "list_folder", "parse_number", "read", "read_integer", "write"]


class AttributeWriteError(CxlMemoryError):
    """The kernel rejected a write.

    Args:
        path: the attribute.
        text: what was written.
        error: the kernel's error.
    """

    def __init__(self, path: Path, text: str, error: OSError) -> None:
        super().__init__(f"{path}: the kernel refuses {text!r}: {os.strerror(error.errno or 0)}")
        self.errno = error.errno


def read(path: Path) -> str:
    """Return a file's text without surrounding spaces; "" if it cannot be read.

    Args:
        path: the file.
    """
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def read_integer(path: Path, default: int = 0) -> int:
    """Return the number in a file, decimal or with `0x`.

    Args:
        path: the file.
        default: the result if there is no number.
    """
    try:
        return int(read(path), 0)
    except ValueError:
        return default


def write(path: Path, text: str) -> None:
    """Write an attribute in one call.

    Args:
        path: the attribute.
        text: the text.

    Raises:
        AttributeWriteError: the kernel rejects it, or the attribute does not exist.
    """
    try:
        attribute = os.open(path, os.O_WRONLY)
        try:
            os.write(attribute, text.encode())
        finally:
            os.close(attribute)
    except OSError as error:
        raise AttributeWriteError(path, text, error) from error


def list_folder(folder: Path, pattern: str) -> list[Path]:
    """Return the paths below a folder that match a pattern, by the number in their names.

    Args:
        folder: the folder; the list is empty if it does not exist.
        pattern: pattern of names.
    """
    try:
        return sorted(folder.glob(pattern), key=lambda each: (parse_number(each.name), each.name))
    except OSError:
        return []


def parse_number(name: str) -> int:
    """Return the number at the end of a name: 3 for `region3`, 1 for `decoder2.1`; -1 without a number.

    Args:
        name: the name.
    """
    found = re.search(r"\d+$", name)
    return int(found[0]) if found else -1


def find_driver(device: Path) -> str:
    """Return the name of a device's driver; "" if it has none.

    Args:
        device: folder of the device.
    """
    try:
        return (device / "driver").readlink().name
    except OSError:
        return ""
