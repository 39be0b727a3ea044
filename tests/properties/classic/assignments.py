"""A second answer, by brute force, to the question whether a pod that waits could run on a node."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
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

    The search is over all pods that wait, together: what only such pods have counts as free, because its
    deallocation can be requested. So a node is also found if each of two pods has what the other one needs.
    What other pods have, or what is allocated immediately, stays where it is.
    """
    claims = list(_claims_of(world, pod))
    if any(claim is None for claim in claims):
        return ""
    waiting = {
        each.metadata.uid for each in world.pods.values() if not each.spec.node_name and not each.finished
    }
    fixed = [claim for claim in claims if claim is not None and not _can_move(world, waiting, claim)]
    moved = [claim for claim in claims if claim is not None and _can_move(world, waiting, claim)]
    for node in world.nodes:
        if all(_is_usable(claim, pod, node) for claim in fixed) and _fits(
            world, waiting, moved, node.metadata.name
        ):
            return node.metadata.name
    return ""


def _claims_of(world: World, pod: Pod) -> Iterator[ResourceClaim | None]:
    for wanted in pod.spec.resource_claims:
        claim = world.claims.get(f"{pod.metadata.namespace}/{pod.claim_name(wanted)}")
        yield None if claim is None or claim.metadata.deletion_timestamp is not None else claim


def _can_move(world: World, waiting: Collection[str], claim: ResourceClaim) -> bool:
    """Return whether the claim is unallocated, or can be allocated again for another node.

    Args:
        world: the objects.
        waiting: UIDs of the pods that wait.
        claim: the claim.
    """
    controlled = resolve(claim, world.classes)
    if controlled is not None and not controlled.is_delayed:
        return False
    return all(consumer.uid in waiting for consumer in claim.status.reserved_for)


def _is_usable(claim: ResourceClaim, pod: Pod, node: Node) -> bool:
    if claim.allocation is None or any(each.uid != pod.metadata.uid for each in claim.status.reserved_for):
        return False  # an immediate claim waits for its controller, and no claim here is shareable
    selector = claim.allocation.node_selector
    return selector is None or selector.matches(node.metadata.name, node.metadata.labels)


def _fits(world: World, waiting: Collection[str], claims: Sequence[ResourceClaim], node: str) -> bool:
    needed: Counter[str] = Counter()
    for claim in claims:
        controlled = resolve(claim, world.classes)
        needed[controlled.controller if controlled is not None else ""] += 1
    movable = [claim for claim in world.claims.values() if _can_move(world, waiting, claim)]
    return all(_count_free(world, movable, name, node) >= count for name, count in needed.items())


def _count_free(world: World, movable: Sequence[ResourceClaim], controller: str, node: str) -> int:
    """Return the devices of a controller, or of slices, that are free on a node without the movable claims."""
    if not controller:
        used = sum(
            result.pool == node
            for claim in world.claims.values()
            if resolve(claim, world.classes) is None and claim not in movable
            for result in claim.results
        )
        return world.devices[node] - used
    fabric = world.fabrics[controller]
    released = sum(fabric.held.get(claim.metadata.uid) == node for claim in movable)
    return 0 if node in fabric.refused else fabric.free(node) + released
