"""Names for JSON values.

The server stores objects as plain dictionaries, because their fields are known only at run time, from the
schema. Two rules apply everywhere. Code must not change a stored object: it must copy the object and change the
copy. Bytes that must stay as sent are `msgspec.Raw` leaves.
"""

from collections.abc import Iterable
from typing import Any, TypeAlias

import msgspec

JsonValue: TypeAlias = Any
"""A decoded JSON value, or a `msgspec.Raw` leaf."""

Object: TypeAlias = dict[str, Any]
"""A decoded Kubernetes object, or any JSON object in it."""

MAX_DEPTH = 128
"""The maximum nesting of lists and maps.

The limit is low because functions of the server call themselves for each level, and Python's stack is limited.
Go's decoder allows 10,000 levels.
"""


def is_too_deep(value: JsonValue) -> bool:
    """Return whether lists and maps, including those in `Raw` leaves, are nested deeper than `MAX_DEPTH`."""
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [inner for each in level for inner in _children(each) if isinstance(inner, _NESTING)]
        if not level:
            return False
    return True


_NESTING = (dict, list, msgspec.Raw)


def _children(value: JsonValue) -> Iterable[JsonValue]:
    if isinstance(value, msgspec.Raw):
        value = msgspec.json.decode(value)
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def copy(value: JsonValue) -> JsonValue:
    """Return a deep copy. `Raw` leaves are shared, because they can't change."""
    if isinstance(value, dict):
        return {key: copy(item) for key, item in value.items()}
    if isinstance(value, list):
        return [copy(item) for item in value]
    return value


def dig(value: JsonValue, *path: str) -> JsonValue:
    """Return the value at a path of object fields, or None if a field of the path is missing."""
    for step in path:
        if not isinstance(value, dict):
            return None
        value = value.get(step)
    return value


def encode(value: JsonValue) -> bytes:
    """Return the JSON bytes of a value. `Raw` leaves are written unchanged."""
    return msgspec.json.encode(value)
