"""PreBind for classic claims: select the node, and wait until the controllers have allocated for it."""

from collections.abc import Mapping

from dradriver.control.classic.negotiation import (
    WAITING_FOR_ALLOCATION,
    describe_wait,
    find_unsuitable,
    write_spec,
)
from dradriver.control.classic.values import AwaitedClaim, ClassicObjects, explain_unreservable, is_controlled
from dradriver.control.runtime.actions import NextAction, ReportUnschedulable, Step
from dradriver.control.scheduler.binding.binding_conditions import BindingDeadline
from dradriver.control.scheduler.snapshot import Plan, PlanFailed
from dradriver.model.classic.scheduling import SchedulingSpec
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import ResourceClaim

__all__ = ["AllocationTimedOut", "NodeRefused", "await_allocations", "check_reservations", "find_unallocated"]


class NodeRefused(PlanFailed):
    """A controller cannot allocate for the selected node, or the pod cannot use an allocated claim there.

    The pod is tried again at once, because the answer is known by then.
    """


class AllocationTimedOut(PlanFailed):
    """A controller has neither allocated its claim nor answered in time."""


def check_reservations(
    plan: Plan, pod: Pod, claims: Mapping[str, ResourceClaim], objects: ClassicObjects
) -> None:
    """Raise if the pod must not use an allocated claim of its plan: it must be deallocated, or is in use.

    Args:
        plan: the plan.
        pod: the pod of the plan.
        claims: the current versions of all claims.
        objects: the controllers' records.

    Raises:
        NodeRefused: the pod must not use a claim.
    """
    for ref, uid in plan.claims:
        claim = claims.get(ref)
        if claim is not None and claim.allocation is not None and is_controlled(claim):
            problem = explain_unreservable(claim, pod, objects.records.get(uid))
            if problem is not None:
                raise NodeRefused(problem)


def find_unallocated(plan: Plan, claims: Mapping[str, ResourceClaim]) -> tuple[AwaitedClaim, ...]:
    """Return the claims that the controllers have not allocated yet."""
    return tuple(
        each for each in plan.pending_classic if (claim := claims.get(each.ref)) and claim.allocation is None
    )


def await_allocations(
    plan: Plan,
    pod: Pod,
    claims: Mapping[str, ResourceClaim],
    objects: ClassicObjects,
    deadline: BindingDeadline,
) -> Step | None:
    """PreBind: write the selected node, then wait; None if all claims are allocated for the node.

    The claims that the scheduler allocates are written afterwards, so their devices are only assumed meanwhile.

    Args:
        plan: the plan, with claims that controllers must allocate.
        pod: the pod of the plan.
        claims: the current versions of all claims.
        objects: the pod's context, and the nodes.
        deadline: the deadline of the wait.

    Raises:
        NodeRefused: a controller's answer excludes the node, or a claim is allocated for other nodes.
        AllocationTimedOut: the deadline has passed.
        PlanFailed: a claim or the node is gone, or the API server serves no contexts any more.
    """
    for ref, uid in plan.claims:
        claim = claims.get(ref)
        if claim is None or claim.metadata.uid != uid or claim.metadata.deletion_timestamp is not None:
            raise PlanFailed(f"claim {ref} got deleted in the meantime")
    for awaited in plan.pending_classic:
        _check_node(plan, claims[awaited.ref], objects)
    left = find_unallocated(plan, claims)
    if not left:
        return None
    if not objects.is_served:
        raise PlanFailed("the API server does not serve PodSchedulingContexts any more")
    context = objects.context_of(pod)
    refusing = find_unsuitable(context, left).get(plan.node)
    if refusing is not None:
        raise NodeRefused(f"resourceclaim cannot be allocated for node {plan.node} (unsuitable): {refusing}")
    wanted = SchedulingSpec(selected_node=plan.node, potential_nodes=list(plan.potential_nodes))
    write = write_spec(pod, objects.context, wanted)
    if write is not None:
        return Step(NextAction.CONTINUE, write)
    message = f"{describe_wait(WAITING_FOR_ALLOCATION, left, context)} for node {plan.node}"
    if deadline.has_waited_too_long:
        raise AllocationTimedOut(f"timeout: {message}")
    is_reported = any((c.type, c.message) == ("PodScheduled", message) for c in pod.status.conditions)
    report = ReportUnschedulable(pod, "Unschedulable", message, pod.status.nominated_node_name)
    return Step(NextAction.WAIT, None if is_reported else report, deadline.end_of_wait)


def _check_node(plan: Plan, claim: ResourceClaim, objects: ClassicObjects) -> None:
    """Raise if the claim is allocated, but not for the plan's node."""
    allocation = claim.allocation
    if allocation is None:
        return
    node, selector = objects.nodes.get(plan.node), allocation.node_selector
    if node is None:
        raise PlanFailed(f"node {plan.node} was deleted in the meantime")
    if selector is not None and not selector.matches(plan.node, node.metadata.labels):
        raise NodeRefused(f"resourceclaim {claim.ref} was allocated, but not for node {plan.node}")
