"""Optional values, and optional access to lists and maps by index. Source: cel-go cel.OptionalTypes.

`or` and `orValue` evaluate their argument only if it is needed; the compiler ensures this.
"""

from typing import Final

from dradriver.cel.compile.functions import Overload, function, method
from dradriver.cel.evaluate.cost import zero
from dradriver.cel.evaluate.errors import ErrorValue, shown
from dradriver.cel.evaluate.steps import LONG_TEXT, Spend, of_first
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
    found: list[object] = []
    for optional in optionals:
        if not isinstance(optional, Optional):
            raise ErrorValue("unwrap() of what is not optional")
        if optional.present:
            found.append(optional.value)
    return tuple(found)


def _indexed(container: object, index: object) -> object:
    """Raise if called: the compiler reads fields and indexes itself, as one path."""
    raise AssertionError((container, index))


def _or(first: Optional, second: Optional) -> Optional:
    return first if first.present else second


def _or_value(optional: Optional, otherwise: object) -> object:
    return optional.value if optional.present else otherwise


def _hashing(args: list[object]) -> int:
    return 2 + size_of(args[1]) // LONG_TEXT


def _insert(mapping: dict[object, object], key: object, value: object) -> object:
    found = to_key(key)
    if found in mapping:
        raise ErrorValue(f"insert failed: key {shown(key)} already exists")
    mapping[found] = value
    return mapping


def _insert_all(mapping: dict[object, object], entries: dict[object, object], *, spend: Spend) -> object:
    spend(2 * len(entries) + sum(len(key) for key in entries if isinstance(key, str)) // LONG_TEXT)
    for key, value in entries.items():
        if key in mapping:
            raise ErrorValue(f"insert failed: key {shown(from_key(key))} already exists")
        mapping[key] = value
    return mapping


OVERLOADS: Final[tuple[Overload, ...]] = (
    function("optional.of(V): optional(V)", Optional.of),
    function("optional.ofNonZeroValue(V): optional(V)", lambda v: NONE if _is_zero(v) else Optional.of(v)),
    function("optional.none(): optional(V)", lambda: NONE),
    method("value(optional(V)): V", _value),
    method("hasValue(optional(V)): bool", lambda optional: optional.present),
    method("or(optional(V), optional(V)): optional(V)", _or, zero),
    method("orValue(optional(V), V): V", _or_value, zero),
    function("optional.unwrap(list(optional(V))): list(V)", _unwrap, work=of_first(2)),
    method("unwrapOpt(list(optional(V))): list(V)", _unwrap, work=of_first(2)),
    method("first(list(V)): optional(V)", lambda items: Optional.of(items[0]) if items else NONE),
    method("last(list(V)): optional(V)", lambda items: Optional.of(items[-1]) if items else NONE),
    function("_[_](list(A), int): A", _indexed),
    function("_[_](map(A, B), A): B", _indexed),
    function("_[_](optional(list(V)), int): optional(V)", _indexed),
    function("_[_](optional(map(K, V)), K): optional(V)", _indexed),
    function("_[?_](list(V), int): optional(V)", _indexed),
    function("_[?_](optional(list(V)), int): optional(V)", _indexed),
    function("_[?_](map(K, V), K): optional(V)", _indexed),
    function("_[?_](optional(map(K, V)), K): optional(V)", _indexed),
    function("@insert(map(K, V), K, V): map(K, V)", _insert, work=_hashing),
    function("@insert_all(map(K, V), map(K, V)): map(K, V)", _insert_all, metered=True),
)
"""All functions of this module, for the registry."""
