"""Keep the devices of nominated pods from pods of lower priority.

A pod that waits for its victims is nominated for a node. When the victims leave, their devices are free for a
moment. Without this module, a waiting pod of lower priority could take them first, and the nominated pod would
evict again. As in kube-scheduler's Filter, a nominated pod counts as if it ran on its node for the decision
about any other pod whose priority is not higher.

The devices are computed for each decision, from the nominated node in the pod's status and from the claims of
the pod. If no victim is being deleted yet, the victims are selected again. So nothing is lost if the process
dies.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace as with_changes

from msgspec.structs import replace

from dradriver.allocator import BudgetSpentError, Meter
from dradriver.control.claims.pod_claims import ClaimUnusable, claims_of
from dradriver.control.extended.scheduling_steps import find_leftover
from dradriver.control.preemption.dry_run import release_claims, select_victims
from dradriver.control.preemption.held_claims import find_held_claims, find_leaving_claims
from dradriver.control.scheduler.cluster_state import ClusterState
from dradriver.control.scheduler.node_choice.search import NodeChoice, NodeSearch
from dradriver.control.scheduler.snapshot import Cycle, NoNode
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import ResourceClaim

__all__ = ["find_precedence", "hold_devices"]


def find_precedence(cycle: Cycle) -> tuple[tuple[str, str], ...]:
    """Return the nominated pods that count for the decision about a pod, each with its node.

    Returns:
        `namespace/name` and node, the highest priority first.
    """
    cluster = cycle.snapshot.cluster
    pods = [
        pod
        for ref, pod in cluster.nominated.items()
        if ref != cycle.pod.ref
        and pod.priority >= cycle.pod.priority
        and pod.status.nominated_node_name in cluster.nodes
    ]
    ordered = sorted(pods, key=lambda pod: (-pod.priority, pod.ref))
    return tuple((pod.ref, pod.status.nominated_node_name) for pod in ordered)


@contextmanager
def hold_devices(cycle: Cycle) -> Iterator[None]:
    """Let the devices of the pods of `cycle.precedence` count as in use inside of `with`.

    The placer is changed in place and restored in any case. The caller must be the thread that plans.
    """
    cluster = cycle.snapshot.cluster
    held: list[str] = []
    try:
        for ref, node in cycle.precedence:
            for claim in _place_claims(cycle, cluster.nominated[ref], node):
                held.append(claim.ref)
                cluster.placer.put_claim(claim)
        yield
    finally:
        for ref in held:
            cluster.placer.remove_claim(ref)


def _place_claims(cycle: Cycle, pod: Pod, node: str) -> list[ResourceClaim]:
    """Return a nominated pod's claims as they will be when its victims have left; empty if they do not fit."""
    cluster = cycle.snapshot.cluster
    nodes = None if cycle.snapshot.nodes is None else (node,)
    own = Cycle(pod, with_changes(cycle.snapshot, claims=cluster.claims, leftovers=(), nodes=nodes))
    search = NodeSearch(own)
    try:
        own.claims = claims_of(pod, cluster.claims)
        find_leftover(own)
        choice = _try_without(search, cluster, node, find_leaving_claims(cluster, node, pod.priority))
        if choice is None and pod.spec.preemption_policy != "Never":
            # Its victims are not being deleted yet.
            choice = _try_without(search, cluster, node, _find_victims_claims(search, cluster, pod, node))
    except (BudgetSpentError, ClaimUnusable, NoNode):
        return []
    allocations = {} if choice is None else choice.allocations
    return [
        replace(claim, status=replace(claim.status, allocation=allocation))
        for claim in search.claims_on(node)[0]
        if (allocation := allocations.get(claim.metadata.uid or claim.ref)) is not None
    ]


def _try_without(
    search: NodeSearch, cluster: ClusterState, node: str, released: Iterable[ResourceClaim]
) -> NodeChoice | None:
    with release_claims(cluster.placer, released):
        return search.try_node(node)


def _find_victims_claims(search: NodeSearch, cluster: ClusterState, pod: Pod, node: str) -> list[ResourceClaim]:
    """Return the claims that the pod's victims release, and those that are released already."""
    if search.checked.refusal(node) is not None:
        return []
    claims, _ = search.claims_on(node)
    victims = select_victims(cluster, node, pod.priority, claims, Meter(cluster.budget))
    evicted = {victim.ref for victim in victims.pods} if victims is not None else set[str]()
    held = find_held_claims(cluster, node, pod.priority)
    return [each.claim for each in held if each.victims.keys() <= evicted]
