"""Optional values, and optional access to lists and maps by index. Source: cel-go cel.OptionalTypes.

The compiler ensures that `or` and `orValue` evaluate their argument only if it is needed.
"""

from typing import Final

from dradriver.cel.compile.functions import Overload, function, method, never_called
from dradriver.cel.evaluate.cost import no_cost
from dradriver.cel.evaluate.errors import ErrorValue, excerpt
from dradriver.cel.evaluate.steps import LONG_TEXT, Spend, first_work
from dradriver.cel.evaluate.values import NONE, Duration, Optional, Timestamp, from_key, size_of, to_key

__all__ = ["OVERLOADS"]

_YEAR_ONE: Final = -62135596800 * 10**9


def _is_zero(value: object) -> bool:
    if value is None:
        return True
    if isinstance(value, bool | int | float | str | bytes | tuple | list | dict):
        return not value
    if isinstance(value, Duration):
        return value.nanos == 0
    if isinstance(value, Timestamp):
        return value.nanos == _YEAR_ONE
    return isinstance(value, Optional) and not value.present


def _value(optional: Optional) -> object:
    if not optional.present:
        raise ErrorValue("optional.none() has no value", "use orValue(...) or hasValue()")
    return optional.value


def _unwrap(optionals: tuple[object, ...]) -> object:
    values: list[object] = []
    for optional in optionals:
        if not isinstance(optional, Optional):
            raise ErrorValue("unwrap() needs a list of optionals")
        if optional.present:
            values.append(optional.value)
    return tuple(values)


def _or(first: Optional, second: Optional) -> Optional:
    return first if first.present else second


def _or_value(optional: Optional, otherwise: object) -> object:
    return optional.value if optional.present else otherwise


def _hash_work(args: list[object]) -> int:
    return 2 + size_of(args[1]) // LONG_TEXT


def _insert(mapping: dict[object, object], key: object, value: object) -> object:
    map_key = to_key(key)
    if map_key in mapping:
        raise ErrorValue(f"insert failed: key {excerpt(key)} already exists")
    mapping[map_key] = value
    return mapping


def _insert_all(mapping: dict[object, object], entries: dict[object, object], *, spend: Spend) -> object:
    spend(2 * len(entries) + sum(len(key) for key in entries if isinstance(key, str)) // LONG_TEXT)
    for key, value in entries.items():
        if key in mapping:
            raise ErrorValue(f"insert failed: key {excerpt(from_key(key))} already exists")
        mapping[key] = value
    return mapping


OVERLOADS: Final[tuple[Overload, ...]] = (
    function("optional.of(V): optional(V)", Optional.of),
    function("optional.ofNonZeroValue(V): optional(V)", lambda v: NONE if _is_zero(v) else Optional.of(v)),
    function("optional.none(): optional(V)", lambda: NONE),
    method("value(optional(V)): V", _value),
    method("hasValue(optional(V)): bool", lambda optional: optional.present),
    method("or(optional(V), optional(V)): optional(V)", _or, no_cost),
    method("orValue(optional(V), V): V", _or_value, no_cost),
    function("optional.unwrap(list(optional(V))): list(V)", _unwrap, work=first_work(2)),
    method("unwrapOpt(list(optional(V))): list(V)", _unwrap, work=first_work(2)),
    method("first(list(V)): optional(V)", lambda items: Optional.of(items[0]) if items else NONE),
    method("last(list(V)): optional(V)", lambda items: Optional.of(items[-1]) if items else NONE),
    function("_[_](list(A), int): A", never_called),
    function("_[_](map(A, B), A): B", never_called),
    function("_[_](optional(list(V)), int): optional(V)", never_called),
    function("_[_](optional(map(K, V)), K): optional(V)", never_called),
    function("_[?_](list(V), int): optional(V)", never_called),
    function("_[?_](optional(list(V)), int): optional(V)", never_called),
    function("_[?_](map(K, V), K): optional(V)", never_called),
    function("_[?_](optional(map(K, V)), K): optional(V)", never_called),
    function("@insert(map(K, V), K, V): map(K, V)", _insert, work=_hash_work),
    function("@insert_all(map(K, V), map(K, V)): map(K, V)", _insert_all, metered=True),
)
"""All functions of this module; `compile.environment` collects them."""
