"""What it costs to take a device, for the order `packed`.

Less is better, in this order:

1. *size*: how much of its counter sets it takes: the smallest device that will do;
2. *largest*: the size of the largest device that could be had before and can't after: a slice of a GPU that is
   in pieces anyway rather than one of a GPU that is whole;
3. *room*: what can be had of its component, as the sum of the sizes: of equal ones that in the fullest;
4. *spoiled*: what of that can't be had any more, as the sum of the sizes.

All in millionths. A device that consumes nothing takes all of itself.

The order of the four was found by trial: profiles that come and go at random on nodes of A100s. With `largest`
in second place, and room told by what can be had and not by what is left of counters, the least is refused.
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
    """The mean share of (amount, total) pairs; the whole when there are none."""
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
    """The cost of each device of a component.

    Args:
        amounts: how much there is of each counter.
        needs: per device what it takes of them.
        groups: per device its compatibility groups by counter set.
        left: how much is left of each counter.
        joined: the groups still possible by counter set.
        free: the devices that can be had, as bits.
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
