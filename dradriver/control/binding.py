"""From a plan to a bound pod, one write at a time (PreBind, Bind), and back when that fails (Unreserve).

`next_step` looks at the objects as they are and says the next write; it does not remember the last one. The
order is kube-scheduler's: for each claim the finalizer, then allocation and reservation in one write; then the
binding. After a crash there is no plan, but whatever was written is in the claims, and the pipeline plans
around it.
"""

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from dradriver.control.actions import AddFinalizer, Allocate, Bind, Release, Reserve, Step, Then
from dradriver.control.pod_claims import consumer_of, reserved_for
from dradriver.control.snapshot import Plan
from dradriver.model.claim import CLAIM_FINALIZER, ResourceClaim
from dradriver.model.workload import Pod

__all__ = ["Claims", "PlanFailed", "next_step", "unreserve"]

Claims: TypeAlias = Mapping[str, ResourceClaim]
"""All claims by `namespace/name`."""


class PlanFailed(Exception):  # noqa: N818 - a finding
    """The plan can't be carried out any more, the text says why; the pod has to be scheduled again."""


def next_step(plan: Plan, pod: Pod, claims: Claims) -> Step:
    """The next write.

    Raises:
        PlanFailed: the claims are not any more what the plan was made for.
    """
    for stage in STAGES:
        step = stage(plan, pod, claims)
        if step is not None:
            return step
    raise AssertionError("unreachable: the last stage always has a step")


def reserve_claims(plan: Plan, pod: Pod, claims: Claims) -> Step | None:
    """PreBind: every claim is allocated and reserved for the pod."""
    for ref, uid in plan.claims:
        claim = claims.get(ref)
        if claim is None or claim.metadata.uid != uid or claim.metadata.deletion_timestamp is not None:
            raise PlanFailed(f"claim {ref} got deleted in the meantime")
        if claim.allocation is not None and reserved_for(claim, pod):
            continue
        return Step(Then.AGAIN, _reservation(plan, pod, claim))
    return None


def _reservation(plan: Plan, pod: Pod, claim: ResourceClaim) -> AddFinalizer | Allocate | Reserve:
    allocation = plan.allocations.get(claim.metadata.uid)
    if allocation is None:
        if claim.allocation is None:
            raise PlanFailed(f"claim {claim.ref} got deallocated elsewhere in the meantime")
        return Reserve(claim, consumer_of(pod))
    if claim.allocation is not None:
        raise PlanFailed(f"claim {claim.ref} got allocated elsewhere in the meantime")
    if CLAIM_FINALIZER not in claim.metadata.finalizers:
        return AddFinalizer(claim)
    return Allocate(claim, allocation, consumer_of(pod))


def bind(plan: Plan, pod: Pod, _claims: Claims) -> Step:
    """Bind: the pod gets its node."""
    return Step(Then.DONE, Bind(pod, plan.node))


_Stage: TypeAlias = Callable[[Plan, Pod, Claims], Step | None]

STAGES: Final[tuple[_Stage, ...]] = (reserve_claims, bind)
"""What has to be true, in this order; a stage that is through gives None.

Waiting for binding conditions (KEP-5007) is a stage between the two, the claim for extended resources
(KEP-5004) one before them.
"""


def unreserve(plan: Plan, pod: Pod, claims: Claims) -> Release | None:
    """Takes back what a failed plan has written so far, one claim at a time; None when nothing is left.

    Unlike kube-scheduler, which leaves the allocation in place, this frees the devices too: no other pod can
    have come to use them.
    """
    for ref, uid in plan.claims:
        claim = claims.get(ref)
        if claim is None or claim.metadata.uid != uid or uid not in plan.allocations:
            continue
        if [consumer.uid for consumer in claim.status.reserved_for] == [pod.metadata.uid]:
            return Release(claim, deallocate=True)
    return None
