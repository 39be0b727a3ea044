"""Claims with the allocations of plans in flight (Reserve), so that two pods never get one device."""

from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from dradriver.control.scheduler.snapshot import Plan
from dradriver.model.resource.claim import Allocation, ResourceClaim

__all__ = ["with_assumed"]


def with_assumed(claims: Iterable[ResourceClaim], plans: Sequence[Plan]) -> Iterator[ResourceClaim]:
    """Yield the claims as they will be once all plans are written.

    Includes special claims that do not exist yet.
    """
    promised = {uid: allocation for plan in plans for uid, allocation in plan.allocations.items()}
    for claim in claims:
        allocation = promised.get(claim.metadata.uid)
        yield claim if allocation is None or claim.allocation is not None else _allocated(claim, allocation)
    for plan in plans:
        special = plan.special
        if special is not None and special.allocation is not None:
            yield _allocated(special.claim, special.allocation)


def _allocated(claim: ResourceClaim, allocation: Allocation) -> ResourceClaim:
    return replace(claim, status=replace(claim.status, allocation=allocation))
