"""Computes the cost of a device for the order `packed`.

A smaller value is better. The values are compared in this order:

1. *size*: the part of the component that the device takes: the sum of need / amount over the counters, divided
   by the number of counters of the component. The smallest sufficient device is preferred.
2. *largest*: the size of the largest device that the choice makes unavailable. So a partition of a GPU that is
   already divided is preferred to a partition of an undivided GPU.
3. *spoiled*: the sum of the sizes of the devices that the choice makes unavailable.
4. *left*: the part of the capacity of a device with shares in use that is left, else the full size. So the
   shares of one device are used up before those of another device.

All values are in millionths. A device that consumes nothing has the full size.

The order was found by experiments in which claims arrive at random and leave again (docs/decisions/0030). Among
equal devices, the first one is taken, so the last components become empty and can serve large requests.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from dradriver.allocator.supply.node_supply import Row
from dradriver.model.resource.counters import FULL_SIZE, compute_size

__all__ = ["FULL_DEVICE_COST", "Cost", "CostTable", "compute_costs"]

Cost: TypeAlias = tuple[int, int, int, int]
"""The values *size*, *largest*, *spoiled* and *left* of a device."""

FULL_DEVICE_COST: Final[Cost] = (FULL_SIZE, FULL_SIZE, 0, FULL_SIZE)
"""The cost of a device that consumes nothing."""


class CostTable:
    """Computes the costs of the devices of a component in all its states.

    Sets of devices are integers with one bit for each device. The devices that a choice makes unavailable are
    the union of one set for each counter that the chosen device takes. So a state costs one bisection for each
    distinct need, and one union for each need of a device.

    Args:
        amounts: the total of each counter.
        needs: for each device, the amounts that it takes.
        groups: for each device, its compatibility groups by counter set.
    """

    def __init__(self, amounts: Sequence[int], needs: Sequence[Row], groups: Sequence[Row]) -> None:
        self._sizes = [compute_size(((nano, amounts[at]) for at, nano in need), len(amounts)) for need in needs]
        masks_by_size = _masks((size, number) for number, size in enumerate(self._sizes))
        self._by_size = sorted(masks_by_size.items(), reverse=True)
        self._takers = [_Takers(row) for row in _transpose(len(amounts), needs)]
        self._members = [list(_masks(row).items()) for row in _transpose(_sets(groups), groups)]
        self._needs, self._needs_of = _intern(needs)
        self._groups, self._groups_of = _intern(groups)

    def costs(self, left: Sequence[int], groups_left: Sequence[int], free: int) -> list[Cost]:
        """Return the cost of each device in one state.

        Args:
            left: the amount of each counter that is left.
            groups_left: the groups that are still possible, by counter set.
            free: the available devices, as bits.
        """
        fitting = free
        for takers, amount in zip(self._takers, left, strict=True):
            fitting &= ~takers.of_more_than(amount)
        for at in range(len(self._members)):
            fitting &= ~self._excluded(at, groups_left[at])
        by_need = [fitting & self._takers[at].of_more_than(left[at] - nano) for at, nano in self._needs]
        by_groups = [fitting & self._excluded(at, groups_left[at] & bits) for at, bits in self._groups]
        results = []
        for size, own_needs, own_groups in zip(self._sizes, self._needs_of, self._groups_of, strict=True):
            lost = 0
            for number in own_needs:
                lost |= by_need[number]
            for number in own_groups:
                lost |= by_groups[number]
            spoiled, largest = self._measure(lost)
            results.append((size, largest, spoiled, FULL_SIZE))
        return results

    def _excluded(self, at: int, possible: int) -> int:
        """Return the devices that have none of the possible groups of a counter set."""
        excluded = 0
        for bits, mask in self._members[at]:
            if not bits & possible:
                excluded |= mask
        return excluded

    def _measure(self, devices: int) -> tuple[int, int]:
        """Return the sum and the maximum of the sizes of the devices."""
        total = largest = 0
        for size, mask in self._by_size:
            if common := devices & mask:
                total += size * common.bit_count()
                largest = largest or size
        return total, largest


class _Takers:
    """The devices that take from one counter.

    Args:
        row: pairs of (nanos, device).
    """

    def __init__(self, row: Iterable[tuple[int, int]]) -> None:
        masks = _masks(row)
        self._needs = sorted(masks)
        self._from = [0] * (len(masks) + 1)
        for position in reversed(range(len(masks))):
            self._from[position] = self._from[position + 1] | masks[self._needs[position]]

    def of_more_than(self, nano: int) -> int:
        """Return the devices that take more than this amount, as bits."""
        return self._from[bisect_right(self._needs, nano)]


def compute_costs(
    amounts: Sequence[int],
    needs: Sequence[Row],
    groups: Sequence[Row],
    left: Sequence[int],
    groups_left: Sequence[int],
    free: int,
) -> list[Cost]:
    """Return the cost of each device of a component in one state; see `CostTable`."""
    return CostTable(amounts, needs, groups).costs(left, groups_left, free)


def _sets(groups: Sequence[Row]) -> int:
    return 1 + max((at for row in groups for at, _ in row), default=-1)


def _transpose(length: int, rows: Sequence[Row]) -> list[list[tuple[int, int]]]:
    """Return for each index the pairs of (value, number of the row)."""
    result: list[list[tuple[int, int]]] = [[] for _ in range(length)]
    for number, row in enumerate(rows):
        for at, value in row:
            result[at].append((value, number))
    return result


def _masks(pairs: Iterable[tuple[int, int]]) -> dict[int, int]:
    """Return for each value the numbers that have it, as bits."""
    masks: dict[int, int] = {}
    for value, number in pairs:
        masks[value] = masks.get(value, 0) | 1 << number
    return masks


def _intern(rows: Sequence[Row]) -> tuple[list[tuple[int, int]], list[list[int]]]:
    """Return the distinct pairs of all rows, and for each row the numbers of its pairs."""
    numbers: dict[tuple[int, int], int] = {}
    numbered = [[numbers.setdefault(pair, len(numbers)) for pair in row] for row in rows]
    return list(numbers), numbered
