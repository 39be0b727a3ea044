"""Finds the value that a document has at a path."""

import re
from collections.abc import Mapping
from typing import Final

from dradriver.cli.files import Document

__all__ = ["written_value"]

_STEPS: Final = re.compile(r"\[([^\]]*)\]|([^.\[\]]+)")
_OPTIONAL_LEVELS: Final = ("basic", "exactly")
"""Levels that exist only in some versions of an object."""


def written_value(document: Document, path: str) -> object:
    """Return the value at the path of a problem; None if the document has no such value.

    A key can contain dots, such as `example.com/gpu`, so the longest key that matches the path is used.

    Args:
        document: the object.
        path: such as `spec.devices[0].capacity.memory.value`.
    """
    return _find(document.body, path)


def _find(value: object, path: str) -> object:
    path = path.removeprefix(".")
    if not path:
        return value
    if isinstance(value, list):
        match = _STEPS.match(path)
        index = match[1] if match else None
        is_index = index is not None and index.isdigit() and int(index) < len(value)
        return _find(value[int(index)], path[match.end() :]) if match and index and is_index else None
    if not isinstance(value, Mapping):
        return None
    for key in sorted(value, key=len, reverse=True):
        for start in (key, f"[{key}]"):
            if path.startswith(start) and (rest := path[len(start) :])[:1] in {"", ".", "["}:
                return _find(value[key], rest)
    match = _STEPS.match(path)
    if match and match[2] in _OPTIONAL_LEVELS:
        return _find(value, path[match.end() :])
    levels = (value[level] for level in _OPTIONAL_LEVELS if level in value)
    return next((found for level in levels if (found := _find(level, path)) is not None), None)
