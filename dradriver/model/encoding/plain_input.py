"""Converts plain Python arguments of constructors to the tuples and mappings that values contain.

If an argument has a wrong type, the constructor raises an error that names the object and the field. So the
traceback shows the line of the author's code that contains the mistake. Without this check, the mistake would
only be detected later, in other code.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

import msgspec
from msgspec.structs import force_setattr

from dradriver.model.quantity import InvalidQuantityError

__all__ = ["as_tuple", "convert_to_tuples", "convert_values", "format_field_error", "wrap_field_error"]

T = TypeVar("T")

V = TypeVar("V")


def as_tuple(given: Iterable[T]) -> tuple[T, ...]:
    """Return the items of an iterable as a tuple. Reject texts and mappings.

    Without this check, a text would be split into characters.

    Raises:
        TypeError: the argument is a text, a mapping or not iterable.
    """
    if isinstance(given, tuple):
        return given
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise TypeError(f"must be a list, not {type(given).__name__}")
    return tuple(given)


def convert_values(given: Mapping[str, V], convert: Callable[[V], T]) -> dict[str, T]:
    """Return a mapping with converted values.

    Args:
        given: the mapping.
        convert: converts one value. If it raises a TypeError or InvalidQuantityError, the key is added to the
            message.

    Raises:
        TypeError: the argument is not a mapping.
    """
    if not isinstance(given, Mapping):
        raise TypeError(f"must be a mapping, not {type(given).__name__}")
    converted = {}
    for key, value in given.items():
        try:
            converted[key] = convert(value)
        except (TypeError, InvalidQuantityError) as error:
            raise type(error)(f"[{key!r}]: {error}") from None
    return converted


def format_field_error(field: str, error: Exception) -> str:
    """Return the name of the field, followed by the error's message.

    A message that starts with an index follows the name directly: the field `attributes` and the message
    `['x']: is wrong` give `attributes['x']: is wrong`. Otherwise a colon separates them: `pool: is wrong`.
    """
    text = str(error)
    return f"{field}{text}" if text.startswith("[") else f"{field}: {text}"


def wrap_field_error(owner: str, field: str, error: TypeError | ValueError) -> TypeError | InvalidQuantityError:
    """Return the error to raise instead of `error`. It also names the object and the field.

    Args:
        owner: the object, such as `device 'gpu-0'`.
        field: the name of the field as the author writes it.
        error: the error about the field's value.
    """
    kind = InvalidQuantityError if isinstance(error, InvalidQuantityError) else TypeError
    return kind(f"{owner}: {format_field_error(field, error)}")


def convert_to_tuples(owner: str, value: msgspec.Struct, fields: Iterable[str]) -> None:
    """Turn fields of a value into tuples. A constructor calls this.

    Args:
        owner: the object, for messages.
        value: the value.
        fields: the names of the fields that contain lists.

    Raises:
        TypeError: a field is not a list. The message names object and field.
    """
    for field in fields:
        given = getattr(value, field)
        if isinstance(given, tuple):
            continue
        try:
            force_setattr(value, field, as_tuple(given))
        except TypeError as error:
            raise wrap_field_error(owner, field, error) from None
