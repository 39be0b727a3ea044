"""Names of devices and counter sets, made of the IDs of resources."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable
from typing import Final

__all__ = ["make_labels"]

_MAX_LENGTH: Final = 63
_HASH_DIGITS: Final = 8
_OTHER: Final = re.compile(r"[^a-z0-9]+")


def make_labels(keys: Iterable[tuple[str, ...]]) -> dict[tuple[str, ...], str]:
    """Return a DNS label for each key, all of them different.

    A label is the key's IDs with `-` between them. It has a hash of the key if it would be too long, or if it
    would be the label of another key too. So it stays the same while the IDs of the hardware do.

    Args:
        keys: the keys: a kind of resource, which is not in the label, and IDs.
    """
    plain = {key: "-".join(filter(None, map(_clean, key[1:]))) for key in keys}
    counts = Counter(plain.values())
    return {
        key: label if len(label) <= _MAX_LENGTH and counts[label] == 1 and label else _shorten(label, key)
        for key, label in plain.items()
    }


def _clean(part: str) -> str:
    return _OTHER.sub("-", part.lower()).strip("-")


def _shorten(label: str, key: tuple[str, ...]) -> str:
    digits = hashlib.sha256("\0".join(key).encode()).hexdigest()[:_HASH_DIGITS]
    kept = label[: _MAX_LENGTH - _HASH_DIGITS - 1].rstrip("-")
    return f"{kept}-{digits}" if kept else digits
