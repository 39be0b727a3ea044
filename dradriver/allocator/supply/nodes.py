"""Decides which nodes reach a device, and on which nodes an allocation can be used."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from dradriver.model.core.node_selector import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from dradriver.model.resource.device import Device
from dradriver.model.resource.slices import ResourceSlice

__all__ = ["AllocationNode", "device_on_node", "node_selector", "slice_on_node"]


@dataclass(frozen=True)
class AllocationNode:
    """The fields of a node that allocation reads."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    declared_features: frozenset[str] = frozenset()

    @cached_property
    def selector(self) -> NodeSelector:
        """Return the selector that matches only this node. All allocations on the node share it."""
        return NodeSelector.for_node(self.name)


def slice_on_node(source: ResourceSlice, node: AllocationNode) -> bool:
    """Return whether the node reaches any device of the slice."""
    spec = source.spec
    if spec.node_name or spec.all_nodes or spec.node_selector is not None:
        return _reaches(spec.node_name, spec.node_selector, node, all_nodes=spec.all_nodes)
    return bool(spec.per_device_node_selection) and any(
        device_on_node(device, source, node) for device in spec.devices
    )


def device_on_node(device: Device, source: ResourceSlice, node: AllocationNode) -> bool:
    """Return whether the node reaches the device. Call this only if the node reaches the slice.

    Source: KEP-4815, per-device node selection.
    """
    if not source.spec.per_device_node_selection:
        return True
    return _reaches(device.node_name, device.node_selector, node, all_nodes=device.all_nodes)


def _reaches(
    name: str | None, selector: NodeSelector | None, node: AllocationNode, *, all_nodes: bool | None
) -> bool:
    if name:
        return name == node.name
    if all_nodes:
        return True
    return selector is not None and selector.matches(node.name, node.labels)


def node_selector(chosen: Iterable[tuple[Device, ResourceSlice]], node: AllocationNode) -> NodeSelector | None:
    """Return a selector for the nodes on which a claim with these devices can be used; None means all nodes.

    If a device is local to a node or binds to the chosen node, the whole claim is restricted to that node by
    `NodeSelector.for_node`. Otherwise the requirements of all devices are joined in one term.

    Args:
        chosen: the devices of the claim with their slices.
        node: the chosen node.
    """
    fields: list[NodeSelectorRequirement] = []
    expressions: list[NodeSelectorRequirement] = []
    for device, source in chosen:
        by_device = bool(source.spec.per_device_node_selection)
        name = device.node_name if by_device else source.spec.node_name
        if name is not None or device.binds_to_node:
            return node.selector
        selector = device.node_selector if by_device else source.spec.node_selector
        # The selector of a slice or device has exactly one term, by the rules of the API.
        for term in selector.node_selector_terms if selector else ():
            _join(fields, term.match_fields)
            _join(expressions, term.match_expressions)
    if not fields and not expressions:
        return None
    return NodeSelector([NodeSelectorTerm(match_fields=fields, match_expressions=expressions)])


def _join(into: list[NodeSelectorRequirement], more: Iterable[NodeSelectorRequirement]) -> None:
    for requirement in more:
        if not any(_same(requirement, present) for present in into):
            into.append(requirement)


def _same(one: NodeSelectorRequirement, other: NodeSelectorRequirement) -> bool:
    return (one.key, one.operator, set(one.values)) == (other.key, other.operator, set(other.values))
