"""List every error of a configuration, although decoding stops at the first one.

Only decoding decides whether a configuration is valid. This module only explains a rejection. It decodes each
field separately, from the inside out. A struct is decoded as a whole, so that the author's rules run, once each
of its fields is valid.
"""

from collections.abc import Collection, Iterator, Mapping
from types import NoneType, UnionType
from typing import Annotated, Final, TypeGuard, TypeVar, Union, cast, get_args, get_origin

import msgspec

from dradriver.errors import InvalidObjectError, Problem
from dradriver.model.encoding.codec import from_builtins

__all__ = ["fitting", "mistakes"]

T = TypeVar("T")

_SUBJECT: Final = "configuration"  # users do not see it: messages name the object instead


def fitting(wanted: type[T], data: object) -> T:
    """Convert decoded JSON to a value of the type `wanted`.

    Raises:
        InvalidObjectError: it does not fit. This includes every exception of the author's rules, not only the
            expected types. The configuration cannot be used with this driver, neither here nor on a node.
            Rejected now, the claim cannot hold a device for a pod that never starts.
    """
    try:
        return from_builtins(wanted, data, _SUBJECT)
    except (InvalidObjectError, RecursionError):
        raise
    except (Exception, SystemExit) as error:  # a rule must not end the process of all other claims
        rule = f"can't be checked: the driver's rule raised {error!r}, which is a defect of the driver"
        raise InvalidObjectError(_SUBJECT, [Problem("", rule)]) from error


def mistakes(wanted: object, data: object) -> list[Problem]:
    """Return all reasons why `data` (decoded JSON) is not of type `wanted`, except for unknown fields."""
    if inside := list(_inside(wanted, data)):
        return inside
    try:
        fitting(cast(type, wanted), data)  # `X | None` works like a class
    except InvalidObjectError as error:
        return list(error.problems)
    return []


def _inside(wanted: object, data: object) -> Iterator[Problem]:
    wanted = _alternative(wanted, data)
    if _is_struct(wanted) and isinstance(data, Mapping):
        yield from _members(wanted, data)
        return
    container, items = get_origin(wanted), get_args(wanted)
    if not isinstance(container, type):
        return
    if issubclass(container, Mapping) and isinstance(data, Mapping):
        for key, value in data.items():
            yield from _under(f"[{key}]", items[1], value)
    elif issubclass(container, Collection) and isinstance(data, list) and items[1:] in {(), (...,)}:
        for index, item in enumerate(data):
            yield from _under(f"[{index}]", items[0], item)


def _members(wanted: type[msgspec.Struct], data: Mapping[str, object]) -> Iterator[Problem]:
    for field in msgspec.structs.fields(wanted):
        value = data.get(field.encode_name)
        if field.encode_name in data and (value is not None or field.required):
            yield from _under(field.encode_name, field.type, value)
        elif field.required:
            yield Problem(field.encode_name, f"is missing: {wanted.__name__} requires it")


def _under(place: str, wanted: object, data: object) -> Iterator[Problem]:
    yield from (problem.under(place) for problem in mistakes(wanted, data))


def _alternative(wanted: object, data: object) -> object:
    """Return the type without constraints, `| None`, and the alternatives that a tag excludes."""
    if get_origin(wanted) is Annotated:
        return _alternative(get_args(wanted)[0], data)
    if get_origin(wanted) in {Union, UnionType}:
        options = [each for each in get_args(wanted) if each is not NoneType]
        chosen = options if len(options) == 1 else [each for each in options if _has_tag_of(each, data)]
        return _alternative(chosen[0], data) if chosen else wanted
    return wanted


def _is_struct(wanted: object) -> TypeGuard[type[msgspec.Struct]]:
    return isinstance(wanted, type) and issubclass(wanted, msgspec.Struct)


def _has_tag_of(option: object, data: object) -> bool:
    if not (_is_struct(option) and isinstance(data, Mapping)):
        return False
    config = option.__struct_config__
    return config.tag_field is not None and bool(data.get(config.tag_field) == config.tag)
