"""Where a pod runs and with which devices, as a pure function of a snapshot.

The extension points are those of Kubernetes. Tuples below hold the checks of the first three:

| point      | question                                    | a refusal means                            |
|------------|---------------------------------------------|--------------------------------------------|
| PreEnqueue | can the pod be tried at all?                | the pod waits                              |
| PreFilter  | can its claims be used or allocated?        | no node can help                           |
| Filter     | do this node and its devices suit?          | another node may                           |
| PostFilter | which allocations should be reverted?       | -                                          |
| Score      | which of the nodes that suit is best?       | -                                          |

Reserve, PreBind, Bind and Unreserve are in `binding` and `scheduler`. The assumed allocations of a plan count
as in use until they are written.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, TypeAlias

from dradriver.allocator import AllocationNode, Refusal, allocate
from dradriver.control.claims.pod_claims import NotCreatedYet, Unusable, claims_of, reserved_for, used_names
from dradriver.control.extended import discard_step, scheduling_steps
from dradriver.control.queueing.attempt_times import FilterTimes
from dradriver.control.runtime.actions import DeleteClaim, Release, RemoveFinalizer
from dradriver.control.scheduler import node_filters, pod_anti_affinity, ready_nodes
from dradriver.control.scheduler.binding_conditions import ConditionReadiness, readiness
from dradriver.control.scheduler.cycle import Cycle, NoNode, everywhere
from dradriver.control.scheduler.snapshot import UNDECIDED, Plan, Snapshot, Unschedulable
from dradriver.model.core.workload import Node, Pod
from dradriver.model.resource.claim import MAX_RESERVED_FOR

__all__ = ["Cycle", "schedule"]


def schedule(pod: Pod, snapshot: Snapshot, times: FilterTimes | None = None) -> Plan | Unschedulable:
    """Decide on a node and on allocations for a pod without a node.

    Args:
        pod: the pod.
        snapshot: the cluster.
        times: records the time that each plugin takes.
    """
    cycle = Cycle(pod, snapshot, times=times or FilterTimes())
    try:
        for check in (*PRE_ENQUEUE, *PRE_FILTER):
            check(cycle)
        found, refusals = _filter(cycle)
    except NoNode as no_node:
        return no_node.verdict if no_node.verdict.quiet else post_filter(cycle, no_node.verdict)
    if not found:
        return post_filter(cycle, _unschedulable(cycle, refusals))
    # max() takes the first of equal nodes, and they are in the order of the other scores.
    best = max(found, key=lambda node: tuple(score(cycle, node) for score in SCORE)).metadata.name
    allocations = dict(cycle.allocations.get(best, {}))
    special = cycle.special.get(best)
    if special is not None:
        special = replace(special, allocation=allocations.pop(special.claim.ref, None))
    return Plan(
        pod_uid=pod.metadata.uid,
        node=best,
        claims=tuple((claim.ref, claim.metadata.uid) for claim in cycle.claims),
        allocations=allocations,
        special=special,
    )


def _filter(cycle: Cycle) -> tuple[list[Node], dict[str, str]]:
    """Return the nodes that suit, in order of preference, and why the others do not.

    The search ends at the first node that suits, unless a score depends on the allocation that the allocator
    finds on a node: to check all nodes of a large cluster for every pod would be most of the work. The
    nominated node comes first, and if it suits, the search ends.
    """
    found: list[Node] = []
    refusals: dict[str, str] = {}
    compared = 0
    for node in _in_order(cycle):
        if found:
            if not _may_be_better(cycle, node, compared):
                continue
            compared += 1
        words = _refusal(cycle, node)
        if words is not None:
            refusals[node.metadata.name] = words
            continue
        found.append(node)
        if _enough(cycle, node):
            break
    return found, refusals


def _refusal(cycle: Cycle, node: Node) -> str | None:
    """Return why the node does not suit, or None."""
    for check in NODE_FILTERS:
        if (words := check(cycle, node)) is not None:
            return words
    for plugin, concerns, checks in PLUGINS:
        if not concerns(cycle):
            continue
        with cycle.times.measure(plugin) as spent:
            for check in checks:
                if (words := check(cycle, node)) is not None:
                    return words
            spent.passed = True
    return None


def _in_order(cycle: Cycle) -> list[Node]:
    """Return the nodes: the nominated one, then by number of pods (fewest first), then by name."""
    nominated, pods_on = cycle.pod.status.nominated_node_name, cycle.snapshot.pods_on

    def order(node: Node) -> tuple[bool, int, str]:
        name = node.metadata.name
        return name != nominated, pods_on.get(name, 0), name

    return sorted(cycle.snapshot.nodes, key=order)


def _nominated(cycle: Cycle, node: Node) -> bool:
    return cycle.pod.status.nominated_node_name == node.metadata.name


def _enough(cycle: Cycle, last: Node) -> bool:
    if _nominated(cycle, last):
        return True
    if has_alternatives(cycle) or scheduling_steps.matter(cycle):
        return False
    return ready_nodes.ready_at_once(cycle, last) or not ready_nodes.may_exist(cycle)


def _may_be_better(cycle: Cycle, node: Node, compared: int) -> bool:
    """Return whether a node can score higher than nodes that suit. A node with the same devices can't."""
    if has_alternatives(cycle):
        return True
    return compared < _COMPARED and (scheduling_steps.matter(cycle) or ready_nodes.may_be(cycle, node))


def gates(cycle: Cycle) -> None:
    """Raise while the pod has scheduling gates."""
    if cycle.pod.spec.scheduling_gates:
        message = "Scheduling is blocked due to non-empty scheduling gates"
        raise NoNode(Unschedulable(message, reason="SchedulingGated"))


def claims_exist(cycle: Cycle) -> None:
    """Raise unless all claims of the pod exist and none is being deleted."""
    try:
        cycle.claims = claims_of(cycle.pod, cycle.snapshot.claims)
    except NotCreatedYet as problem:
        raise NoNode(everywhere(cycle, str(problem), quiet=True)) from None
    except Unusable as problem:
        raise NoNode(everywhere(cycle, str(problem))) from None


def claims_usable(cycle: Cycle) -> None:
    """Raise if a claim has no room for another pod, or is just being allocated for one."""
    for claim in cycle.claims:
        full = len(claim.status.reserved_for) >= MAX_RESERVED_FOR
        if full and not reserved_for(claim, cycle.pod):
            raise NoNode(everywhere(cycle, "resourceclaim in use"))
        if claim.allocation is None and claim.metadata.uid in cycle.snapshot.in_flight:
            message = f"resource claim {claim.ref} is in the process of being allocated"
            raise NoNode(everywhere(cycle, message, quiet=True))


def claims_can_get_ready(cycle: Cycle) -> None:
    """Raise if devices of a claim failed to get ready, or exceeded the timeout (KEP-5007)."""
    for claim in cycle.claims:
        state, unready = readiness(claim, cycle.snapshot.patience)
        if state in {ConditionReadiness.FAILED, ConditionReadiness.TIMED_OUT}:
            cycle.unavailable.add(claim.metadata.uid)
            what = "failed" if state is ConditionReadiness.FAILED else "took too long"
            devices = "; ".join(map(str, unready))
            raise NoNode(everywhere(cycle, f"binding of resourceclaim {claim.ref} {what}: {devices}"))


def available(cycle: Cycle, node: Node) -> str | None:
    """Return which allocated claims can't be used on the node."""
    name, labels = node.metadata.name, node.metadata.labels
    off = {
        claim.metadata.uid: claim.ref
        for claim in cycle.claims
        if claim.allocation and (where := claim.allocation.node_selector) and not where.matches(name, labels)
    }
    cycle.unavailable |= off.keys()
    # kube-scheduler leaves the names out. They are needed when claims are bound to different nodes.
    return f"resourceclaim not available on the node ({', '.join(off.values())})" if off else None


def apart(cycle: Cycle, node: Node) -> str | None:
    """Return why anti-affinity, of the pod or of pods near the node, forbids the node."""
    return pod_anti_affinity.refusal(cycle.pod, node, cycle.snapshot)


def devices(cycle: Cycle, node: Node) -> str | None:
    """Return why the pod's unallocated claims can't be allocated on the node, or record the allocations."""
    snapshot = cycle.snapshot
    special = scheduling_steps.to_allocate(cycle, node)
    wanted = [*cycle.to_allocate, *special]
    if not wanted:
        return None
    try:
        cycle.allocations[node.metadata.name] = allocate(
            wanted,
            snapshot.inventory,
            snapshot.classes,
            snapshot.in_use,
            AllocationNode(node.metadata.name, node.metadata.labels, frozenset(node.status.declared_features)),
            features=snapshot.features,
            now=snapshot.now,
            order=snapshot.order,
            max_steps=snapshot.max_steps,
        )
    except Refusal as refusal:
        # A fault of a special claim concerns this node only: the next one may have a device plugin.
        if refusal.kind == "claim" and not special:
            raise NoNode(everywhere(cycle, refusal.brief())) from None
        cycle.undecided |= refusal.kind == "undecided"
        words = refusal.brief()
        if any(reason.code == "pool-invalid" for reason in refusal.reasons):
            cycle.invalid.add(words)
        return words
    return None


def post_filter(cycle: Cycle, verdict: Unschedulable) -> Unschedulable:
    """Add the writes that free devices.

    As in kube-scheduler, an allocation is freed if it keeps the pod off some node while no other pod uses it.
    Reservations for this pod from before a crash are released too: a pod that waits must not keep devices from
    others, or keep a deleted claim from going away. Each pod releases its own reservation of a shared claim,
    even while others have theirs, because those pods may be waiting for each other. The last one frees the
    devices. A special claim that did not bring the pod to a node is deleted and created again, because the next
    node may need other requests (KEP-5004).
    """
    releases: list[Release | RemoveFinalizer | DeleteClaim] = [
        step for claim in cycle.snapshot.special if (step := discard_step(claim)) is not None
    ]
    for ref in used_names(cycle.pod):
        claim = cycle.snapshot.claims.get(ref)
        if claim is None or claim.allocation is None:
            continue
        others = tuple(user for user in claim.status.reserved_for if user.uid != cycle.pod.metadata.uid)
        ours = reserved_for(claim, cycle.pod)
        in_the_way = claim.metadata.uid in cycle.unavailable
        if ours or (in_the_way and not others):
            releases.append(Release(claim, others, deallocate=not others))
    return replace(verdict, releases=tuple(releases))


def has_alternatives(cycle: Cycle) -> bool:
    """Return whether a score depends on the allocation."""
    return any(r.first_available for claim in cycle.to_allocate for r in claim.spec.devices.requests)


def preferred(cycle: Cycle, node: Node) -> int:
    """Score alternatives of `firstAvailable` requests: an earlier one in the list is better (KEP-4816)."""
    total = 0
    for claim in cycle.to_allocate:
        allocation = cycle.allocations[node.metadata.name].get(claim.metadata.uid)
        served = {result.request for result in allocation.devices.results} if allocation else set[str]()
        for request in claim.spec.devices.requests:
            names = [f"{request.name}/{alternative.name}" for alternative in request.first_available]
            total += sum(_ALTERNATIVES - rank for rank, name in enumerate(names) if name in served)
    return total


_ALTERNATIVES: Final = 8
"""The longest list of alternatives (`FirstAvailableDeviceRequestMaxSize`)."""

_COMPARED: Final = 100
"""Number of nodes that are compared for a better score when some suit (`minFeasibleNodesToFind`)."""

_TOLD: Final = 4
"""The most different reasons in one message: an event takes 1024 bytes."""

_Check: TypeAlias = Callable[[Cycle], None]
_Filter: TypeAlias = Callable[[Cycle, Node], str | None]


def _plain(check: Callable[[Pod, Node], str | None]) -> _Filter:
    return lambda cycle, node: check(cycle.pod, node)


PRE_ENQUEUE: Final[tuple[_Check, ...]] = (gates, claims_exist)
PRE_FILTER: Final[tuple[_Check, ...]] = (
    scheduling_steps.find_claim,
    claims_usable,
    claims_can_get_ready,
)
NODE_FILTERS: Final[tuple[_Filter, ...]] = (
    _plain(node_filters.unschedulable),
    _plain(node_filters.ready),
    _plain(node_filters.affinity),
    _plain(node_filters.taints),
    apart,
)
PLUGINS: Final[tuple[tuple[str, Callable[[Cycle], bool], tuple[_Filter, ...]], ...]] = (
    ("NodeResourcesFit", scheduling_steps.asked, (scheduling_steps.served,)),
    ("DynamicResources", lambda cycle: bool(cycle.claims or cycle.special), (available, devices)),
)
"""The rest of Filter: name of Kubernetes' plugin for devices, the pods that it concerns, and its check.

The time of each is measured."""
SCORE: Final[tuple[Callable[[Cycle, Node], int], ...]] = (
    preferred,
    ready_nodes.ready_at_once,
    scheduling_steps.filling,
)
"""In order of weight: an earlier score decides first."""


def _unschedulable(cycle: Cycle, refusals: Mapping[str, str]) -> Unschedulable:
    if not refusals:
        return Unschedulable("no nodes available to schedule pods")
    # Reasons about an invalid pool contain its name, so they rarely repeat. They come first (KEP-4815, Risks).
    counted = sorted(Counter(refusals.values()).most_common(), key=lambda item: item[0] not in cycle.invalid)
    reasons = sorted(f"{number} {words}" for words, number in counted[:_TOLD])
    if others := sum(number for _, number in counted[_TOLD:]):
        reasons.append(f"{others} node(s) for other reasons")
    message = f"0/{len(refusals)} nodes are available: {', '.join(reasons)}."
    # "Gave up" is not "does not fit": the reason must distinguish them.
    reason = UNDECIDED if cycle.undecided else "Unschedulable"
    return Unschedulable(message, reason)
