"""From a plan to a bound pod, one write at a time (PreBind, Bind), and back when that fails (Unreserve).

`next_step` looks at the objects as they are and says the next write; it does not remember the last one. The
order is kube-scheduler's: the special claim is created (KEP-5004); for each claim the finalizer, then
allocation and reservation in one write; then the wait for binding conditions (KEP-5007), then the binding.
Only that the special claim is named in the pod's status comes last: the API server lets nobody take it back,
and a pod whose status names a claim starts on no node of a device plugin any more. After a crash there is no
plan, but whatever was written is in the claims, and the pipeline plans around it.
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
    """The plan can't be carried out any more, the text says why; the pod has to be scheduled again."""


class WriteFailed(PlanFailed):
    """The API server does not take a write of the plan."""


class BindingFailed(PlanFailed):
    """The devices of a claim did not get ready.

    Attributes:
        state: whether a failure condition is True, or it took too long.
    """

    def __init__(self, state: ConditionReadiness, claim: ResourceClaim, unready: tuple[Unready, ...]) -> None:
        self.state = state
        what = "timeout" if state is ConditionReadiness.TIMED_OUT else "failed"
        devices = "; ".join(map(str, unready))
        super().__init__(f"device binding {what}: claim {claim.ref}, {devices}")


def next_step(plan: Plan, pod: Pod, claims: Claims, patience: BindingDeadline = _ENDLESS) -> Step:
    """The next write.

    Raises:
        PlanFailed: the claims are not any more what the plan was made for.
        BindingFailed: the devices of one did not get ready.
    """
    plan = settled(plan, pod, claims)
    for stage in STAGES:
        step = stage(plan, pod, claims, patience)
        if step is not None:
            return step
    raise AssertionError("unreachable: the last stage always has a step")


def settled(plan: Plan, pod: Pod, claims: Claims) -> Plan:
    """The plan with its special claim among the others, once that was created and has a UID."""
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
    """PreBind: a pod that will wait for conditions names its node first.

    First, because after a crash the claims may not tell: a device on a network is good for many nodes.
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
    """PreBind: the special claim exists; `settled` has made it one of the claims then."""
    if plan.special is None or plan.special.allocation is None:
        return None
    claim = plan.special.claim
    if claim.ref in claims:
        raise PlanFailed(f"claim {claim.ref} is not what was planned")
    return Step(NextAction.AGAIN, CreateClaim(claim))


def reserve_claims(plan: Plan, pod: Pod, claims: Claims, patience: BindingDeadline) -> Step | None:
    """PreBind: every claim is allocated and reserved for the pod."""
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
        # The wait begins with the write, which may come long after the plan (an API server that is away).
        allocation = replace(allocation, allocation_timestamp=patience.now.replace(microsecond=0))
    return Allocate(claim, allocation, consumer_of(pod))


def await_conditions(plan: Plan, pod: Pod, claims: Claims, patience: BindingDeadline) -> Step | None:
    """PreBind: every binding condition of every device of every claim is True, all at the same time.

    Raises:
        BindingFailed: a failure condition is True, or a claim took too long.
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
    """PreBind: the pod's status names the special claim and says which container gets which request."""
    if plan.special is None or pod.status.extended_resource_claim_status == plan.special.status:
        return None
    return Step(NextAction.AGAIN, RecordSpecialClaim(pod, plan.special.status))


def bind(plan: Plan, pod: Pod, _claims: Claims, _patience: BindingDeadline) -> Step:
    """Bind: the pod gets its node."""
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
"""What has to be true, in this order; a stage that is through gives None."""


def is_bound(plan: Plan, pod: Pod | None) -> bool:
    """Whether the pod is known to have the plan's node: then the whole plan is written, as Bind comes last."""
    return pod is not None and pod.metadata.uid == plan.pod_uid and pod.spec.node_name == plan.node


def unreserve(
    plan: Plan, pod: Pod, claims: Claims, patience: BindingDeadline = _ENDLESS, left: Collection[str] = ()
) -> Release | RemoveFinalizer | DeleteClaim | None:
    """Takes back what a failed plan has written so far, one claim at a time; None when nothing is left.

    The pod's reservation of a claim that others have reserved too goes in any case, whoever allocated it, as
    kube-scheduler has it: pods that wait must not hold a claim for each other. The last of them frees the
    devices. Unlike kube-scheduler, which leaves the allocation in place, this also frees what the plan itself
    allocated while nobody else has come to use it, and devices that failed or took too long. Once conditions
    are waited for, the claims that were written count as the pod's own: what is ready or being made ready and
    is the pod's alone stays with it, because that may take minutes, and if the pod has to wait after all,
    `pipeline.post_filter` takes it back. The special claim goes in any case, as kube-scheduler has it: what it
    asks for may not be what the next node needs.

    Only for a pod that is known to have no node: a pod that runs keeps its devices, whatever they say.

    Args:
        plan: the plan that failed.
        pod: its pod.
        claims: all claims as they are now.
        patience: how long binding conditions are waited for.
        left: `namespace/name` of claims that could not be given back and are left to the next attempt.
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
