"""Exact Kubernetes quantities: `500m`, `1.5`, `16Gi`, `12e6`.

A quantity consists of an integer number of nanos (1e-9), the smallest unit that Kubernetes keeps, and its
format. So sums and comparisons use integer arithmetic and are never rounded.

Source: k8s.io/apimachinery `resource.Quantity`.
"""

import re
from collections.abc import Mapping
from enum import Enum
from functools import lru_cache
from typing import Final, Self, TypeAlias

from dradriver.errors import DraError

__all__ = ["NANO", "InvalidQuantityError", "Quantity", "QuantityLike", "exact_key"]

NANO: Final = 10**9
_BINARY_MAX: Final = (2**63 - 1) * NANO  # Kubernetes limits only quantities with a binary suffix
_LONGEST: Final = 400  # digits and powers of ten; enough for every quantity and cheap to compute

_SYNTAX: Final = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<fraction>[0-9]*))?"
    r"(?P<suffix>[KMGTPE]i|[eE][+-]?[0-9]+|[numkMGTPE])?"
)
_BINARY: Final[Mapping[str, int]] = {s: 1024**i for i, s in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)}
_LARGEST_FIRST: Final = tuple(reversed(tuple(_BINARY.items())))
_DECIMAL: Final[Mapping[str, int]] = {
    "n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18,
}  # fmt: skip
_DECIMAL_SUFFIX: Final[Mapping[int, str]] = {exponent: suffix for suffix, exponent in _DECIMAL.items()}


class InvalidQuantityError(DraError, ValueError):
    """A text is not a Kubernetes quantity."""


class _Format(Enum):
    DECIMAL = "decimal"
    BINARY = "binary"
    EXPONENT = "exponent"


class Quantity:
    """An exact amount, compared by value: `Quantity.parse("1Gi") == Quantity.parse("1073741824")`.

    Attributes:
        nano: the amount in units of 1e-9.
    """

    __slots__ = ("_format", "nano")

    nano: int
    _format: _Format

    def __new__(cls, value: "QuantityLike") -> Self:
        """Return a quantity of `value`: an int in whole units, a text in Kubernetes' syntax, or a quantity.

        Raises:
            InvalidQuantityError: the text is not a quantity.
        """
        if isinstance(value, cls):
            return value
        if isinstance(value, int) and not isinstance(value, bool):
            return cls._of(value * NANO, _Format.DECIMAL)
        if isinstance(value, str):
            return cls.parse(value)
        raise InvalidQuantityError(f"{value!r} is not a quantity: must be a text such as 16Gi, or an int")

    @classmethod
    def _of(cls, nano: int, fmt: _Format) -> Self:
        self = object.__new__(cls)
        self.nano = nano
        self._format = fmt
        return self

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse Kubernetes' syntax. As in Kubernetes, digits below 1e-9 are rounded away from zero.

        Raises:
            InvalidQuantityError: `text` is not a quantity.
        """
        nano, fmt = _parse(text)
        return cls._of(nano, fmt)

    @property
    def is_whole(self) -> bool:
        """Return whether the amount is a whole number of units."""
        return self.nano % NANO == 0

    def __int__(self) -> int:
        """Return the amount in whole units, rounded up like `Value()` of Kubernetes."""
        return -(-self.nano // NANO)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.nano == other.nano

    def __hash__(self) -> int:
        return hash(self.nano)

    def __lt__(self, other: "Quantity") -> bool:
        return self.nano < other.nano

    def __le__(self, other: "Quantity") -> bool:
        return self.nano <= other.nano

    def __gt__(self, other: "Quantity") -> bool:
        return self.nano > other.nano

    def __ge__(self, other: "Quantity") -> bool:
        return self.nano >= other.nano

    def __add__(self, other: "Quantity") -> "Quantity":
        return Quantity._of(self.nano + other.nano, self._format)

    def __sub__(self, other: "Quantity") -> "Quantity":
        return Quantity._of(self.nano - other.nano, self._format)

    def __neg__(self) -> "Quantity":
        return Quantity._of(-self.nano, self._format)

    def __repr__(self) -> str:
        return f"Quantity({str(self)!r})"

    def __str__(self) -> str:
        """Return the canonical text, as the API server prints it."""
        if self.nano == 0:
            return "0"
        small = abs(self.nano) < 1024 * NANO
        if self._format is _Format.BINARY and self.is_whole and not small:
            return _binary_text(self.nano // NANO)
        return _decimal_text(self.nano, exponent_form=self._format is _Format.EXPONENT)


def exact_key(quantity: Quantity) -> tuple[int, str]:
    """Return a key for comparing both value and text: `1Gi` and `1073741824` have different keys."""
    return quantity.nano, quantity._format._value_  # noqa: SLF001 - the type's own module; faster than `value`


QuantityLike: TypeAlias = Quantity | int | str
"""A value that is accepted as a quantity: a `Quantity`, an int of whole units, or a text."""


@lru_cache(maxsize=8192)
def _parse(text: str) -> tuple[int, _Format]:
    match = _SYNTAX.fullmatch(text)
    if match is None or not text:
        raise InvalidQuantityError(
            f"{text!r} is not a quantity: must be digits and a suffix, such as 500m, 16Gi or 1e3"
        )
    fraction = match["fraction"] or ""
    suffix = match["suffix"] or ""
    known = suffix in _BINARY or suffix in _DECIMAL
    if len(text) > _LONGEST or (not known and abs(int(suffix[1:])) > _LONGEST):
        raise InvalidQuantityError(f"{text[:20]}... is not a quantity: must have at most {_LONGEST} digits")
    # The value is digits / 10**len(fraction), times the suffix. A text without digits is zero.
    digits = int((match["whole"] or "0") + fraction)
    if suffix in _BINARY:
        nano = min(_scaled(digits * _BINARY[suffix], 9 - len(fraction)), _BINARY_MAX)
        fmt = _Format.BINARY
    elif suffix in _DECIMAL:
        fmt, nano = _Format.DECIMAL, _scaled(digits, _DECIMAL[suffix] + 9 - len(fraction))
    else:
        fmt, nano = _Format.EXPONENT, _scaled(digits, int(suffix[1:]) + 9 - len(fraction))
    return (-nano if match["sign"] == "-" else nano), fmt


def _scaled(number: int, power: int) -> int:
    """Return `number * 10**power`, rounded up."""
    factor: int = 10 ** abs(power)
    return number * factor if power >= 0 else -(-number // factor)


def _binary_text(units: int) -> str:
    for suffix, factor in _LARGEST_FIRST:
        if units % factor == 0:
            return f"{units // factor}{suffix}"
    return str(units)


def _decimal_text(nano: int, *, exponent_form: bool) -> str:
    mantissa, exponent = nano, -9
    while mantissa % 1000 == 0 and exponent < 18:
        mantissa //= 1000
        exponent += 3
    if exponent_form:
        return f"{mantissa}e{exponent}" if exponent else str(mantissa)
    return f"{mantissa}{_DECIMAL_SUFFIX[exponent]}"
