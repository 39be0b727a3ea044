"""What it costs to take a device, for the order `packed`.

Less is better, in this order:


1. *size*: how much of its counter sets it takes: the smallest device that will do;
2. *room*: how much is left of them: of equal ones that in the fullest counter set;
3. *spoiled*: what of its component could be had before and can't after, as the sum of the sizes.

All in millionths. A device that consumes nothing takes all of itself.
"""

from collections.abc import Sequence
from typing import Final, TypeAlias

__all__ = ["WHOLE", "Cost", "Row", "costs", "share_of"]

Cost: TypeAlias = tuple[int, int, int]
"""Size, room, spoiled."""

Row: TypeAlias = tuple[tuple[int, int], ...]
"""(Counter, nanos) or (counter set, groups as bits)."""

WHOLE: Final = 10**6


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
    found = []
    for device, need in enumerate(needs):
        after = dict(need)
        mine = dict(groups[device])
        spoiled = sum(
            size
            for other, theirs, size in rivals
            if any(left[at] - after.get(at, 0) < nano for at, nano in other)
            or any(not joined[at] & mine.get(at, -1) & bits for at, bits in theirs)
        )
        found.append((sizes[device], share_of([(left[at], amounts[at]) for at, _ in need]), spoiled))
    return found
