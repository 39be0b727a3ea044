"""Sets of CEL values that compare by CEL's equality. A lookup usually takes constant time.

CEL's equality differs from Python's: `1 == 1.0 == 1u`, `true != 1`, and NaN equals no value. An int equals a
double if they are equal as doubles, so two different ints may equal one double. Values without a hash (lists,
maps, optionals) are compared one by one, and these steps are counted.
"""

from collections.abc import Iterable
from typing import Final

from dradriver.cel.evaluate.equality import is_same
from dradriver.cel.evaluate.steps import LONG_TEXT, Spend
from dradriver.cel.evaluate.values import (
    DerivedQuantity,
    Duration,
    Opaque,
    Timestamp,
    TypeName,
    UInt,
)
from dradriver.model.quantity import Quantity

__all__ = ["ValueSet"]

_STEP: Final = 6
"""Steps of adding or finding a value."""


class ValueSet:
    """A set of CEL values.

    Args:
        spend: counts steps.
        items: the values that the set contains initially.
    """

    def __init__(self, spend: Spend, items: Iterable[object] = ()) -> None:
        self._spend = spend
        self._hashed: set[object] = set()
        self._integers: set[int] = set()
        self._integers_as_doubles: set[float] = set()
        self._doubles: set[float] = set()
        self._compared: list[object] = []
        for item in items:
            self.add(item)

    def has(self, value: object) -> bool:
        """Return whether `value` equals one of the values. If a comparison fails, the values are different."""
        self._spend(_STEP)
        kind = type(value)
        if kind is float:
            return value in self._doubles or value in self._integers_as_doubles if value == value else False  # noqa: PLR0124
        if kind is int or kind is UInt:
            return value in self._integers or (bool(self._doubles) and float(value) in self._doubles)  # type: ignore[arg-type]
        key = self._key(value)
        if key is not None:
            return key in self._hashed
        return any(is_same(value, other, self._spend) for other in self._compared)

    def add(self, value: object) -> None:
        """Add a value."""
        self._spend(_STEP)
        kind = type(value)
        if kind is float:
            if value == value:  # noqa: PLR0124 - nothing equals not-a-number
                self._doubles.add(value)  # type: ignore[arg-type]
        elif kind is int or kind is UInt:
            self._integers.add(value)  # type: ignore[arg-type]
            self._integers_as_doubles.add(float(value))  # type: ignore[arg-type]
        elif isinstance(value, DerivedQuantity):
            return  # no value equals a `DerivedQuantity` on the right
        elif (key := self._key(value)) is not None:
            self._hashed.add(key)
        else:
            self._compared.append(value)

    def _key(self, value: object) -> object:
        """Return a key. If two values are equal in CEL, their keys are equal in Python. None: no key exists."""
        kind = type(value)
        if kind is str or kind is bytes:
            self._spend(len(value) // LONG_TEXT)  # type: ignore[arg-type]
            return value
        if value is None or kind is bool:
            return (kind, value)
        if isinstance(value, Quantity):
            return (Quantity, value.nano)
        if isinstance(value, Opaque):
            self._spend(value.weight)
            return (kind, value.identity)
        if isinstance(value, TypeName):
            return (kind, value.name)
        return (kind, value.nanos) if isinstance(value, Timestamp | Duration) else None
