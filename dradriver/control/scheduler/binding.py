"""From a plan to a bound pod, one write at a time (PreBind, Bind), and back when that fails (Unreserve).

`next_step` reads the objects and returns the next write. It does not remember the last one. The order is
kube-scheduler's. The special claim is created first (KEP-5004). Each claim then gets its finalizer, and after
that its allocation and reservation in one write. Then the pod waits for binding conditions (KEP-5007). Then it
is bound.

There is one difference: the write that names the special claim in the pod's status comes last before the
binding. The API server does not allow it to be reverted, and a pod whose status names a claim can no longer
start on a node with a device plugin. After a crash there is no plan, but the claims contain everything that was
written, and the pipeline plans around it.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace as with_changes
from typing import Final, TypeAlias

from msgspec.structs import replace

from dradriver.control.claims.pod_claims import consumer_of, pod_reference, reserved_for
from dradriver.control.extended import Special, discard_step, is_special_for
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
from dradriver.control.scheduler.binding_conditions import (
    BindingDeadline,
    ConditionReadiness,
    Unready,
    readiness,
    requires,
)
from dradriver.control.scheduler.snapshot import Plan
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import CLAIM_FINALIZER, ResourceClaim

__all__ = [
    "BindingFailed",
    "Claims",
    "PlanFailed",
    "WriteFailed",
    "is_bound",
    "next_step",
    "settled",
    "unreserve",
]

Claims: TypeAlias = Mapping[str, ResourceClaim]
"""All claims by `namespace/name`."""


_ENDLESS: Final = BindingDeadline()


class PlanFailed(Exception):  # noqa: N818 - a finding
    """The plan can no longer be carried out, and the pod has to be scheduled again. The text has the reason."""


class WriteFailed(PlanFailed):
    """The API server refuses a write of the plan."""


class BindingFailed(PlanFailed):
    """The devices of a claim did not get ready.

    Attributes:
        state: whether a failure condition is True, or the timeout has passed.
    """

    def __init__(self, state: ConditionReadiness, claim: ResourceClaim, unready: tuple[Unready, ...]) -> None:
        self.state = state
        what = "timeout" if state is ConditionReadiness.TIMED_OUT else "failed"
        devices = "; ".join(map(str, unready))
        super().__init__(f"device binding {what}: claim {claim.ref}, {devices}")


def next_step(plan: Plan, pod: Pod, claims: Claims, patience: BindingDeadline = _ENDLESS) -> Step:
    """Return the next write.

    Raises:
        PlanFailed: the claims have changed since the plan was made.
        BindingFailed: the devices of a claim did not get ready.
    """
    plan = settled(plan, pod, claims)
    for stage in STAGES:
        step = stage(plan, pod, claims, patience)
        if step is not None:
            return step
    raise AssertionError("unreachable: the last stage always has a step")


def settled(plan: Plan, pod: Pod, claims: Claims) -> Plan:
    """Return the plan with its special claim among its other claims, once that is created and has a UID."""
    special = plan.special
    if special is None or special.allocation is None:
        return plan
    claim = claims.get(special.claim.ref)
    if claim is None or not _is_as_planned(claim, special, pod):
        return plan
    uid = claim.metadata.uid
    return with_changes(
        plan,
        claims=(*plan.claims, (claim.ref, uid)),
        allocations={**plan.allocations, uid: special.allocation},
        special=with_changes(special, allocation=None),
    )


def _is_as_planned(claim: ResourceClaim, special: Special, pod: Pod) -> bool:
    same = claim.spec.devices.requests == special.claim.spec.devices.requests
    return same and is_special_for(claim, pod) and claim.metadata.deletion_timestamp is None


def nominate(plan: Plan, pod: Pod, claims: Claims, patience: BindingDeadline) -> Step | None:
    """PreBind: write the node's name into the status of a pod that will wait for conditions.

    This is the first write. After a crash the claims may not identify the node, because a network device can
    serve many nodes.
    """
    if pod.status.nominated_node_name == plan.node or not _will_wait(plan, claims, patience):
        return None
    return Step(NextAction.AGAIN, Nominate(pod, plan.node))


def _will_wait(plan: Plan, claims: Claims, patience: BindingDeadline) -> bool:
    if any(map(requires, plan.allocations.values())) or (plan.special and requires(plan.special.allocation)):
        return True
    known = (claims[ref] for ref, _ in plan.claims if ref in claims)
    return any(readiness(claim, patience)[0] is not ConditionReadiness.READY for claim in known)


def create_special(plan: Plan, _pod: Pod, claims: Claims, _patience: BindingDeadline) -> Step | None:
    """PreBind: create the special claim. Afterwards `settled` makes it one of the plan's claims."""
    if plan.special is None or plan.special.allocation is None:
        return None
    claim = plan.special.claim
    if claim.ref in claims:
        raise PlanFailed(f"claim {claim.ref} is not what was planned")
    return Step(NextAction.AGAIN, CreateClaim(claim))


def reserve_claims(plan: Plan, pod: Pod, claims: Claims, patience: BindingDeadline) -> Step | None:
    """PreBind: allocate every claim and reserve it for the pod."""
    for ref, uid in plan.claims:
        claim = claims.get(ref)
        if claim is None or claim.metadata.uid != uid or claim.metadata.deletion_timestamp is not None:
            raise PlanFailed(f"claim {ref} got deleted in the meantime")
        if claim.allocation is not None and reserved_for(claim, pod):
            continue
        return Step(NextAction.AGAIN, _reservation(plan, pod, claim, patience))
    return None


def _reservation(
    plan: Plan, pod: Pod, claim: ResourceClaim, patience: BindingDeadline
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
    if patience.now is not None:
        # The wait begins with the write, which may come long after the plan if the API server is not available.
        allocation = replace(allocation, allocation_timestamp=patience.now.replace(microsecond=0))
    return Allocate(claim, allocation, consumer_of(pod))


def await_conditions(plan: Plan, pod: Pod, claims: Claims, patience: BindingDeadline) -> Step | None:
    """PreBind: wait until every binding condition of every device of every claim is True at the same time.

    Raises:
        BindingFailed: a failure condition is True, or the timeout of a claim has passed.
    """
    found = [(claims[ref], *readiness(claims[ref], patience)) for ref, _ in plan.claims]
    for given_up in (ConditionReadiness.FAILED, ConditionReadiness.TIMED_OUT):
        for claim, state, unready in found:
            if state is given_up:
                raise BindingFailed(state, claim, unready)
    waited_for = [claim for claim, state, _ in found if state is ConditionReadiness.PENDING]
    if not waited_for:
        return None
    message = f"waiting for binding conditions for device on node {plan.node}"
    deadlines = [deadline for claim in waited_for if (deadline := patience.deadline(claim)) is not None]
    return Step(
        NextAction.WAIT,
        EmitEvent(pod_reference(pod), "Normal", "BindingConditionsPending", message),
        deadline=min(deadlines, default=None),
    )


def record_special(plan: Plan, pod: Pod, _claims: Claims, _patience: BindingDeadline) -> Step | None:
    """PreBind: write the special claim, and the request of each container, into the pod's status."""
    if plan.special is None or pod.status.extended_resource_claim_status == plan.special.status:
        return None
    return Step(NextAction.AGAIN, RecordSpecialClaim(pod, plan.special.status))


def bind(plan: Plan, pod: Pod, _claims: Claims, _patience: BindingDeadline) -> Step:
    """Bind: give the pod its node."""
    return Step(NextAction.DONE, Bind(pod, plan.node))


_Stage: TypeAlias = Callable[[Plan, Pod, Claims, BindingDeadline], Step | None]

STAGES: Final[tuple[_Stage, ...]] = (
    nominate,
    create_special,
    reserve_claims,
    await_conditions,
    record_special,
    bind,
)
"""The stages, in order. A stage that is complete returns None."""


def is_bound(plan: Plan, pod: Pod | None) -> bool:
    """Return whether the pod is known to have the plan's node.

    Bind is the last write, so the whole plan is then written.
    """
    return pod is not None and pod.metadata.uid == plan.pod_uid and pod.spec.node_name == plan.node


def unreserve(
    plan: Plan, pod: Pod, claims: Claims, patience: BindingDeadline = _ENDLESS, left: Collection[str] = ()
) -> Release | RemoveFinalizer | DeleteClaim | None:
    """Return the next write that reverts a failed plan, one claim at a time; None when nothing is left.

    The pod's reservation is removed from every shared claim, whichever pod's plan allocated it, as in
    kube-scheduler: pods that wait must not hold a claim for each other. The last of them frees the devices.
    kube-scheduler leaves the allocation in place. This function also frees the plan's own allocations while no
    other pod uses them, and devices that failed or exceeded the timeout.

    Once the pod waits for conditions, the claims that were written count as its own. Devices that are ready or
    are getting ready, and that only this pod uses, stay allocated to it, because getting ready may take
    minutes. If the pod has to wait after all, `pipeline.post_filter` frees them. The special claim is always
    deleted, as in kube-scheduler, because the next node may need other requests.

    Call this only for a pod that is known to have no node. A running pod keeps its devices whatever their
    conditions are.

    Args:
        plan: the plan that failed.
        pod: its pod.
        claims: all claims as they are now.
        patience: how long binding conditions are waited for.
        left: `namespace/name` of claims that could not be released and are left to the next attempt.
    """
    if plan.special is not None and plan.special.claim.ref not in left:
        undo = _discard(plan.special, pod, claims)
        if undo is not None:
            return undo
    for ref, uid in plan.claims:
        claim = claims.get(ref)
        if claim is None or claim.metadata.uid != uid or not reserved_for(claim, pod) or ref in left:
            continue
        others = tuple(user for user in claim.status.reserved_for if user.uid != pod.metadata.uid)
        failed = readiness(claim, patience)[0] in {ConditionReadiness.FAILED, ConditionReadiness.TIMED_OUT}
        if others or failed or uid in plan.allocations:
            return Release(claim, others, deallocate=not others)
    return None


def _discard(special: Special, pod: Pod, claims: Claims) -> Release | RemoveFinalizer | DeleteClaim | None:
    claim = claims.get(special.claim.ref)
    return discard_step(claim) if claim is not None and is_special_for(claim, pod) else None
