"""Decide the next step for one claim, from the claim, its record and the work of this process.

The first line that applies wins. "Own finalizer" is the finalizer of this controller, "record" is the
`ControllerAllocation`.

| claim | record | this process | step |
|---|---|---|---|
| any | of another Lease | | RIVAL |
| gone | yes | | RELEASE |
| allocated | any | has found out that others have allocated it, or the record says so | WITHDRAW |
| allocated, neither own finalizer nor record | no | | NONE: others have allocated it |
| allocated, without own finalizer, not deleted | yes | | PROTECT |
| allocated, without own finalizer, deleted | yes | | NONE: RELEASE when it is gone |
| allocated, and a reason to deallocate it (`must_deallocate`) | any | | CLEAR |
| allocated | no | | RECORD |
| allocated | yes | | NONE |
| unallocated, own finalizer or record | any | has no attempt, or nobody wants its attempt any more | RELEASE |
| unallocated, not deleted, wrong, as far as this controller must allocate it | no | | INVALID |
| unallocated, finalizer of another controller | no | | FOREIGN if this controller should allocate it |
| unallocated, immediate, not deleted | any | | ALLOCATE |
| unallocated | | | NONE: `pod_steps` decides |

So a claim that others clear is released at once, and so is a claim whose allocation was begun by an earlier
process. CLEAR is a write of the claim that fails if somebody has reserved the claim meanwhile. RELEASE follows
from the result of CLEAR. The chart's policy refuses CLEAR without the own finalizer, so PROTECT comes first.
The API server refuses PROTECT if the claim is being deleted.
"""

from dataclasses import dataclass
from enum import StrEnum

from dradriver.errors import InvalidObjectError
from dradriver.model.classic.allocation_records import ControllerAllocation
from dradriver.model.classic.controlled_claims import (
    ControlledClaim,
    find_allocating_controller,
    is_deallocation_requested,
)
from dradriver.model.classic.names import LEASE_ANNOTATION, finalizer
from dradriver.model.classic.parameters import read_claim_parameters
from dradriver.model.resource.claim import ResourceClaim

__all__ = [
    "ClaimStep",
    "ClaimView",
    "find_other_controller",
    "is_delayed",
    "must_deallocate",
    "next_claim_step",
]


class ClaimStep(StrEnum):
    """What the controller does next for a claim.

    Attributes:
        NONE: nothing.
        ALLOCATE: allocate the claim immediately.
        CLEAR: clear the allocation in the claim.
        RELEASE: call `deallocate`, delete the record, and remove the finalizer.
        WITHDRAW: the same for a claim that others have allocated, which keeps their allocation.
        RECORD: write the record of an allocation again.
        PROTECT: add the finalizer to an allocated claim again.
        FOREIGN: report that another controller has begun to allocate the claim.
        INVALID: report why the claim or its class is wrong.
        RIVAL: report that a controller of the same name with another Lease has begun to allocate the claim.
    """

    NONE = "none"
    ALLOCATE = "allocate"
    CLEAR = "clear"
    RELEASE = "release"
    WITHDRAW = "withdraw"
    RECORD = "record"
    PROTECT = "protect"
    FOREIGN = "foreign"
    INVALID = "invalid"
    RIVAL = "rival"


@dataclass(frozen=True, slots=True)
class ClaimView:
    """All that decides about a claim.

    Attributes:
        controller: the name of this controller.
        lease: `namespace/name` of the Lease of this process.
        uid: the UID of the claim.
        claim: the claim; None if it is gone.
        record: the record of its allocation by this controller; None if there is none.
        controlled: how this controller allocates the claim; None if it is not for this controller, or if its
            class is gone.
        problem: why the claim or its class is wrong, if it names this controller; otherwise empty.
        attempt: the node of an unfinished attempt of this process to allocate the claim; empty for an immediate
            claim; None if there is no attempt.
        wanted: the nodes that are selected for pods that wait for the claim.
        is_seen_withdrawn: whether this process has found out that others have allocated the claim.
    """

    controller: str
    lease: str
    uid: str
    claim: ResourceClaim | None = None
    record: ControllerAllocation | None = None
    controlled: ControlledClaim | None = None
    problem: str = ""
    attempt: str | None = None
    wanted: frozenset[str] = frozenset()
    is_seen_withdrawn: bool = False

    @property
    def is_withdrawn(self) -> bool:
        """Return whether others have allocated the claim after this controller had begun to."""
        return self.is_seen_withdrawn or (self.record is not None and self.record.is_withdrawn)

    @property
    def has_rival(self) -> bool:
        """Return whether a controller of the same name with another Lease has begun to allocate the claim."""
        if self.record is None:
            return False
        return self.record.metadata.annotations.get(LEASE_ANNOTATION, self.lease) != self.lease

    @property
    def is_wanted(self) -> bool:
        """Return whether the attempt of this process must go on."""
        if self.attempt is None or self.claim is None or self.claim.metadata.deletion_timestamp is not None:
            return False
        if self.controlled is None:
            return False
        return not self.controlled.is_delayed if self.attempt == "" else self.attempt in self.wanted


def next_claim_step(view: ClaimView) -> ClaimStep:
    """Return the next step for a claim, by the table of this module."""
    claim, record = view.claim, view.record
    if view.has_rival:
        return ClaimStep.RIVAL
    if claim is None:
        return ClaimStep.RELEASE if record is not None else ClaimStep.NONE
    is_own = finalizer(view.controller) in claim.metadata.finalizers
    if claim.allocation is not None:
        return _allocated_step(view, claim, is_own=is_own)
    if (is_own or record is not None) and not view.is_wanted:
        return ClaimStep.RELEASE
    if claim.metadata.deletion_timestamp is not None:
        return ClaimStep.NONE
    if view.controlled is None:
        return ClaimStep.INVALID if view.problem else ClaimStep.NONE
    if find_other_controller(claim, view.controller):
        return ClaimStep.FOREIGN
    return ClaimStep.NONE if view.controlled.is_delayed else ClaimStep.ALLOCATE


def _allocated_step(view: ClaimView, claim: ResourceClaim, *, is_own: bool) -> ClaimStep:
    if view.is_withdrawn:
        return ClaimStep.WITHDRAW
    if not is_own and view.record is None:
        return ClaimStep.NONE
    if not is_own:
        return ClaimStep.PROTECT if claim.metadata.deletion_timestamp is None else ClaimStep.NONE
    if must_deallocate(claim, view.record):
        return ClaimStep.CLEAR
    return ClaimStep.RECORD if view.record is None else ClaimStep.NONE


def must_deallocate(claim: ResourceClaim, record: ControllerAllocation | None) -> bool:
    """Return whether an allocated claim must be deallocated now.

    It must if no pod has it reserved, and it is being deleted, its deallocation is requested, or it is
    allocated only for the time in which pods use it (KEP-3063, `AllocationModeWaitForFirstConsumer`).
    """
    if claim.status.reserved_for:
        return False
    is_requested = is_deallocation_requested(claim) or (
        record is not None and record.status.deallocation_requested
    )
    return claim.metadata.deletion_timestamp is not None or is_requested or is_delayed(claim)


def is_delayed(claim: ResourceClaim) -> bool:
    """Return whether a claim is allocated for the time in which pods use it.

    The result does not depend on the class, which may have changed since the allocation.
    """
    try:
        entries = read_claim_parameters(claim).values()
    except InvalidObjectError:
        return True  # the claim was valid when it was allocated, so an older release has allocated it
    return all(entry.allocation_mode == "WaitForFirstConsumer" for entry in entries)


def find_other_controller(claim: ResourceClaim, controller: str) -> str:
    """Return another controller that has begun to allocate the claim; empty if there is none."""
    name = find_allocating_controller(claim)
    return "" if name == controller else name
