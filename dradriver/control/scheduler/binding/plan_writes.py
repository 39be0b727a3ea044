"""Bind a pod by its plan, one write at a time (PreBind, Bind), or revert a failed plan (Unreserve).

`next_step` reads the objects and returns the next write, without memory of earlier writes. If controllers must
allocate claims, the node is selected first, and the pod waits for their allocations (KEP-3063). Then the order
of the writes is that of kube-scheduler. If the pod will wait for binding conditions, the node's name is written
to the pod's status first. Then the special claim is created (KEP-5004). Then each claim gets its finalizer, and
after that its allocation and reservation, which are one write. Then the pod waits for binding conditions
(KEP-5007). Finally, the pod is bound.

There is one difference from kube-scheduler: the special claim's name is written to the pod's status right
before the binding. The API server does not allow a client to clear this field, and a pod whose status names a
claim cannot start on a node with a device plugin. After a crash the plan is lost, but the claims contain all
earlier writes, and the next plan takes them into account.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace as with_changes
from typing import Final, TypeAlias

from msgspec.structs import replace

from dradriver.control.claims.pod_claims import consumer_of, is_reserved_for, pod_reference
from dradriver.control.classic import ClassicObjects, is_controlled
from dradriver.control.classic.allocation_wait import await_allocations, check_reservations
from dradriver.control.conflicts.double_allocations import DoubleAllocation
from dradriver.control.extended import SpecialClaimPlan, discard_step, is_special_for
from dradriver.control.runtime.actions import (
    AddFinalizer,
    Allocate,
    Bind,
    CreateClaim,
    DeleteClaim,
    EmitEvent,
    NextAction,
    Nominate,
    RecordSpecialClaim,
    Release,
    RemoveFinalizer,
    Reserve,
    Step,
)
from dradriver.control.scheduler.binding.binding_conditions import (
    BindingDeadline,
    ConditionReadiness,
    Unready,
    check_readiness,
    has_conditions,
)
from dradriver.control.scheduler.snapshot import Plan, PlanFailed
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import CLAIM_FINALIZER, ResourceClaim

__all__ = [
    "BindingFailed",
    "Claims",
    "PlanFailed",
    "Preempted",
    "WriteFailed",
    "is_bound",
    "merge_special_claim",
    "next_step",
    "unreserve",
]

Claims: TypeAlias = Mapping[str, ResourceClaim]
"""All claims by `namespace/name`."""


FindConflict: TypeAlias = Callable[[ResourceClaim], DoubleAllocation | None]
"""Function that returns why a claim must give way to another claim; None if it keeps its devices."""

_NO_DEADLINE: Final = BindingDeadline()
_NO_OBJECTS: Final = ClassicObjects()


class WriteFailed(PlanFailed):
    """The API server rejected a write of the plan."""


class Preempted(PlanFailed):
    """A pod of higher priority needs the devices of the plan."""


class BindingFailed(PlanFailed):
    """The devices of a claim did not become ready.

    Attributes:
        state: `FAILED` if a failure condition is True, `TIMED_OUT` if the deadline has passed.
    """

    def __init__(self, state: ConditionReadiness, claim: ResourceClaim, unready: tuple[Unready, ...]) -> None:
        self.state = state
        outcome = "timeout" if state is ConditionReadiness.TIMED_OUT else "failed"
        devices = "; ".join(map(str, unready))
        super().__init__(f"device binding {outcome}: claim {claim.ref}, {devices}")


def next_step(
    plan: Plan,
    pod: Pod,
    claims: Claims,
    deadline: BindingDeadline = _NO_DEADLINE,
    find_conflict: FindConflict = lambda _claim: None,
    classic: ClassicObjects = _NO_OBJECTS,
) -> Step:
    """Return the step with the next write of a plan.

    Args:
        plan: the plan.
        pod: the pod of the plan.
        claims: the current versions of all claims.
        deadline: the deadline of the wait for binding conditions.
        find_conflict: see `AllocationIndex.find_conflict`. The default is for callers without other schedulers.
        classic: the objects of classic DRA for the pod. The default is for pods without classic claims.

    Raises:
        PlanFailed: the claims have changed since the plan was made, or another claim takes precedence.
        NodeRefused: a controller refused the node, or a classic claim cannot be used any more.
        BindingFailed: the devices of a claim did not become ready.
    """
    plan = merge_special_claim(plan, pod, claims)
    for ref, _ in plan.claims:
        claim = claims.get(ref)
        if claim is not None and (conflict := find_conflict(claim)) is not None:
            raise PlanFailed(f"claim {ref}: {conflict}")
    check_reservations(plan, pod, claims, classic)
    if plan.pending_classic:
        step = await_allocations(plan, pod, claims, classic, deadline)
        if step is not None:
            return step
    for stage in _STAGES:
        step = stage(plan, pod, claims, deadline)
        if step is not None:
            return step
    raise AssertionError("unreachable: the last stage always has a step")


def merge_special_claim(plan: Plan, pod: Pod, claims: Claims) -> Plan:
    """Return the plan with the special claim among its claims, if the special claim was created."""
    special = plan.special
    if special is None or special.allocation is None:
        return plan
    claim = claims.get(special.claim.ref)
    if claim is None or not _matches_plan(claim, special, pod):
        return plan
    uid = claim.metadata.uid
    return with_changes(
        plan,
        claims=(*plan.claims, (claim.ref, uid)),
        allocations={**plan.allocations, uid: special.allocation},
        special=with_changes(special, allocation=None),
    )


def _matches_plan(claim: ResourceClaim, special: SpecialClaimPlan, pod: Pod) -> bool:
    has_same_requests = claim.spec.devices.requests == special.claim.spec.devices.requests
    return has_same_requests and is_special_for(claim, pod) and claim.metadata.deletion_timestamp is None


def nominate(plan: Plan, pod: Pod, claims: Claims, deadline: BindingDeadline) -> Step | None:
    """PreBind: write the node's name into the status of a pod that will wait for conditions.

    This is the first write, because after a crash the claims may not identify the node: a network device can be
    usable on many nodes.
    """
    if pod.status.nominated_node_name == plan.node or not _will_wait(plan, claims, deadline):
        return None
    return Step(NextAction.CONTINUE, Nominate(pod, plan.node))


def _will_wait(plan: Plan, claims: Claims, deadline: BindingDeadline) -> bool:
    if any(map(has_conditions, plan.allocations.values())) or (
        plan.special and has_conditions(plan.special.allocation)
    ):
        return True
    known = (claims[ref] for ref, _ in plan.claims if ref in claims)
    return any(check_readiness(claim, deadline)[0] is not ConditionReadiness.READY for claim in known)


def create_special(plan: Plan, _pod: Pod, claims: Claims, _deadline: BindingDeadline) -> Step | None:
    """PreBind: create the special claim; `merge_special_claim` then adds it to the plan's claims."""
    if plan.special is None or plan.special.allocation is None:
        return None
    claim = plan.special.claim
    if claim.ref in claims:
        raise PlanFailed(f"claim {claim.ref}: spec: differs from the planned special claim")
    return Step(NextAction.CONTINUE, CreateClaim(claim))


def reserve_claims(plan: Plan, pod: Pod, claims: Claims, deadline: BindingDeadline) -> Step | None:
    """PreBind: allocate each claim, and reserve it for the pod."""
    for ref, uid in plan.claims:
        claim = claims.get(ref)
        if claim is None or claim.metadata.uid != uid or claim.metadata.deletion_timestamp is not None:
            raise PlanFailed(f"claim {ref} got deleted in the meantime")
        if claim.allocation is not None and is_reserved_for(claim, pod):
            continue
        return Step(NextAction.CONTINUE, _reservation(plan, pod, claim, deadline))
    return None


def _reservation(
    plan: Plan, pod: Pod, claim: ResourceClaim, deadline: BindingDeadline
) -> AddFinalizer | Allocate | Reserve:
    allocation = plan.allocations.get(claim.metadata.uid)
    if allocation is None:
        if claim.allocation is None:
            raise PlanFailed(f"claim {claim.ref} got deallocated elsewhere in the meantime")
        return Reserve(claim, consumer_of(pod))
    if claim.allocation is not None:
        raise PlanFailed(f"claim {claim.ref} got allocated elsewhere in the meantime")
    if CLAIM_FINALIZER not in claim.metadata.finalizers:
        return AddFinalizer(claim)
    if deadline.now is not None:
        # The wait begins with this write. If the API server was not available, the plan may be much older.
        allocation = replace(allocation, allocation_timestamp=deadline.now.replace(microsecond=0))
    return Allocate(claim, allocation, consumer_of(pod))


def await_conditions(plan: Plan, pod: Pod, claims: Claims, deadline: BindingDeadline) -> Step | None:
    """PreBind: wait until all binding conditions of all devices of all claims are True at the same time.

    Raises:
        BindingFailed: a failure condition is True, or the deadline of a claim has passed.
    """
    states = [(claims[ref], *check_readiness(claims[ref], deadline)) for ref, _ in plan.claims]
    for final_state in (ConditionReadiness.FAILED, ConditionReadiness.TIMED_OUT):
        for claim, state, unready in states:
            if state is final_state:
                raise BindingFailed(state, claim, unready)
    pending = [claim for claim, state, _ in states if state is ConditionReadiness.PENDING]
    if not pending:
        return None
    message = f"waiting for binding conditions for device on node {plan.node}"
    ends = [end for claim in pending if (end := deadline.of_claim(claim)) is not None]
    return Step(
        NextAction.WAIT,
        EmitEvent(pod_reference(pod), "Normal", "BindingConditionsPending", message),
        deadline=min(ends, default=None),
    )


def record_special(plan: Plan, pod: Pod, _claims: Claims, _deadline: BindingDeadline) -> Step | None:
    """PreBind: write the special claim's name, and the request of each container, to the pod's status."""
    if plan.special is None or pod.status.extended_resource_claim_status == plan.special.status:
        return None
    return Step(NextAction.CONTINUE, RecordSpecialClaim(pod, plan.special.status))


def bind(plan: Plan, pod: Pod, _claims: Claims, _deadline: BindingDeadline) -> Step:
    """Bind: bind the pod to the plan's node."""
    return Step(NextAction.DONE, Bind(pod, plan.node))


_Stage: TypeAlias = Callable[[Plan, Pod, Claims, BindingDeadline], Step | None]

_STAGES: Final[tuple[_Stage, ...]] = (
    nominate,
    create_special,
    reserve_claims,
    await_conditions,
    record_special,
    bind,
)
"""The stages, in order; a stage returns None if it is complete."""


def is_bound(plan: Plan, pod: Pod | None) -> bool:
    """Return whether the pod is known to be bound to the plan's node.

    Bind is the last write, so a bound pod shows that the whole plan was written.
    """
    return pod is not None and pod.metadata.uid == plan.pod_uid and pod.spec.node_name == plan.node


def unreserve(
    plan: Plan,
    pod: Pod,
    claims: Claims,
    deadline: BindingDeadline = _NO_DEADLINE,
    skip: Collection[str] = (),
    *,
    keeps_devices: bool = True,
) -> Release | RemoveFinalizer | DeleteClaim | None:
    """Return the next write that reverts a failed plan, one claim at a time; None if no write is left.

    As in kube-scheduler, the pod's reservation is removed from every shared claim, even if the plan of another
    pod allocated the claim: otherwise waiting pods could keep a claim reserved for each other without end. The
    claim is deallocated with its last reservation. kube-scheduler keeps allocations. This function also removes
    allocations of this plan that no other pod uses, and allocations whose devices failed or exceeded the
    deadline.

    When the pod waits for conditions, the plan no longer contains the written allocations, so they are not
    removed as allocations of this plan. Devices that are ready or becoming ready, and that only this pod uses,
    then stay allocated to the pod, because becoming ready may take minutes. If the next attempt finds no node,
    `pipeline.post_filter` frees these devices. The special claim is always deleted, as in kube-scheduler,
    because the next node may need other requests. A classic claim keeps its reservation: it stays allocated for
    the pod, and only its controller deallocates it (KEP-3063).

    Call this only for a pod that is known to have no node: a running pod must keep its devices, whatever their
    conditions are.

    Args:
        plan: the plan that failed.
        pod: the pod of the plan.
        claims: the current versions of all claims.
        deadline: the deadline of the wait for binding conditions.
        skip: `namespace/name` of claims that could not be released. The next attempt releases them.
        keeps_devices: whether devices that are ready or becoming ready stay allocated. False if another pod
            needs them.
    """
    if plan.special is not None and plan.special.claim.ref not in skip:
        claim = claims.get(plan.special.claim.ref)
        if claim is not None and is_special_for(claim, pod) and (step := discard_step(claim)) is not None:
            return step
    for ref, uid in plan.claims:
        claim = claims.get(ref)
        if claim is None or claim.metadata.uid != uid or not is_reserved_for(claim, pod) or ref in skip:
            continue
        if is_controlled(claim):
            continue
        others = tuple(user for user in claim.status.reserved_for if user.uid != pod.metadata.uid)
        failed = check_readiness(claim, deadline)[0] in {
            ConditionReadiness.FAILED,
            ConditionReadiness.TIMED_OUT,
        }
        if others or failed or uid in plan.allocations or not keeps_devices:
            return Release(claim, others, deallocate=not others)
    return None
