"""Plain Python as authors give it to constructors, as the tuples and mappings that values keep.

A value that does not fit is an error that names the object and the field. It is raised in the constructor, on
the author's own line; a decoder would only find it far from there.
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
    """The items of any iterable but a text or a mapping: a text is one item, never a list of letters.

    Raises:
        TypeError: it is something else.
    """
    if isinstance(given, tuple):
        return given
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise TypeError(f"a list is wanted, not {type(given).__name__}")
    return tuple(given)


def as_mapping(given: Mapping[K, V]) -> Mapping[K, V]:
    """The mapping itself.

    Raises:
        TypeError: it is something else.
    """
    if not isinstance(given, Mapping):
        raise TypeError(f"a mapping is wanted, not {type(given).__name__}")
    return given


def at_field(field: str, error: Exception) -> str:
    """The error's message behind the field, which it may continue: `attributes` and `['x']: ...`."""
    text = str(error)
    return f"{field}{text}" if text.startswith("[") else f"{field}: {text}"


def misfit(owner: str, field: str, error: TypeError | ValueError) -> TypeError | InvalidQuantityError:
    """The error to raise instead of `error`, which names the object and the field.

    Args:
        owner: the object, such as `device 'gpu-0'`.
        field: the field, as the author writes it.
        error: what is wrong with its value.
    """
    kind = InvalidQuantityError if isinstance(error, InvalidQuantityError) else TypeError
    return kind(f"{owner}: {at_field(field, error)}")


def tuples(owner: str, value: msgspec.Struct, fields: Iterable[str]) -> None:
    """Turns fields of a value that is being constructed into tuples.

    Args:
        owner: the object, for messages.
        value: the value.
        fields: its fields that hold lists.

    Raises:
        TypeError: a field is no list; the message names object and field.
    """
    for field in fields:
        try:
            force_setattr(value, field, as_tuple(getattr(value, field)))
        except TypeError as error:
            raise misfit(owner, field, error) from None
