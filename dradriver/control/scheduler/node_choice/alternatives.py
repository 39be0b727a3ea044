"""Score the alternatives of requests (KEP-4816): the nodes of such a pod are compared one by one."""

from collections.abc import Mapping
from typing import Final

from dradriver.control.scheduler.snapshot import Cycle
from dradriver.model.resource.claim import Allocation

__all__ = ["has_alternatives", "score_alternatives"]

_ALTERNATIVES: Final = 8
"""The maximum number of alternatives of a request (`FirstAvailableDeviceRequestMaxSize`)."""


def has_alternatives(cycle: Cycle) -> bool:
    """Return whether a score depends on which alternative of a request is allocated."""
    return any(r.first_available for claim in cycle.to_allocate for r in claim.spec.devices.requests)


def score_alternatives(cycle: Cycle, allocations: Mapping[str, Allocation]) -> int:
    """Score alternatives of `firstAvailable` requests: an earlier alternative is better (KEP-4816).

    Args:
        cycle: the attempt, after PreFilter.
        allocations: the allocations on one node, by the claim's UID.
    """
    total = 0
    for claim in cycle.to_allocate:
        allocation = allocations.get(claim.metadata.uid)
        allocated = {result.request for result in allocation.devices.results} if allocation else set[str]()
        for request in claim.spec.devices.requests:
            names = [f"{request.name}/{alternative.name}" for alternative in request.first_available]
            total += sum(_ALTERNATIVES - rank for rank, name in enumerate(names) if name in allocated)
    return total
