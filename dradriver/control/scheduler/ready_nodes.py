"""Nodes that can serve a pod at once, where other nodes have to attach devices first (KEP-5007, Goals).

Only an allocation shows the devices with which a node serves a pod. This module finds in advance the nodes that
are worth the search: a node with a free device that matches and has no binding conditions, and a node whose
device plugin serves a resource that devices serve elsewhere (KEP-5004).
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from dradriver.allocator import Refusal
from dradriver.allocator.request.matching import WantedDevices
from dradriver.control.extended import scheduling_steps
from dradriver.control.scheduler.binding_conditions import requires
from dradriver.control.scheduler.cycle import Cycle
from dradriver.model.core.workload import Node
from dradriver.model.resource.claim import DeviceId

__all__ = ["may_be", "may_exist", "ready_at_once"]


def ready_at_once(cycle: Cycle, node: Node) -> bool:
    """Return whether no device that the allocator found on the node has binding conditions (a score).

    Args:
        cycle: the attempt.
        node: a node that suits.
    """
    return not any(map(requires, cycle.allocations.get(node.metadata.name, {}).values()))


def may_exist(cycle: Cycle) -> bool:
    """Return whether some node may serve the pod at once."""
    return bool(cycle.snapshot.ready.selectors or _matching(cycle) or _served_by_plugins(cycle))


def may_be(cycle: Cycle, node: Node) -> bool:
    """Return whether a node may serve the pod at once.

    Args:
        cycle: the attempt.
        node: the node.

    Returns:
        True for a node that reaches a free device without binding conditions that not all nodes reach, and for
        one whose device plugin serves a resource that a class serves too.
    """
    name, in_use = node.metadata.name, cycle.snapshot.in_use
    if cycle.snapshot.ready.may_reach(node) or name in _served_by_plugins(cycle):
        return True
    near = (device for found in _matching(cycle) for device in found.get(name, ()))
    return any(device.device not in in_use.of_pool((device.driver, device.pool)) for device in near)


def _served_by_plugins(cycle: Cycle) -> frozenset[str]:
    if cycle.served_by_plugins is None:
        cycle.served_by_plugins = frozenset(scheduling_steps.plugin_nodes(cycle))
    return cycle.served_by_plugins


def _matching(cycle: Cycle) -> Sequence[Mapping[str, Sequence[DeviceId]]]:
    """Return the matching single-node devices that are ready at once, by node, for each kind of claim."""
    if cycle.ready is None:
        cycle.ready = list(_find_matching(cycle)) if cycle.snapshot.ready.local else []
    return cycle.ready


def _find_matching(cycle: Cycle) -> Iterator[Mapping[str, Sequence[DeviceId]]]:
    snapshot = cycle.snapshot
    for claims in (cycle.to_allocate, *([claim] for claim in scheduling_steps.class_claims(cycle))):
        # Only a special claim of another node may use an invalid class. Then Filter refuses that node.
        with suppress(Refusal):
            found = (
                snapshot.ready.of_use(WantedDevices(claims, snapshot.classes, snapshot.features))
                if claims
                else {}
            )
            if found:
                yield found
