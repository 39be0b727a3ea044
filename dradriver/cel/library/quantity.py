"""Kubernetes quantities in CEL: `quantity("10Gi")` and its methods."""

import re
from typing import Final

from dradriver.cel.compile.functions import Overload, function, method
from dradriver.cel.evaluate.cost import first_cost
from dradriver.cel.evaluate.errors import ErrorValue, excerpt, succeeds
from dradriver.cel.evaluate.steps import fixed_work
from dradriver.cel.evaluate.values import DerivedQuantity, WrittenQuantity
from dradriver.model.quantity import NANO, InvalidQuantityError, Quantity

__all__ = ["OVERLOADS"]


_INT64: Final = 2**63
_MAX_LENGTH: Final = 400
_WORK: Final = fixed_work(40)
_SYNTAX: Final = re.compile(r"([+-]?)([0-9]*)\.?([0-9]*)(.*)", re.DOTALL)
_BINARY: Final = {suffix: 10 * power for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)}
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}

_Amount = tuple[int, int]


def _quantity(text: str) -> WrittenQuantity:
    if len(text) > _MAX_LENGTH:
        raise ErrorValue(f"{excerpt(text)} is not a quantity: at most {_MAX_LENGTH} digits are read")
    try:
        quantity = WrittenQuantity.parse(text)
    except InvalidQuantityError as error:
        raise ErrorValue(str(error)) from error
    quantity.amount = _amount_of_text(text)
    return quantity


def _split(text: str) -> tuple[str, str, str, str]:
    """Return sign, whole digits, fraction and suffix."""
    match = _SYNTAX.fullmatch(text)
    assert match is not None  # noqa: S101 - everything matches
    return match[1], match[2], match[3], match[4]


def _power(suffix: str) -> int | None:
    """Return the power of ten of a suffix; None for a power of two."""
    if suffix in _BINARY:
        return None
    return _DECIMAL[suffix] if suffix in _DECIMAL else int(suffix[1:])


def _amount_of_text(text: str) -> _Amount | None:
    """Return value and power of ten; None if Kubernetes stores the quantity as a decimal, not in 64 bits."""
    sign, digits, fraction, suffix = _split(text)
    digits = digits.lstrip("0") or "0"
    power = _power(suffix)
    if power is None:
        shift = _BINARY[suffix]
        if fraction or 15 - len(digits) - shift * 3 // 10 - 1 < 0:
            return None
        value, scale = int(digits) << shift, 0
    else:
        value, scale = int(digits + fraction), power - len(fraction)
        if len(digits) + len(fraction) > 18 or scale < -9:
            return None
    return (-value if sign == "-" else value, scale) if value < _INT64 else None


def _amount(quantity: Quantity) -> _Amount | None:
    return quantity.amount if isinstance(quantity, WrittenQuantity) else _amount_of_text(str(quantity))


def _sum(left: Quantity, nano: int, amount: _Amount | None) -> DerivedQuantity:
    derived = DerivedQuantity.parse("0")
    derived.amount = _add_amounts(_amount(left), amount)
    derived.nano = left.nano + nano
    if derived.amount is not None:
        value, power = derived.amount
        derived.nano = value * 10 ** (power + 9)
    return derived


def _add_amounts(left: _Amount | None, right: _Amount | None) -> _Amount | None:
    if left is None or right is None:
        return None
    if right[0] == 0:
        return left
    if left[0] == 0:
        return right
    scale = min(left[1], right[1])
    parts = [value * 10 ** (power - scale) for value, power in (left, right)]
    fits = all(-_INT64 <= value < _INT64 for value in (*parts, sum(parts)))
    return (sum(parts), scale) if fits else None


def _add(left: Quantity, right: Quantity) -> DerivedQuantity:
    return _sum(left, right.nano, _amount(right))


def _add_int(left: Quantity, right: int) -> DerivedQuantity:
    return _sum(left, right * NANO, (right, 0))


def _sub(left: Quantity, right: Quantity) -> DerivedQuantity:
    amount = _amount(right)
    return _sum(left, -right.nano, None if amount is None else (_negate(amount[0]), amount[1]))


def _sub_int(left: Quantity, right: int) -> DerivedQuantity:
    return _sum(left, -right * NANO, (_negate(right), 0))


def _negate(value: int) -> int:
    """Return the negated value. As in Kubernetes, the smallest 64-bit number stays unchanged."""
    return value if value == -_INT64 else -value


def _order(left: Quantity, right: Quantity) -> int:
    return (left.nano > right.nano) - (left.nano < right.nano)


def _to_int64(quantity: Quantity) -> int | None:
    amount = _amount(quantity)
    if amount is None or not 0 <= amount[1] <= 18:
        return 0 if amount is not None and amount[0] == 0 and amount[1] > 0 else None
    value = amount[0] * 10 ** amount[1]
    return value if -_INT64 <= value < _INT64 else None


def _as_integer(quantity: Quantity) -> int:
    integer = _to_int64(quantity)
    if integer is None:
        raise ErrorValue("the quantity is not written as a whole number of 64 bits", "use isInteger() first")
    return integer


OVERLOADS: Final[tuple[Overload, ...]] = (
    function("quantity(string): quantity", _quantity, first_cost, work=_WORK),
    function("isQuantity(string): bool", lambda text: succeeds(_quantity, text), first_cost, work=_WORK),
    function("sign(quantity): int", lambda q: (q.nano > 0) - (q.nano < 0)),
    method("isGreaterThan(quantity, quantity): bool", lambda a, b: a.nano > b.nano),
    method("isLessThan(quantity, quantity): bool", lambda a, b: a.nano < b.nano),
    method("compareTo(quantity, quantity): int", _order),
    method("asApproximateFloat(quantity): double", lambda q: q.nano / NANO),
    method("asInteger(quantity): int", _as_integer, work=_WORK),
    method("isInteger(quantity): bool", lambda quantity: _to_int64(quantity) is not None, work=_WORK),
    method("add(quantity, quantity): quantity", _add, work=_WORK),
    method("add(quantity, int): quantity", _add_int, work=_WORK),
    method("sub(quantity, quantity): quantity", _sub, work=_WORK),
    method("sub(quantity, int): quantity", _sub_int, work=_WORK),
)
"""All functions of this module; `compile.environment` collects them."""
