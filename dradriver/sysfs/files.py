"""Files of sysfs that may not be there."""

from pathlib import Path
from typing import Final

__all__ = ["SYSFS", "read", "read_int"]

SYSFS: Final = Path("/sys")


def read(path: Path) -> str:
    """The file's text without the spaces around it; "" when there is no such file."""
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        return ""


def read_int(path: Path) -> int | None:
    """The number in the file; None when there is no such file, or no number in it."""
    try:
        return int(read(path))
    except ValueError:
        return None
