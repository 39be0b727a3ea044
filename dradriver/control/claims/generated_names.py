"""Name suffixes as in `generateName`, but always the same for the same purpose."""

import hashlib
from typing import Final

__all__ = ["suffix"]

_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
_LENGTH: Final = 5


def suffix(seed: str) -> str:
    """Return five letters as in `generateName`, always the same for the same seed."""
    number = int.from_bytes(hashlib.sha256(seed.encode()).digest()[:8], "big")
    return "".join(_LETTERS[number // len(_LETTERS) ** place % len(_LETTERS)] for place in range(_LENGTH))
