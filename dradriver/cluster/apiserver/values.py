"""Names for what travels as JSON.

The server holds objects as plain dictionaries: their shape is known from the schema at run time
only. Two rules hold everywhere: an object that was stored is never changed again (copy, then
change), and bytes that must be kept as sent are `msgspec.Raw` leaves.
"""

from typing import Any, TypeAlias

import msgspec

JsonValue: TypeAlias = Any
"""A decoded JSON value, or a `msgspec.Raw` leaf."""

Object: TypeAlias = dict[str, Any]
"""A decoded Kubernetes object, or any JSON object in it."""


def copy(value: JsonValue) -> JsonValue:
    """A deep copy; `Raw` leaves are shared, they can't change."""
    if isinstance(value, dict):
        return {key: copy(item) for key, item in value.items()}
    if isinstance(value, list):
        return [copy(item) for item in value]
    return value


def dig(value: JsonValue, *path: str) -> JsonValue:
    """The value at a path of object fields, or None where a step is missing."""
    for step in path:
        if not isinstance(value, dict):
            return None
        value = value.get(step)
    return value


def encode(value: JsonValue) -> bytes:
    """JSON bytes of a value; `Raw` leaves are written as they are."""
    return msgspec.json.encode(value)
