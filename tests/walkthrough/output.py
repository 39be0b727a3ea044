"""Compares what a command printed with what a page shows, except for values that differ between two runs."""

import re
from typing import Final

__all__ = ["is_shown"]

_DIFFERENT: Final = (
    (r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:?\d\d)?", "TIME"),
    (r"\b\d\d:\d\d:\d\d(\.\d+)?\b", "TIME"),
    (r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "UID"),
    (r"\b\d+(\.\d+)?(ms|s|m|h)\b", "DURATION"),
    # The API server completes a name of `generateName` with five of these characters.
    (r"-[bcdfghjklmnpqrstvwxz2456789]{5}\b", "-RANDOM"),
    (r"https://127\.0\.0\.1:\d+", "https://127.0.0.1:PORT"),
)


def is_shown(printed: str, shown: str) -> bool:
    """Return whether a page shows what a command printed.

    Args:
        printed: the output of the command.
        shown: the lines of the page. A line `...` is any number of lines.
    """
    parts = [re.escape(_equalize(part)) for part in re.split(r"^\.\.\.\n", shown, flags=re.MULTILINE)]
    return re.fullmatch(".*".join(parts), _equalize(printed)) is not None


def _equalize(text: str) -> str:
    for pattern, name in _DIFFERENT:
        text = re.sub(pattern, name, text)
    # A terminal breaks long lines, and columns of tables are as wide as their values.
    return "".join(f"{word} " for word in text.split())
