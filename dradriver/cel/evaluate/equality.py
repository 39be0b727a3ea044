"""Compares values for equality and order.

In CEL, `==` fails only in one case: its left side has one of Kubernetes' own types and its right side has
another type. This package raises the same errors, because selectors may absorb them and the verdict must equal
that of Kubernetes. Nested values are compared without recursion.
"""

from typing import Final

from dradriver.cel.evaluate.errors import AbortError, ErrorValue
from dradriver.cel.evaluate.steps import LONG_TEXT, Spend, spend_nothing
from dradriver.cel.evaluate.values import (
    DerivedQuantity,
    Duration,
    Joined,
    Opaque,
    Optional,
    Timestamp,
    TypeName,
    UInt,
    type_name,
)
from dradriver.model.quantity import Quantity

__all__ = ["compare", "contains", "equal", "is_same", "require_hashable"]

_NUMBERS: Final = frozenset({int, UInt, float})
_UNORDERED: Final = 2
_PAIR: Final = 8
"""Steps of comparing one pair of values in lists or maps."""

_PLAIN: Final = frozenset({bool, str, bytes})
_TEXTS: Final = frozenset({str, bytes})
_LISTS: Final = frozenset({tuple, list, Joined})


def equal(left: object, right: object, spend: Spend = spend_nothing) -> bool:
    """Return `left == right`.

    A value can contain one object many times. A comparison of each occurrence can take exponential time.
    Therefore the steps are counted.

    Raises:
        ErrorValue: the left side is a quantity, semver, URL, address or format, and the right side has another
            type.
        AbortError: the comparison takes more steps than `spend` allows.
    """
    kind = type(left)
    if kind is type(right):
        if kind in _PLAIN:
            if kind is not bool and len(left) > LONG_TEXT:  # type: ignore[arg-type]
                spend(len(left) // LONG_TEXT)  # type: ignore[arg-type]
            return left == right
        if kind in _NUMBERS:
            return left == right
    return _compare_parts(left, right, spend)


def is_same(left: object, right: object, spend: Spend = spend_nothing) -> bool:
    """Return whether `left == right` is true; False if the comparison fails."""
    try:
        return equal(left, right, spend)
    except ErrorValue:
        return False


def contains(wanted: object, items: tuple[object, ...], *, spend: Spend) -> bool:
    """Return whether a list has an element that `wanted` equals."""
    spend(_ELEMENT * len(items))
    return any(is_same(wanted, item, spend) for item in items)


_ELEMENT: Final = 4
"""Steps of comparing one element of a list with a plain value."""


def _compare_parts(left: object, right: object, spend: Spend) -> bool:
    """Compare pairs until one differs.

    If the comparison of two elements fails, lists and maps treat the elements as different. `Joined` raises the
    error.
    """
    pending: list[tuple[object, object, bool]] = [(left, right, False)]
    fault: ErrorValue | None = None
    while pending:
        a, b, swallow = pending.pop()
        spend(_PAIR + _length(a))
        try:
            pairs = _pairs(a, b)
        except ErrorValue as error:
            fault = fault or (None if swallow else error)
            continue
        if pairs is None:
            return False
        inner = swallow or (type(a) is not Joined and not isinstance(a, Optional))
        pending.extend((c, d, inner) for c, d in reversed(pairs))
    if fault is not None:
        raise fault
    return True


def _length(value: object) -> int:
    """Return the steps of reading a value itself, without the comparison of its parts."""
    if type(value) in _TEXTS:
        return len(value) // LONG_TEXT  # type: ignore[arg-type]
    if type(value) in _LISTS:
        return len(value)  # type: ignore[arg-type]
    if isinstance(value, dict):
        return sum(1 + len(key) // LONG_TEXT if isinstance(key, str) else 1 for key in value)
    return value.weight if isinstance(value, Opaque) else 0


_Pairs = list[tuple[object, object]]


def _pairs(a: object, b: object) -> _Pairs | None:
    """Return the pairs of parts that must be equal so that `a` equals `b`.

    The list is empty if `a` equals `b`. The result is None if they differ.
    """
    if a is None or b is None:
        return _no_pairs_if(same=a is b)
    kind = type(a)
    if kind in _NUMBERS:
        return _no_pairs_if(same=type(b) in _NUMBERS and _compare_numbers(a, b) == 0)  # type: ignore[arg-type]
    if kind in _PLAIN:
        return _no_pairs_if(same=kind is type(b) and a == b)
    if kind in _LISTS:
        return _list_pairs(a, b)  # type: ignore[arg-type]
    if isinstance(a, dict):
        return _map_pairs(a, b)
    return _special_pairs(a, b)


def _no_pairs_if(*, same: bool) -> _Pairs | None:
    return [] if same else None


def _list_pairs(a: tuple[object, ...], b: object) -> _Pairs | None:
    if type(b) not in _LISTS or len(a) != len(b):  # type: ignore[arg-type]
        return None
    return list(zip(a, b, strict=True))  # type: ignore[call-overload]


def _map_pairs(a: dict[object, object], b: object) -> _Pairs | None:
    if not isinstance(b, dict) or len(a) != len(b):
        return None
    try:
        return [(value, b[key]) for key, value in a.items()]
    except KeyError:
        return None


def _special_pairs(a: object, b: object) -> _Pairs | None:
    if isinstance(a, Quantity):
        if not isinstance(b, Quantity) or isinstance(b, DerivedQuantity):
            raise ErrorValue("no such overload: a quantity is comparable only with a quantity", _hint(b))
        return _no_pairs_if(same=a == b)
    if isinstance(a, Opaque):
        if type(a) is not type(b):
            raise ErrorValue(f"no such overload: a {a.cel_type} is comparable only with its own type")
        return _no_pairs_if(same=a.identity == b.identity)
    if isinstance(a, Optional):
        if not isinstance(b, Optional) or a.present != b.present:
            return None
        return [(a.value, b.value)]
    if isinstance(a, TypeName):
        return _no_pairs_if(same=isinstance(b, TypeName) and a.name == b.name)
    if isinstance(a, Timestamp | Duration):
        return _no_pairs_if(same=type(a) is type(b) and a.nanos == b.nanos)
    return _no_pairs_if(same=a is b)


def _hint(right: object) -> str | None:
    if type(right) is DerivedQuantity:
        return "put the result of add() or sub() on the left, or use compareTo()"
    return "compare with quantity(...)"


def require_hashable(value: object) -> None:
    """Raise if Kubernetes' evaluator can't hash the value. No operator absorbs this error.

    Raises:
        AbortError: `value` is a version, bytes or a format.
    """
    if isinstance(value, bytes) or (isinstance(value, Opaque) and not value.hashable):
        raise AbortError(
            f"a {type_name(value)} can't be looked up in a list or map of constants", "use exists(x, x == ...)"
        )


def compare(left: object, right: object) -> int:
    """Return -1, 0 or 1 if `left` is smaller than, equal to or larger than `right`.

    Raises:
        ErrorValue: the two values can't be ordered.
    """
    kinds = type(left), type(right)
    if kinds[0] in _NUMBERS and kinds[1] in _NUMBERS:
        order = _compare_numbers(left, right)  # type: ignore[arg-type]
        if order == _UNORDERED:
            raise ErrorValue("not-a-number has no order")
        return order
    if kinds[0] is not kinds[1]:
        raise ErrorValue("no such overload: the two values have no order")
    if isinstance(left, Timestamp | Duration):
        return _order(left.nanos, right.nanos)  # type: ignore[attr-defined]
    if kinds[0] not in _PLAIN:
        raise ErrorValue("no such overload: the values have no order")
    return _order(left, right)  # type: ignore[arg-type]


def _compare_numbers(left: float, right: float) -> int:
    if left != left or right != right:  # noqa: PLR0124 - not a number
        return _UNORDERED
    if type(left) is float or type(right) is float:
        # Kubernetes converts the int to a double, except if the other double is beyond the range of an int.
        left, right = float(left), float(right)
    return _order(left, right)


def _order(left: float, right: float) -> int:
    return (left > right) - (left < right)
