"""Which nodes have devices that are ready at once, where most devices have to be attached first (KEP-5007)."""

from collections.abc import Iterable
from dataclasses import dataclass

from dradriver.model.device import Device
from dradriver.model.nodes import NodeSelector
from dradriver.model.slices import ResourceSlice, ResourceSliceSpec
from dradriver.model.workload import Node

__all__ = ["ReadyPools"]


@dataclass(frozen=True, slots=True)
class ReadyPools:
    """Where devices without binding conditions are that are not everywhere.

    Attributes:
        names: of nodes that have some of their own.
        selectors: of the nodes that reach others.
    """

    names: frozenset[str] = frozenset()
    selectors: tuple[NodeSelector, ...] = ()

    @classmethod
    def of(cls, slices: Iterable[ResourceSlice]) -> "ReadyPools":
        """Those of these slices."""
        names: set[str] = set()
        selectors: dict[str, NodeSelector] = {}
        for item in slices:
            ready: list[Device] = [device for device in item.spec.devices if not device.binding_conditions]
            places: list[Device | ResourceSliceSpec] = [item.spec, *ready] if ready else []
            for place in places:
                if place.node_name:
                    names.add(place.node_name)
                if place.node_selector is not None:
                    selectors[repr(place.node_selector)] = place.node_selector
        return cls(frozenset(names), tuple(selectors.values()))

    def __bool__(self) -> bool:
        return bool(self.names or self.selectors)

    def reach(self, node: Node) -> bool:
        """Whether the node may have one that others do not have."""
        name, labels = node.metadata.name, node.metadata.labels
        return name in self.names or any(each.matches(name, labels) for each in self.selectors)
