"""Converts plain Python arguments of constructors into the tuples and mappings that values keep.

An argument that does not fit raises an error that names the object and the field. The constructor raises it, on
the author's own line. A decoder would find it only later, in other code.
"""

from collections.abc import Iterable, Mapping
from typing import TypeVar

import msgspec
from msgspec.structs import force_setattr

from dradriver.model.quantity import InvalidQuantityError

__all__ = ["as_mapping", "as_tuple", "at_field", "misfit", "tuples"]

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")


def as_tuple(given: Iterable[T]) -> tuple[T, ...]:
    """Return the items of any iterable except a text or a mapping.

    A text is never split into letters.

    Raises:
        TypeError: the argument is a text, a mapping or not iterable.
    """
    if isinstance(given, tuple):
        return given
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise TypeError(f"a list is wanted, not {type(given).__name__}")
    return tuple(given)


def as_mapping(given: Mapping[K, V]) -> Mapping[K, V]:
    """Return the mapping itself.

    Raises:
        TypeError: the argument is not a mapping.
    """
    if not isinstance(given, Mapping):
        raise TypeError(f"a mapping is wanted, not {type(given).__name__}")
    return given


def at_field(field: str, error: Exception) -> str:
    """Return the error's message after the field.

    A message may continue the field: `attributes` and `['x']: ...`.
    """
    text = str(error)
    return f"{field}{text}" if text.startswith("[") else f"{field}: {text}"


def misfit(owner: str, field: str, error: TypeError | ValueError) -> TypeError | InvalidQuantityError:
    """Return the error to raise instead of `error`; it names the object and the field.

    Args:
        owner: the object, such as `device 'gpu-0'`.
        field: the field, as the author writes it.
        error: the problem of its value.
    """
    kind = InvalidQuantityError if isinstance(error, InvalidQuantityError) else TypeError
    return kind(f"{owner}: {at_field(field, error)}")


def tuples(owner: str, value: msgspec.Struct, fields: Iterable[str]) -> None:
    """Turn fields of a value under construction into tuples.

    Args:
        owner: the object, for messages.
        value: the value.
        fields: its fields that hold lists.

    Raises:
        TypeError: a field is not a list; the message names object and field.
    """
    for field in fields:
        try:
            force_setattr(value, field, as_tuple(getattr(value, field)))
        except TypeError as error:
            raise misfit(owner, field, error) from None
