"""Decides which requests of a pod may choose a device that another request of the pod has chosen.

Only a request with admin access may do this, and only for devices chosen by requests of earlier claims.
"Earlier" refers to the order of the claims, not to the order of the search. So a proof may serve the requests
in any order and has the same result.

Requests of one claim with the same access behave alike. They share a *mark*, a bit that marks devices as
chosen. Each request also has the set of marks that exclude it from a device.
"""

from collections.abc import Sequence
from typing import Final, TypeAlias

from dradriver.allocator.request.subrequests import ParsedRequest

__all__ = ["EVERY_MARK", "Marks", "marks_of"]

Marks: TypeAlias = tuple[int, int]
"""The mark of a request, and the marks that exclude it, as bits."""

EVERY_MARK: Final = -1


def marks_of(requests: Sequence[ParsedRequest]) -> list[Marks]:
    """Return the marks of each request."""
    sides = [(request.claim, any(ask.admin for ask in request.alternatives)) for request in requests]
    if not any(admin for _, admin in sides):
        return [(1, EVERY_MARK)] * len(requests)
    bits = {side: 1 << number for number, side in enumerate(dict.fromkeys(sides))}
    excluded = {side: sum(bit for other, bit in bits.items() if _excludes(side, other)) for side in bits}
    return [(bits[side], excluded[side]) for side in sides]


def _excludes(one: tuple[int, bool], other: tuple[int, bool]) -> bool:
    """Return whether requests with these (claim, admin access) pairs never share a device."""
    _, later_has_admin = max(one, other)
    return one[0] == other[0] or not later_has_admin
