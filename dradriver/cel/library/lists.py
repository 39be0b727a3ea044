"""Functions on lists: Kubernetes' own (`sum`, `min`, `includes` ...) and CEL's (`sort`, `slice` ...).

Source: k8s.io/apiserver library.Lists version 1, cel-go ext.Lists version 3.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final

from dradriver.cel.compile.functions import Overload, function, method
from dradriver.cel.evaluate import steps
from dradriver.cel.evaluate.cost import LIST, list_cost, pairwise_cost, traversal_cost
from dradriver.cel.evaluate.equality import compare, is_same
from dradriver.cel.evaluate.errors import ErrorValue
from dradriver.cel.evaluate.membership import ValueSet
from dradriver.cel.evaluate.steps import Spend, first_work
from dradriver.cel.evaluate.values import Duration, Timestamp, UInt, size_of, type_name
from dradriver.cel.library.standard import checked_int, checked_uint
from dradriver.cel.library.time import checked_duration

__all__ = ["OVERLOADS"]

_COMPARABLE: Final = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
_ORDERED_TYPES: Final = frozenset({
    "int", "uint", "double", "bool", "string", "bytes", "google.protobuf.Duration", "google.protobuf.Timestamp",
})  # fmt: skip
_MAX_RANGE: Final = 10_000_000
_ELEMENT: Final = 8
"""Steps of reading one element."""

_Items = tuple[object, ...]


def _compare_or_none(left: object, right: object) -> int | None:
    """Return the order of two values; None if they have no order.

    The functions on lists treat None as "in order".
    """
    try:
        return compare(left, right)
    except ErrorValue:
        return None


def _require_comparable(item: object) -> None:
    if type_name(item) not in _ORDERED_TYPES:
        raise ErrorValue("no such overload: the elements have no order")


def _is_sorted(items: _Items) -> bool:
    for item in items:
        _require_comparable(item)
    return all(_compare_or_none(left, right) != 1 for left, right in pairwise(items))


def _extreme(name: str, replaces: int) -> Callable[[_Items], object]:
    def call(items: _Items) -> object:
        if not items:
            raise ErrorValue(f"{name}(): the list is empty")
        extreme = items[0]
        for item in items:
            _require_comparable(item)
            if _compare_or_none(extreme, item) == replaces:
                extreme = item
        return extreme

    return call


def _sum(kind: type, zero: object, add: Callable[[Any, Any], Any]) -> Callable[[_Items], object]:
    def call(items: _Items) -> object:
        total = zero
        for item in items:
            if type(item) is not kind:
                raise ErrorValue("no such overload: sum() needs elements of one type")
            total = add(total, item)
        return total

    return call


def _index_of(items: _Items, wanted: object, *, spend: Spend) -> int:
    return next((index for index, item in enumerate(items) if is_same(item, wanted, spend)), -1)


def _last_index_of(items: _Items, wanted: object, *, spend: Spend) -> int:
    return next((index for index in range(len(items) - 1, -1, -1) if is_same(items[index], wanted, spend)), -1)


def _includes(target: object, wanted: object, *, spend: Spend = steps.spend_nothing) -> bool:
    if isinstance(target, tuple | list):
        return any(is_same(item, wanted, spend) for item in target)
    return is_same(target, wanted, spend)


def _traversal_work(args: list[object]) -> int:
    """Return the steps of reading every part of the first argument and computing the cost of this part."""
    total = 0
    pending = [args[0]]
    while pending and total <= steps.LIMIT:
        item = pending.pop()
        total += _ELEMENT
        if isinstance(item, tuple | list):
            total += len(item)
            if total <= steps.LIMIT:
                pending.extend(item)
        else:
            total += size_of(item) // 16
    return total


def _slice(items: _Items, start: int, end: int) -> object:
    if not 0 <= start <= end <= len(items):
        raise ErrorValue(f"slice({start}, {end}): the range is outside of the list of {len(items)}")
    return tuple(items[start:end])


def _require_list(items: object) -> None:
    if not isinstance(items, tuple | list):
        raise ErrorValue("no such overload: the function needs a list")


def _flatten(items: _Items, levels: int = 1, *, spend: Spend) -> object:
    _require_list(items)
    if not isinstance(levels, int):
        raise ErrorValue("no such overload: flatten() needs an int")
    if levels < 0:
        raise ErrorValue("the level must not be negative")
    elements: list[object] = []
    spend(2 * len(items))
    pending = [(item, levels) for item in reversed(items)]
    while pending:
        item, left = pending.pop()
        if left and isinstance(item, tuple | list):
            spend(2 * len(item))
            pending += [(inner, left - 1) for inner in reversed(item)]
        else:
            elements.append(item)
    return tuple(elements)


def _flatten_cost(args: list[object], result: object) -> int:  # noqa: ARG001
    levels = args[1] if len(args) > 1 else 1
    factor = levels if isinstance(levels, int) and levels >= 0 else 1
    return factor * size_of(args[0]) + 1 + LIST


def _sort(items: _Items) -> object:
    return _sort_by(items, items)


def _sort_work(which: int) -> Callable[[list[object]], int]:
    """Return a work function for sorting by the list in argument `which`.

    Each element is compared about log2(length) times.
    """

    def work(args: list[object]) -> int:
        keys = args[which]
        if not isinstance(keys, tuple | list) or not keys:
            return 1
        rounds = len(keys).bit_length()
        if len(keys) * rounds > steps.LIMIT:
            return len(keys) * rounds
        texts = sum(len(key) for key in keys if isinstance(key, str | bytes))
        return (2 * len(keys) + texts // 32) * rounds

    return work


def _rank(key: Any) -> Any:  # noqa: ANN401 - whatever Python compares as CEL does
    return key.nanos if isinstance(key, Timestamp | Duration) else key


def _sort_by(items: _Items, keys: _Items) -> object:
    _require_list(items)
    if not items:
        return items
    kind = type(keys[0])
    _require_comparable(keys[0])
    if any(type(key) is not kind for key in keys):
        raise ErrorValue("the elements of a list to sort must have one type")
    if kind is float and len(keys) > 1 and any(key != key for key in keys):  # noqa: PLR0124
        raise ErrorValue("not-a-number has no order")
    ranks = [_rank(key) for key in keys]
    return tuple(items[index] for index in sorted(range(len(items)), key=ranks.__getitem__))


def _range(count: int) -> object:
    if not 0 <= count <= _MAX_RANGE:
        raise ErrorValue(f"lists.range({count}): the count must be between 0 and {_MAX_RANGE}")
    return tuple(range(count))


def _range_work(args: list[object]) -> int:
    count = args[0]
    return count // 6 if isinstance(count, int) and 0 < count <= _MAX_RANGE else 1


def _distinct(items: _Items, *, spend: Spend) -> object:
    seen = ValueSet(spend)
    distinct: list[object] = []
    for item in items:
        if not seen.has(item):
            seen.add(item)
            distinct.append(item)
    return tuple(distinct)


def _append(items: list[object], item: object) -> list[object]:
    items.append(item)
    return items


def _append_cost(args: list[object], result: object) -> int:  # noqa: ARG001
    return 1 + LIST


OVERLOADS: Final[tuple[Overload, ...]] = (
    *(
        method(signature.format(kind), call, traversal_cost, work=_traversal_work)
        for signature, call in (
            ("isSorted(list({0})): bool", _is_sorted),
            ("max(list({0})): {0}", _extreme("max", -1)),
            ("min(list({0})): {0}", _extreme("min", 1)),
        )
        for kind in _COMPARABLE
    ),
    *(
        method(f"sum(list({kind})): {kind}", call, traversal_cost, work=_traversal_work)
        for kind, call in (
            ("int", _sum(int, 0, lambda a, b: checked_int(a + b))),
            ("uint", _sum(UInt, UInt(0), lambda a, b: checked_uint(int(a) + int(b)))),
            ("double", _sum(float, 0.0, lambda a, b: a + b)),
            ("duration", _sum(Duration, Duration(0), lambda a, b: checked_duration(a.nanos + b.nanos))),
        )
    ),
    method("indexOf(list(A), A): int", _index_of, traversal_cost, work=_traversal_work, metered=True),
    method("lastIndexOf(list(A), A): int", _last_index_of, traversal_cost, work=_traversal_work, metered=True),
    method("includes(dyn, dyn): bool", _includes, traversal_cost, work=_traversal_work, metered=True),
    method("slice(list(T), int, int): list(T)", _slice, list_cost, work=first_work(6)),
    method("flatten(list(list(T))): list(T)", _flatten, _flatten_cost, guarded=False, metered=True),
    method("flatten(list(dyn), int): list(dyn)", _flatten, _flatten_cost, guarded=False, metered=True),
    *(
        method(signature.format(kind), call, pairwise_cost(keys), guarded=False, work=_sort_work(keys))
        for signature, call, keys in (
            ("sort(list({0})): list({0})", _sort, 0),
            ("@sort_by(list(T), list({0})): list(T)", _sort_by, 1),
        )
        for kind in _COMPARABLE
    ),
    function("lists.range(int): list(int)", _range, list_cost, work=_range_work),
    method("reverse(list(T)): list(T)", lambda items: tuple(items[::-1]), list_cost, work=first_work(6)),
    method("distinct(list(T)): list(T)", _distinct, pairwise_cost(0), metered=True),
    function("@append(list(A), A): list(A)", _append, _append_cost),
)
"""All functions of this module; `compile.environment` collects them."""
