"""Computes the cost of a device for the order `packed`.

A smaller value is better. The values are compared in this order:

1. *size*: the part of its counter sets that the device takes. The smallest sufficient device is preferred.
2. *largest*: the size of the largest device that is available before the choice and not after it. This prefers
a slice of a GPU that is already divided to a slice of a whole GPU.
3. *room*: the sum of the sizes of the devices available in its component. Among equal devices, the one in the
fullest component is preferred.
4. *spoiled*: the sum of the sizes of the devices that the choice makes unavailable.

All values are in millionths. A device that consumes nothing has the size of a whole.

The order of the four values was found by experiment: profiles arrive and leave at random on nodes with A100s.
The number of refusals is lowest with `largest` in second place, and with `room` measured by available devices
instead of remaining counters.
"""

from collections.abc import Sequence
from typing import Final, TypeAlias

__all__ = ["LONE", "WHOLE", "Cost", "Row", "costs", "share_of"]

Cost: TypeAlias = tuple[int, int, int, int]
"""Size, largest, room, spoiled."""

Row: TypeAlias = tuple[tuple[int, int], ...]
"""(Counter, nanos) or (counter set, groups as bits)."""

WHOLE: Final = 10**6

LONE: Final[Cost] = (WHOLE, WHOLE, WHOLE, 0)
"""The cost of a device that consumes nothing."""


def share_of(parts: Sequence[tuple[int, int]]) -> int:
    """Return the mean share of (amount, total) pairs; the whole if there are none."""
    shares = [part * WHOLE // total for part, total in parts if total > 0]
    return sum(shares) // len(shares) if shares else WHOLE


def costs(
    amounts: Sequence[int],
    needs: Sequence[Row],
    groups: Sequence[Row],
    left: Sequence[int],
    joined: Sequence[int],
    free: int,
) -> list[Cost]:
    """Return the cost of each device of a component.

    Args:
        amounts: the total of each counter.
        needs: for each device, the amounts that it takes.
        groups: for each device, its compatibility groups by counter set.
        left: the rest of each counter.
        joined: the groups still possible, by counter set.
        free: the available devices, as bits.
    """
    sizes = [share_of([(nano, amounts[at]) for at, nano in need]) for need in needs]
    rivals = [(need, groups[device], sizes[device]) for device, need in enumerate(needs) if free >> device & 1]
    room = sum(size for _, _, size in rivals)
    found = []
    for device, need in enumerate(needs):
        after, mine = dict(need), dict(groups[device])
        lost = [
            size
            for other, theirs, size in rivals
            if any(left[at] - after.get(at, 0) < nano for at, nano in other)
            or any(not joined[at] & mine.get(at, -1) & bits for at, bits in theirs)
        ]
        found.append((sizes[device], max(lost, default=0), room, sum(lost)))
    return found
