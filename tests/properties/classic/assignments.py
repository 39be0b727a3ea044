"""A second answer, by brute force, to the question whether a pod that waits could run on a node."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dradriver.model.classic.controlled_claims import resolve
from dradriver.model.core.workload import Node, Pod
from dradriver.model.resource.claim import ResourceClaim
from dradriver.model.resource.deviceclass import DeviceClass
from tests.properties.classic.fabric import Fabric

__all__ = ["World", "find_node"]


@dataclass(frozen=True)
class World:
    """The objects and the hardware.

    Attributes:
        pods, claims: by `namespace/name`.
        nodes: all nodes.
        classes: by name.
        fabrics: the hardware by the name of its controller.
        devices: the number of devices of slices that each node has.
    """

    pods: Mapping[str, Pod]
    claims: Mapping[str, ResourceClaim]
    nodes: Sequence[Node]
    classes: Mapping[str, DeviceClass]
    fabrics: Mapping[str, Fabric]
    devices: Mapping[str, int]


def find_node(world: World, pod: Pod) -> str:
    """Return a node on which the pod could run now; empty if there is none.

    What only this pod has counts as free, because its deallocation can be requested. What other pods have, or
    what is allocated immediately, stays where it is.
    """
    claims = list(_claims_of(world, pod))
    if any(claim is None for claim in claims):
        return ""
    fixed = [claim for claim in claims if claim is not None and not _can_move(world, pod, claim)]
    moved = [claim for claim in claims if claim is not None and _can_move(world, pod, claim)]
    for node in world.nodes:
        if all(_is_usable(claim, pod, node) for claim in fixed) and _fits(world, moved, node.metadata.name):
            return node.metadata.name
    return ""


def _claims_of(world: World, pod: Pod) -> Iterator[ResourceClaim | None]:
    for wanted in pod.spec.resource_claims:
        claim = world.claims.get(f"{pod.metadata.namespace}/{pod.claim_name(wanted)}")
        yield None if claim is None or claim.metadata.deletion_timestamp is not None else claim


def _can_move(world: World, pod: Pod, claim: ResourceClaim) -> bool:
    """Return whether the claim is unallocated, or can be allocated again for another node."""
    controlled = resolve(claim, world.classes)
    if controlled is not None and not controlled.is_delayed:
        return False
    return all(consumer.uid == pod.metadata.uid for consumer in claim.status.reserved_for)


def _is_usable(claim: ResourceClaim, pod: Pod, node: Node) -> bool:
    if claim.allocation is None or any(each.uid != pod.metadata.uid for each in claim.status.reserved_for):
        return False  # an immediate claim waits for its controller, and no claim here is shareable
    selector = claim.allocation.node_selector
    return selector is None or selector.matches(node.metadata.name, node.metadata.labels)


def _fits(world: World, claims: Sequence[ResourceClaim], node: str) -> bool:
    needed: Counter[str] = Counter()
    own: Counter[str] = Counter()
    for claim in claims:
        controlled = resolve(claim, world.classes)
        name = controlled.controller if controlled is not None else ""
        needed[name] += 1
        if controlled is not None:
            own[name] += world.fabrics[name].held.get(claim.metadata.uid) == node
        else:
            own[name] += any(result.pool == node for result in claim.results)
    return all(_free(world, name, node) + own[name] >= count for name, count in needed.items())


def _free(world: World, controller: str, node: str) -> int:
    if controller:
        return world.fabrics[controller].free(node)
    used = sum(
        result.pool == node
        for claim in world.claims.values()
        if resolve(claim, world.classes) is None
        for result in claim.results
    )
    return world.devices[node] - used
