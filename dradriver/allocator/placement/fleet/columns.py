"""The values of one attribute on all devices of a slice or a pool.

The columns of a slice are made when the slice arrives, so a claim that reads another attribute costs one lookup
for each pool. Slices whose devices have equal values share a column. Pools are compared by the numbers of their
columns.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain, count
from typing import Final, TypeAlias

from dradriver.allocator.meter import SORTING, Meter

__all__ = ["AttributeColumn", "ColumnInterner", "Columns", "ValuePatterns", "no_column"]

_MAX_PATTERNS: Final = 200_000
_DEVICES_PER_STEP: Final = 4
"""Devices whose values are compared in one step of sorting."""


@dataclass(slots=True, eq=False)
class AttributeColumn:
    """The values of one attribute, by device.

    Attributes:
        number: equal columns have equal numbers. If no device has the attribute, this is minus the number of
            devices.
        parts: for each slice and each device in it, the value as (type, value), or None if the device lacks the
            attribute. If attributes of the slice differ only in their domains, the value of a device that has
            several of them is a tuple of (name, value).
        distinct: the values without None, each once.
    """

    number: int
    parts: tuple[tuple[Hashable, ...], ...]
    distinct: tuple[Hashable, ...]
    _groups: dict[Hashable, int] = field(default_factory=dict)

    @property
    def values(self) -> Sequence[Hashable]:
        """Return the value of each device."""
        return self.parts[0] if len(self.parts) == 1 else tuple(chain.from_iterable(self.parts))

    @property
    def size(self) -> int:
        """Return the number of devices."""
        return sum([len(part) for part in self.parts])

    @property
    def groups(self) -> Mapping[Hashable, int]:
        """Return the devices with each value, as bits."""
        if not self._groups:
            for device, value in enumerate(self.values):
                self._groups[value] = self._groups.get(value, 0) | 1 << device
        return self._groups


Columns: TypeAlias = Mapping[str, AttributeColumn]
"""The columns of a slice or pool, by the attribute's name without its domain."""


@lru_cache(maxsize=1024)
def no_column(devices: int) -> AttributeColumn:
    """Return the column of an attribute that no device has.

    Args:
        devices: the number of devices.
    """
    return AttributeColumn(-devices, ((None,) * devices,), ())


class ColumnInterner:
    """Makes columns and stores equal columns once."""

    def __init__(self) -> None:
        self._known: dict[Hashable, AttributeColumn] = {}
        self._numbers = count(1)

    def of_slice(self, values: Mapping[str, Sequence[Hashable]]) -> Columns:
        """Return the columns of a slice.

        Args:
            values: for each attribute, by its name with its domain: the value of each device, or None.
        """
        names: dict[str, list[str]] = {}
        for name in values:
            names.setdefault(name.rpartition("/")[2], []).append(name)
        columns = {}
        for short, full in names.items():
            column = values[full[0]] if len(full) == 1 else _merge([(name, values[name]) for name in full])
            columns[short] = self._intern(tuple(column))
        return columns

    def of_pool(self, slices: Iterable[tuple[Columns, int]]) -> Columns:
        """Return the columns of a pool.

        Args:
            slices: the columns and the number of devices of each slice.
        """
        members = [(columns, size) for columns, size in slices if size]
        if len(members) == 1:
            return members[0][0]
        return {
            name: self._join([columns.get(name) or no_column(size) for columns, size in members])
            for name in dict.fromkeys(name for columns, _ in members for name in columns)
        }

    @property
    def size(self) -> int:
        """Return the number of stored columns."""
        return len(self._known)

    def clear(self) -> None:
        """Forget the stored columns. Their numbers are not reused."""
        self._known.clear()

    def _intern(self, values: tuple[Hashable, ...]) -> AttributeColumn:
        column = self._known.get(values)
        if column is None:
            distinct = tuple([each for each in dict.fromkeys(values) if each is not None])
            column = self._known[values] = AttributeColumn(next(self._numbers), (values,), distinct)
        return column

    def _join(self, columns: Sequence[AttributeColumn]) -> AttributeColumn:
        key = tuple([each.number for each in columns])
        column = self._known.get(key)
        if column is None:
            parts = tuple([each.parts[0] for each in columns])
            distinct = tuple(dict.fromkeys([value for each in columns for value in each.distinct]))
            column = self._known[key] = AttributeColumn(next(self._numbers), parts, distinct)
        return column


def _merge(named: Sequence[tuple[str, Sequence[Hashable]]]) -> list[Hashable]:
    """Return one value for each device of attributes that differ only in their domains."""
    merged: list[Hashable] = []
    for of_device in zip(*[values for _, values in named], strict=True):
        found = [(name, value) for (name, _), value in zip(named, of_device, strict=True) if value is not None]
        # The full name is the same on all devices of equal bodies, which a column is never compared without.
        merged.append(found[0][1] if len(found) == 1 else tuple(found) or None)
    return merged


class ValuePatterns:
    """Numbers the patterns of equal values. A pattern does not depend on the values themselves."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, ...], int] = {}
        self._by_pattern: dict[Hashable, int] = {}
        self._numbers = count()

    def number(self, columns: Sequence[AttributeColumn], meter: Meter) -> int:
        """Return the number of the pattern of equal values.

        Args:
            columns: the column of an attribute in each of some pools.
            meter: counts the work.

        Raises:
            BudgetSpentError: the budget is spent.
        """
        key = tuple([column.number for column in columns])
        number = self._known.get(key)
        if number is None:
            meter.spend(SORTING, 1 + sum([column.size for column in columns]) // _DEVICES_PER_STEP)
            if len(self._known) > _MAX_PATTERNS:
                self._known.clear()
                self._by_pattern.clear()
            values: dict[Hashable, int] = {}
            pattern = tuple([_renumber(value, values) for column in columns for value in column.values])
            if pattern not in self._by_pattern:
                self._by_pattern[pattern] = next(self._numbers)
            number = self._known[key] = self._by_pattern[pattern]
        return number


def _renumber(value: Hashable, numbers: dict[Hashable, int]) -> Hashable:
    if isinstance(value, tuple) and value and isinstance(value[0], tuple):
        # Several attributes of the device differ only in their domains.
        return tuple([_renumber(each, numbers) for _, each in value])
    if isinstance(value, tuple) and len(value) == 2 and value[0] == "list":
        return tuple([numbers.setdefault(each, len(numbers)) for each in value[1]])
    return numbers.setdefault(value, len(numbers))
