"""The version of dradriver. `pyproject.toml` reads it from here; a process needs no package metadata for it."""

from typing import Final

__all__ = ["VERSION"]

VERSION: Final = "0.1.0"
