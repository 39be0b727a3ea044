"""Read files of sysfs that may be missing."""

from pathlib import Path
from typing import Final

__all__ = ["SYSFS", "read", "read_int"]

SYSFS: Final = Path("/sys")


def read(path: Path) -> str:
    """Return the text of the file without surrounding white space; "" if the file does not exist."""
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        return ""


def read_int(path: Path) -> int | None:
    """Return the number in the file; None if the file does not exist or contains no number."""
    try:
        return int(read(path))
    except ValueError:
        return None
