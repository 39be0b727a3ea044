"""The pipeline's steps for extended resources (KEP-5004): PreFilter, Filter and Score.

Where a node's device plugin offers a requested resource, it is counted. Where devices serve it, a special claim
requests them beside the pod's own claims. Kubernetes 1.37 deletes every special claim of an earlier attempt.
Here, a special claim that is complete and still fits its node is used again, as the KEP specifies, because its
devices may have taken minutes to attach.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from dradriver.control.extended import (
    ResourceUse,
    Special,
    Unservable,
    allocatable,
    amounts_of,
    is_left,
    share_of,
    special_for,
    usable_again,
)
from dradriver.control.pools.class_devices import devices_of
from dradriver.control.scheduler.cycle import Cycle, NoNode, everywhere
from dradriver.model.core.workload import Node
from dradriver.model.resource.claim import (
    ClaimSpec,
    DeviceRequest,
    DeviceRequests,
    ExactDeviceRequest,
    ResourceClaim,
)

__all__ = [
    "asked",
    "class_claims",
    "filling",
    "find_claim",
    "matter",
    "plugin_nodes",
    "served",
    "to_allocate",
]

_STALE: Final = "cannot schedule extended resource claim"
"""kube-scheduler's message for a special claim of an earlier attempt."""


def find_claim(cycle: Cycle) -> None:
    """PreFilter: find the pod's amounts, and the special claim of an earlier attempt if it is complete."""
    cycle.amounts = amounts_of(cycle.pod)
    left = [claim for claim in cycle.snapshot.special if is_left(claim)]
    if not left:
        return
    if len(left) > 1 or not usable_again(left[0], cycle.pod):
        raise NoNode(everywhere(cycle, f"{_STALE} {', '.join(claim.ref for claim in left)}"))
    cycle.left = left[0]
    cycle.claims = [*cycle.claims, left[0]]


def asked(cycle: Cycle) -> bool:
    """Return whether the pod asks for extended resources, or has a special claim of an earlier attempt."""
    return bool(cycle.amounts) or cycle.left is not None


def served(cycle: Cycle, node: Node) -> str | None:
    """Filter: check each resource: either the node has enough of it left, or devices there serve it."""
    pod, snapshot, left = cycle.pod, cycle.snapshot, cycle.left
    taken = snapshot.taken.get(node.metadata.name, {})
    try:
        share = share_of(pod, cycle.amounts, node, taken, snapshot.classes_by_resource)
    except Unservable as problem:
        return str(problem)
    if share.insufficient:
        return ", ".join(f"Insufficient {name}" for name in share.insufficient)
    asked = share.requests
    if left is not None and list(asked.requests) != left.spec.devices.requests:
        return f"{_STALE} {left.ref}"
    if asked.requests:
        claim = left or special_for(pod, asked, snapshot.claims)
        cycle.special[node.metadata.name] = Special(claim, asked.mappings)
    elif pod.status.extended_resource_claim_status is not None:
        # The status field can't be reverted, and the kubelet would wait for that claim forever.
        return "node(s) have a device plugin, but the pod's status names a claim for its extended resources"
    return None


def to_allocate(cycle: Cycle, node: Node) -> Sequence[ResourceClaim]:
    """Return the special claim for the node if it still has to be allocated."""
    special = cycle.special.get(node.metadata.name)
    return [special.claim] if special is not None and special.claim.allocation is None else []


def class_claims(cycle: Cycle) -> Iterator[ResourceClaim]:
    """Yield a claim for one device of the class, for each resource of the pod that a class serves.

    Yields none if the special claim of an earlier attempt already determines the pod's devices.
    """
    for name in _class_backed(cycle):
        device_class = cycle.snapshot.classes_by_resource.by_name[name]
        exactly = ExactDeviceRequest(
            device_class_name=device_class.metadata.name, allocation_mode="ExactCount", count=1
        )
        yield ResourceClaim(spec=ClaimSpec(DeviceRequests(requests=[DeviceRequest("device", exactly)])))


def plugin_nodes(cycle: Cycle) -> Iterator[str]:
    """Yield the nodes with a device plugin that has enough left of a resource that a class serves too."""
    names, taken = _class_backed(cycle), cycle.snapshot.taken
    for node in cycle.snapshot.nodes if names else ():
        offered = [name for name in names if name in node.status.allocatable]
        here = taken.get(node.metadata.name, {}) if offered else {}
        if any(cycle.amounts[name] <= allocatable(node, name) - here.get(name, 0) for name in offered):
            yield node.metadata.name


def _class_backed(cycle: Cycle) -> Sequence[str]:
    """Return the resources of the pod that devices may serve; none if an earlier attempt's claim has them."""
    classes = cycle.snapshot.classes_by_resource.by_name
    return [name for name in cycle.amounts if name in classes] if cycle.left is None else []


def matter(cycle: Cycle) -> bool:
    """Return whether nodes can differ in their score for the pod's amounts."""
    return cycle.snapshot.scoring.counts(cycle.amounts)


def filling(cycle: Cycle, node: Node) -> int:
    """Score: return how full the node would be, rated by the scoring strategy."""
    if not matter(cycle):
        return 0
    return cycle.snapshot.scoring.score({name: _use(cycle, node, name) for name in cycle.amounts})


def _use(cycle: Cycle, node: Node, resource: str) -> ResourceUse:
    capacity = allocatable(node, resource)
    taken = cycle.snapshot.taken.get(node.metadata.name, {}).get(resource, 0)
    found = cycle.snapshot.classes_by_resource.by_name.get(resource)
    if capacity == 0 and found is not None:
        snapshot = cycle.snapshot
        capacity, taken = devices_of(found, node, snapshot.inventory, snapshot.in_use, snapshot.features)
    return ResourceUse(capacity, taken + cycle.amounts[resource])
