"""Nodes with devices that are ready at once, where most devices have to be attached first (KEP-5007)."""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from dradriver.allocator import Inventory, PooledDevice
from dradriver.allocator.request.matching import WantedDevices
from dradriver.model.core.node_selector import NodeSelector
from dradriver.model.core.workload import Node
from dradriver.model.resource.claim import DeviceId

__all__ = ["ReadyPools"]

_KINDS: int = 64


@dataclass(frozen=True)
class ReadyPools:
    """The places of devices without binding conditions, except devices that all nodes reach.

    Attributes:
        local: devices that one node reaches, by its name.
        selectors: selectors of the nodes that reach the others.
    """

    local: Mapping[str, Sequence[PooledDevice]] = field(default_factory=dict)
    selectors: tuple[NodeSelector, ...] = ()
    _known: dict[Hashable, Mapping[str, Sequence[DeviceId]]] = field(
        default_factory=dict, repr=False, compare=False
    )

    @classmethod
    def of(cls, inventory: Inventory) -> "ReadyPools":
        """Return the places of the ready devices in these pools."""
        local: defaultdict[str, list[PooledDevice]] = defaultdict(list)
        selectors: dict[str, NodeSelector] = {}
        for pool in inventory.published.values():
            for pooled in pool.devices():
                if pooled.device.binding_conditions:
                    continue
                spec = pooled.source.spec
                if name := pooled.device.node_name or spec.node_name:
                    local[name].append(pooled)
                for selector in (pooled.device.node_selector, spec.node_selector):
                    if selector is not None:
                        selectors[repr(selector)] = selector
        return cls(dict(local), tuple(selectors.values()))

    def of_use(self, wanted: WantedDevices) -> Mapping[str, Sequence[DeviceId]]:
        """Return the matching single-node devices by node, in use or not.

        The result is cached for claims of the same kind.
        """
        if wanted.kind not in self._known:
            if len(self._known) >= _KINDS:
                self._known.clear()
            matching = {name: _matching(devices, wanted) for name, devices in self.local.items()}
            self._known[wanted.kind] = {name: devices for name, devices in matching.items() if devices}
        return self._known[wanted.kind]

    def may_reach(self, node: Node) -> bool:
        """Return whether the node reaches a ready device that other nodes reach too."""
        return any(each.matches(node.metadata.name, node.metadata.labels) for each in self.selectors)


def _matching(devices: Iterable[PooledDevice], wanted: WantedDevices) -> Sequence[DeviceId]:
    return [pooled.id for pooled in devices if wanted.matches(pooled)]
