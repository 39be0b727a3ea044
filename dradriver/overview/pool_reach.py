"""Decides which nodes reach the devices of a pool."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from dradriver.model.core.node_selector import NodeSelector
from dradriver.model.resource.device import Device
from dradriver.model.resource.slices import ResourceSlice, ResourceSliceSpec
from dradriver.overview.node_labels import NodeLabels

__all__ = ["PoolReach", "find_local_node", "find_reach"]


@dataclass(frozen=True, slots=True)
class PoolReach:
    """The nodes that reach a pool; see `Reach`.

    Attributes:
        nodes: names of the nodes that reach at least one device, in order.
        is_everywhere: whether all nodes reach the pool.
        device_nodes: for each device that only some of `nodes` reach, these nodes.
    """

    nodes: tuple[str, ...] = ()
    is_everywhere: bool = False
    device_nodes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def find_local_node(slices: Iterable[ResourceSlice]) -> str | None:
    """Return the only node that slices and devices name; None if they name several, or select nodes.

    Args:
        slices: the slices of a pool.
    """
    names = {name for source in slices for name in _named_nodes(source)}
    return names.pop() if len(names) == 1 else None


def _named_nodes(source: ResourceSlice) -> Iterator[str | None]:
    if source.spec.per_device_node_selection:
        yield from (device.node_name for device in source.spec.devices)
    else:
        yield source.spec.node_name


def find_reach(slices: Sequence[ResourceSlice], index: NodeLabels) -> PoolReach:
    """Return the nodes that reach a pool.

    Args:
        slices: the slices of one generation of the pool.
        index: the nodes of the cluster.

    Source: KEP-4815, per-device node selection.
    """
    by_device: dict[str, frozenset[str]] = {}
    is_everywhere = False
    every = frozenset(index.names)
    for source in slices:
        spec = source.spec
        if not spec.per_device_node_selection:
            of_slice = _select(spec, index, every)
            by_device |= dict.fromkeys((device.name for device in spec.devices), of_slice)
            is_everywhere = is_everywhere or bool(spec.all_nodes and spec.devices)
            continue
        for device in spec.devices:
            by_device[device.name] = _select(device, index, every)
            is_everywhere = is_everywhere or bool(device.all_nodes)
    reached = every if is_everywhere else frozenset[str]().union(*by_device.values())
    device_nodes = {name: tuple(sorted(nodes)) for name, nodes in by_device.items() if nodes != reached}
    return PoolReach(tuple(sorted(reached)), is_everywhere, device_nodes)


def _select(owner: Device | ResourceSliceSpec, index: NodeLabels, every: frozenset[str]) -> frozenset[str]:
    """Return the nodes that a slice or a device selects."""
    if owner.node_name:
        return frozenset([owner.node_name])
    if owner.all_nodes:
        return every
    selector: NodeSelector | None = owner.node_selector
    return index.select(selector) if selector is not None else frozenset()
