"""Who may choose a device that another request of the same pod has chosen.

Nobody, except for admin access: such a request also takes what requests of the claims before its own hold.
"Before" is the order of the claims, not the order in which something is tried, so a proof may serve the
requests in any order and comes to the same answer.

Requests of one claim with the same access are all alike in this. So they share a *mark*, a bit with which
devices are marked as chosen, and each has the set of marks that keep it away from a device.
"""

from collections.abc import Sequence
from typing import Final, TypeAlias

from dradriver.allocator.request.subrequests import ParsedRequest

__all__ = ["EVERY_MARK", "Marks", "marks_of"]

Marks: TypeAlias = tuple[int, int]
"""The mark of a request, and the marks that keep it away, as bits."""

EVERY_MARK: Final = -1


def marks_of(requests: Sequence[ParsedRequest]) -> list[Marks]:
    """Per request its marks."""
    sides = [(request.claim, any(ask.admin for ask in request.alternatives)) for request in requests]
    if not any(admin for _, admin in sides):
        return [(1, EVERY_MARK)] * len(requests)
    bits = {side: 1 << number for number, side in enumerate(dict.fromkeys(sides))}
    excluded = {side: sum(bit for other, bit in bits.items() if _excludes(side, other)) for side in bits}
    return [(bits[side], excluded[side]) for side in sides]


def _excludes(one: tuple[int, bool], other: tuple[int, bool]) -> bool:
    """Whether requests of these (claim, admin access) never have a device in common."""
    _, later_has_admin = max(one, other)
    return one[0] == other[0] or not later_has_admin
