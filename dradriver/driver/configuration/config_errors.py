"""List every error of a configuration, although decoding stops at the first one.

Only decoding decides whether a configuration is valid. This module only explains a rejection. It decodes each
field separately, from the inside out. Once all fields of a struct are valid, the struct is decoded as a whole,
so that the author's rules run.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Final, Literal, TypeGuard, TypeVar, Union, cast, get_args, get_origin

import msgspec

from dradriver.errors import InvalidObjectError, Problem
from dradriver.model.encoding.codec import from_builtins

__all__ = ["convert", "find_errors"]

T = TypeVar("T")

_SUBJECT: Final = "configuration"  # users do not see it: messages name the object instead


def convert(wanted: type[T], data: object) -> T:
    """Convert decoded JSON to a value of the type `wanted`.

    Raises:
        InvalidObjectError: the data does not fit, or one of the author's rules raised any exception. In both
            cases the driver could not use the configuration on a node. If the configuration were accepted here,
            the claim would hold a device for a pod that never starts.
    """
    try:
        return from_builtins(wanted, data, _SUBJECT)
    except (InvalidObjectError, RecursionError):
        raise
    except (Exception, SystemExit) as error:  # a rule must not end the process of all other claims
        rule = f"cannot be checked: a rule of the driver raised {error!r} (a defect of the driver)"
        raise InvalidObjectError(_SUBJECT, [Problem("", rule)]) from error


def find_errors(wanted: object, data: object) -> list[Problem]:
    """Return all reasons why `data` (decoded JSON) is not of type `wanted`, except for unknown fields."""
    if inner_errors := list(_find_inner_errors(wanted, data)):
        return inner_errors
    try:
        convert(cast(type, wanted), data)  # `X | None` works like a class
    except InvalidObjectError as error:
        return [_name_allowed_values(problem, _select_alternative(wanted, data)) for problem in error.problems]
    return []


def _name_allowed_values(problem: Problem, wanted: object) -> Problem:
    values = _list_allowed_values(wanted)
    if not values or not problem.rule.startswith("Invalid enum value"):
        return problem
    return Problem(problem.path, f"{problem.rule} (allowed: {', '.join(map(str, values))})")


def _list_allowed_values(wanted: object) -> Sequence[object]:
    if get_origin(wanted) is Literal:
        return get_args(wanted)
    if isinstance(wanted, type) and issubclass(wanted, Enum):
        return [member.value for member in wanted]
    return ()


def _find_inner_errors(wanted: object, data: object) -> Iterator[Problem]:
    wanted = _select_alternative(wanted, data)
    if _is_struct(wanted) and isinstance(data, Mapping):
        yield from _find_member_errors(wanted, data)
        return
    origin, arguments = get_origin(wanted), get_args(wanted)
    if not isinstance(origin, type):
        return
    if issubclass(origin, Mapping) and isinstance(data, Mapping):
        for key, value in data.items():
            yield from _find_errors_at(f"[{key}]", arguments[1], value)
    elif issubclass(origin, Collection) and isinstance(data, list) and arguments[1:] in {(), (...,)}:
        for index, item in enumerate(data):
            yield from _find_errors_at(f"[{index}]", arguments[0], item)


def _find_member_errors(wanted: type[msgspec.Struct], data: Mapping[str, object]) -> Iterator[Problem]:
    for field in msgspec.structs.fields(wanted):
        value = data.get(field.encode_name)
        if field.encode_name in data and (value is not None or field.required):
            yield from _find_errors_at(field.encode_name, field.type, value)
        elif field.required:
            yield Problem(field.encode_name, f"is required by {wanted.__name__}")


def _find_errors_at(path: str, wanted: object, data: object) -> Iterator[Problem]:
    yield from (problem.under(path) for problem in find_errors(wanted, data))


def _select_alternative(wanted: object, data: object) -> object:
    """Return `wanted` without constraints and `| None`; of a union, the member whose tag `data` has."""
    if get_origin(wanted) is Annotated:
        return _select_alternative(get_args(wanted)[0], data)
    if get_origin(wanted) in {Union, UnionType}:
        options = [each for each in get_args(wanted) if each is not NoneType]
        selected = options if len(options) == 1 else [each for each in options if _has_tag_of(each, data)]
        return _select_alternative(selected[0], data) if selected else wanted
    return wanted


def _is_struct(wanted: object) -> TypeGuard[type[msgspec.Struct]]:
    return isinstance(wanted, type) and issubclass(wanted, msgspec.Struct)


def _has_tag_of(option: object, data: object) -> bool:
    if not (_is_struct(option) and isinstance(data, Mapping)):
        return False
    config = option.__struct_config__
    return config.tag_field is not None and bool(data.get(config.tag_field) == config.tag)
