"""The pipeline's steps for extended resources (KEP-5004): PreFilter, Filter and Score.

If a node's device plugin offers a requested resource, the amount is counted. If devices serve the resource, the
pod needs a special claim in addition to its own claims. Kubernetes 1.37 deletes every special claim of an
earlier attempt. Here, a special claim is used again if it is complete and still fits its node, as the KEP
specifies, because attaching its devices may have taken minutes.
"""

from collections.abc import Sequence
from typing import Final

from dradriver.control.extended.requests import requested_amounts
from dradriver.control.extended.resource_split import Unservable, allocatable_amount, split_resources
from dradriver.control.extended.scoring import ResourceUse
from dradriver.control.extended.special import SpecialClaimPlan, is_leftover, is_reusable, new_special_claim
from dradriver.control.pools.class_devices import count_devices
from dradriver.control.scheduler.snapshot import Cycle, NoNode, refuse_all_nodes
from dradriver.model.core.workload import Node
from dradriver.model.resource.claim import ResourceClaim

__all__ = [
    "affects_score",
    "check_resources",
    "find_leftover",
    "has_extended_resources",
    "score_use",
    "to_allocate",
]

_STALE: Final = "cannot schedule extended resource claim"
"""kube-scheduler's message for a special claim of an earlier attempt."""


def find_leftover(cycle: Cycle) -> None:
    """PreFilter: find the pod's amounts and an earlier special claim; raise if the claim is unusable."""
    cycle.amounts = requested_amounts(cycle.pod)
    leftovers = [claim for claim in cycle.snapshot.leftovers if is_leftover(claim)]
    if not leftovers:
        return
    if len(leftovers) > 1 or not is_reusable(leftovers[0], cycle.pod):
        raise NoNode(refuse_all_nodes(cycle, f"{_STALE} {', '.join(claim.ref for claim in leftovers)}"))
    cycle.leftover = leftovers[0]
    cycle.claims = [*cycle.claims, leftovers[0]]


def has_extended_resources(cycle: Cycle) -> bool:
    """Return whether the pod requests extended resources, or has a special claim of an earlier attempt."""
    return bool(cycle.amounts) or cycle.leftover is not None


def check_resources(cycle: Cycle, node: Node) -> str | None:
    """Filter: return the reason if the node's device plugins and devices cannot serve the pod's amounts."""
    pod, snapshot, leftover = cycle.pod, cycle.snapshot, cycle.leftover
    in_use = snapshot.cluster.requested.on_node(node.metadata.name)
    try:
        split = split_resources(pod, cycle.amounts, node, in_use, snapshot.cluster.classes_by_resource)
    except Unservable as problem:
        return str(problem)
    if split.insufficient:
        return ", ".join(f"Insufficient {name}" for name in split.insufficient)
    requests = split.requests
    if leftover is not None and list(requests.requests) != leftover.spec.devices.requests:
        return f"{_STALE} {leftover.ref}"
    if requests.requests:
        claim = leftover or new_special_claim(pod, requests, snapshot.claim_names)
        cycle.special[node.metadata.name] = SpecialClaimPlan(claim, requests.mappings)
    elif pod.status.extended_resource_claim_status is not None:
        # The status field cannot be cleared, and the kubelet would wait for the claim in it forever.
        return "node(s) have a device plugin, but the pod's status names a claim for its extended resources"
    return None


def to_allocate(cycle: Cycle, name: str) -> Sequence[ResourceClaim]:
    """Return the special claim for the node if it must still be allocated."""
    special = cycle.special.get(name)
    return [special.claim] if special is not None and special.claim.allocation is None else []


def affects_score(cycle: Cycle) -> bool:
    """Return whether the pod's amounts can give nodes different scores."""
    return cycle.snapshot.scoring.applies_to(cycle.amounts)


def score_use(cycle: Cycle, node: Node) -> int:
    """Score: rate how full the node would be with the pod, by the scoring strategy."""
    if not affects_score(cycle):
        return 0
    return cycle.snapshot.scoring.score({name: _use(cycle, node, name) for name in cycle.amounts})


def _use(cycle: Cycle, node: Node, resource: str) -> ResourceUse:
    name, cluster = node.metadata.name, cycle.snapshot.cluster
    capacity = allocatable_amount(node, resource)
    in_use = cluster.requested.on_node(name).get(resource, 0)
    device_class = cluster.classes_by_resource.by_name.get(resource)
    if capacity == 0 and device_class is not None:
        capacity, in_use = count_devices(device_class, node, cluster.placer.pools_on(name))
    return ResourceUse(capacity, in_use + cycle.amounts[resource])
