"""Decide where a pod runs and with which devices, as a function of a snapshot.

The extension points are those of Kubernetes. Tuples in this module contain the functions of each point:

| point      | question                                   | if the answer is no   |
|------------|--------------------------------------------|-----------------------|
| PreEnqueue | can the pod be scheduled now?              | the pod waits         |
| PreFilter  | can the pod's claims be used or allocated? | no node suits         |
| Filter     | do this node and its devices suit the pod? | another node may suit |
| PostFilter | what should be reverted, or evicted?       | -                     |
| Score      | which of the suitable nodes is best?       | -                     |

Filter and Score are in `node_choice`. Reserve, PreBind, Bind and Unreserve are in `binding`.
The devices of a plan's assumed allocations count as in use before the allocations are written. The devices for
which pods of at least the same priority are nominated count as in use, too (`preemption.nominated_pods`).
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from dradriver.control.claims.pod_claims import (
    ClaimNotCreated,
    ClaimUnusable,
    claims_of,
    is_reserved_for,
    used_names,
)
from dradriver.control.classic import is_controlled
from dradriver.control.classic import scheduling_steps as classic_steps
from dradriver.control.extended import discard_step, scheduling_steps
from dradriver.control.preemption.decision import add_preemption
from dradriver.control.preemption.nominated_pods import find_precedence, hold_devices
from dradriver.control.queueing.cycle_times import CycleTimes
from dradriver.control.runtime.actions import DeleteClaim, Release, RemoveFinalizer
from dradriver.control.scheduler.binding.binding_conditions import ConditionReadiness, check_readiness
from dradriver.control.scheduler.node_choice.choice import check_known_refusals, choose_node
from dradriver.control.scheduler.node_choice.pod_kinds import find_pod_kind
from dradriver.control.scheduler.node_choice.search import NodeChoice
from dradriver.control.scheduler.snapshot import (
    Cycle,
    NoNode,
    Plan,
    Snapshot,
    Unschedulable,
    Write,
    refuse_all_nodes,
)
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import MAX_RESERVED_FOR, ResourceClaim

__all__ = ["begin_cycle", "list_releases", "schedule"]


def schedule(
    pod: Pod,
    snapshot: Snapshot,
    times: CycleTimes | None = None,
    *,
    others: int = 0,
    preempts: bool = False,
) -> Plan | Unschedulable:
    """Decide on a node and on allocations for a pod that has no node.

    Args:
        pod: the pod.
        snapshot: the cluster.
        times: records the time that each extension point and each plugin takes.
        others: maximum number of other suitable nodes to find.
        preempts: whether to look for pods to evict if no node suits the pod.
    """
    cycle = Cycle(pod, snapshot, times=times or CycleTimes())
    try:
        begin_cycle(cycle)
        choice, other_nodes, suitable = _choose_node(cycle, others)
        pending, potential_nodes = classic_steps.select_node(cycle, suitable)
    except NoNode as no_node:
        if no_node.verdict.quiet:
            return no_node.verdict
        with cycle.times.measure_point("PostFilter") as point:
            verdict = post_filter(cycle, no_node.verdict)
            # Released devices may suffice, so they are tried before another pod is evicted.
            if preempts and no_node.may_preempt and not verdict.releases:
                verdict = add_preemption(cycle, verdict)
            point.passed = bool(verdict.nominated_node)
        return verdict
    allocations, special = dict(choice.allocations), cycle.special.get(choice.node)
    if special is not None:
        special = replace(special, allocation=allocations.pop(special.claim.ref, None))
    return Plan(
        pod_uid=pod.metadata.uid,
        node=choice.node,
        claims=tuple((claim.ref, claim.metadata.uid) for claim in cycle.claims),
        allocations=allocations,
        special=special,
        other_nodes=other_nodes,
        pending_classic=pending,
        potential_nodes=potential_nodes,
    )


def begin_cycle(cycle: Cycle) -> None:
    """Run PreEnqueue and PreFilter for a pod, before nodes are looked at.

    Raises:
        NoNode: the pod can't be scheduled now, whatever the nodes are.
    """
    for point, checks in (("PreEnqueue", PRE_ENQUEUE), ("PreFilter", PRE_FILTER)):
        with cycle.times.measure_point(point):
            for check in checks:
                check(cycle)
    cycle.precedence = find_precedence(cycle)
    cycle.kind = find_pod_kind(cycle)


def _choose_node(cycle: Cycle, others: int) -> tuple[NodeChoice, Mapping[str, float], Sequence[str]]:
    with cycle.times.measure_point("Filter"):
        check_known_refusals(cycle)
        with hold_devices(cycle):
            return choose_node(cycle, others)


def check_gates(cycle: Cycle) -> None:
    """Raise if the pod has scheduling gates."""
    if cycle.pod.spec.scheduling_gates:
        message = "Scheduling is blocked due to non-empty scheduling gates"
        raise NoNode(Unschedulable(message, reason="SchedulingGated", every_node=message))


def check_claims_exist(cycle: Cycle) -> None:
    """Raise unless all claims of the pod exist and none is being deleted."""
    try:
        cycle.claims = claims_of(cycle.pod, cycle.snapshot.claims)
    except ClaimNotCreated as problem:
        raise NoNode(refuse_all_nodes(cycle, str(problem), quiet=True, lacks_claims=True)) from None
    except ClaimUnusable as problem:
        classic_steps.give_up_negotiation(cycle)
        raise NoNode(refuse_all_nodes(cycle, str(problem), lacks_claims=True)) from None


def check_claims_usable(cycle: Cycle) -> None:
    """Raise if a claim is reserved for the maximum number of pods, or is being allocated for another pod."""
    for claim in cycle.claims:
        full = len(claim.status.reserved_for) >= MAX_RESERVED_FOR
        if full and not is_reserved_for(claim, cycle.pod):
            raise NoNode(refuse_all_nodes(cycle, "resourceclaim in use"))
        if claim.allocation is None and claim.metadata.uid in cycle.snapshot.in_flight:
            message = f"resource claim {claim.ref} is in the process of being allocated"
            # A controller may take long, so users are told.
            raise NoNode(refuse_all_nodes(cycle, message, quiet=cycle.classic is None))


def check_claims_exclusive(cycle: Cycle) -> None:
    """Raise if a claim must give way to another claim that has the same device (`control.conflicts`)."""
    for claim in cycle.claims:
        if (conflict := cycle.snapshot.conflicts.get(claim.metadata.uid)) is not None:
            raise NoNode(refuse_all_nodes(cycle, f"resourceclaim {claim.ref}: {conflict}"))


def check_claims_readiness(cycle: Cycle) -> None:
    """Raise if devices of a claim failed to become ready, or were not ready by the deadline (KEP-5007)."""
    for claim in cycle.claims:
        state, unready = check_readiness(claim, cycle.snapshot.deadline)
        if state in {ConditionReadiness.FAILED, ConditionReadiness.TIMED_OUT}:
            cycle.unavailable.add(claim.metadata.uid)
            outcome = "failed" if state is ConditionReadiness.FAILED else "took too long"
            devices = "; ".join(map(str, unready))
            raise NoNode(refuse_all_nodes(cycle, f"binding of resourceclaim {claim.ref} {outcome}: {devices}"))


def post_filter(cycle: Cycle, verdict: Unschedulable) -> Unschedulable:
    """Add the writes that free devices to the verdict.

    As in kube-scheduler, a claim is deallocated if its allocation excludes a node for the pod and no other pod
    uses it. Reservations that were made for this pod before a crash are released too: a waiting pod must not
    block devices for other pods, or prevent the deletion of a claim. Each waiting pod releases its own
    reservation of a shared claim, even if other pods have reservations, because these pods may wait for each
    other. The claim is deallocated with its last reservation. A special claim of an earlier attempt is deleted,
    and the next attempt creates a new one, because the next node may need other requests (KEP-5004).

    A classic claim is never released: its controller is asked to deallocate it (KEP-3063).
    """
    snapshot = cycle.snapshot
    releases: list[Write] = [
        *list_releases(cycle.pod, snapshot.claims, snapshot.leftovers, cycle.unavailable),
        *(verdict.releases if verdict.awaits_drivers else classic_steps.post_filter(cycle)),
    ]
    return replace(verdict, releases=tuple(releases))


def list_releases(
    pod: Pod,
    claims: Mapping[str, ResourceClaim],
    leftovers: Iterable[ResourceClaim],
    unavailable: Collection[str] = (),
) -> list[Release | RemoveFinalizer | DeleteClaim]:
    """Return the writes that free the devices of a pod without a node. Classic claims keep their reservation.

    Args:
        pod: the pod.
        claims: the pod's claims, by `namespace/name`.
        leftovers: special claims of earlier attempts for the pod.
        unavailable: UIDs of claims that cannot be used on at least one node. They are deallocated if no other
            pod uses them.
    """
    releases: list[Release | RemoveFinalizer | DeleteClaim] = [
        step for claim in leftovers if (step := discard_step(claim)) is not None
    ]
    for ref in used_names(pod):
        claim = claims.get(ref)
        if claim is None or claim.allocation is None or is_controlled(claim):
            continue
        others = tuple(user for user in claim.status.reserved_for if user.uid != pod.metadata.uid)
        if is_reserved_for(claim, pod) or (claim.metadata.uid in unavailable and not others):
            releases.append(Release(claim, others, deallocate=not others))
    return releases


_Check: TypeAlias = Callable[[Cycle], None]

PRE_ENQUEUE: Final[tuple[_Check, ...]] = (check_gates, check_claims_exist)
PRE_FILTER: Final[tuple[_Check, ...]] = (
    scheduling_steps.find_leftover,
    classic_steps.find_needs,
    check_claims_usable,
    check_claims_exclusive,
    check_claims_readiness,
)
