"""Finds programs of the driver."""

import os
from pathlib import Path
from typing import Final

__all__ = ["find_program"]

_FOLDERS: Final = (
    "usr/local/sbin",
    "usr/local/bin",
    "usr/sbin",
    "usr/bin",
    "sbin",
    "bin",
    "usr/local/nvidia/bin",
)


def find_program(root: Path, name: str) -> Path | None:
    """Return the path of an executable below `root`, or None if it does not exist. Blocking."""
    places = (root / folder / name for folder in _FOLDERS)
    return next((place for place in places if place.is_file() and os.access(place, os.X_OK)), None)
