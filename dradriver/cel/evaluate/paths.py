"""Reads fields and elements: `a.b`, `a[0]`, `a.?b`, `has(a.b)`.

If a path goes through an optional value, its result is optional: for a missing part it is `optional.none()` and
not an error.
"""

from typing import Final

from dradriver.cel.evaluate.errors import ErrorValue, excerpt
from dradriver.cel.evaluate.values import NONE, Optional, UInt, to_key, type_name

__all__ = ["is_present", "qualify", "qualify_optional"]

_MAX_NAME: Final = 63
_KEYS: Final = frozenset({str, int, UInt, bool, float})


def qualify(value: object, key: object) -> object:
    """Return the field or element `key` of `value`.

    Raises:
        ErrorValue: the field or element does not exist.
    """
    if isinstance(value, dict):
        try:
            return value[to_key(key)]
        except KeyError:
            raise _missing_key_error(key) from None
    if isinstance(value, tuple | list):
        index = _index(key)
        if 0 <= index < len(value):
            return value[index]
        raise ErrorValue(f"index out of bounds: {index}", "check size() or use [?...]")
    if isinstance(value, Optional):
        return qualify_optional(value.value, key) if value.present else NONE
    raise _missing_key_error(key)


def qualify_optional(value: object, key: object) -> Optional:
    """Return the field or element `key` of `value`, if it exists.

    Raises:
        ErrorValue: `key` can't index a list.
    """
    if type(key) not in _KEYS:
        raise ErrorValue(f"a {type_name(key)} can't be a key")
    if isinstance(value, dict):
        try:
            return Optional.of(value[to_key(key)])
        except KeyError:
            return NONE
    if isinstance(value, tuple | list):
        index = _index(key)
        return Optional.of(value[index]) if 0 <= index < len(value) else NONE
    if isinstance(value, Optional):
        return qualify_optional(value.value, key) if value.present else NONE
    return NONE


def is_present(value: object, key: object) -> bool:
    """Return the result of `has()`."""
    return qualify_optional(value, key).present


def _missing_key_error(key: object) -> ErrorValue:
    if isinstance(key, str):
        name = key if len(key) <= _MAX_NAME else excerpt(key)
        return ErrorValue(f"no such key: {name}", f"use has(...) or .?{name}")
    if isinstance(key, bytes | tuple | list | dict):
        return ErrorValue(f"no such key: a {type_name(key)}", "use `in` or [?...]")
    return ErrorValue(f"no such key: {key}", "use `in` or [?...]")


def _index(key: object) -> int:
    kind = type(key)
    if kind is int or kind is UInt:
        return int(key)  # type: ignore[call-overload, no-any-return]
    if isinstance(key, float) and key.is_integer():
        return int(key)
    raise ErrorValue(f"a list has no index of type {type_name(key)}")
