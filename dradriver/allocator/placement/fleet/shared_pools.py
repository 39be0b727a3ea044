"""The pools that several nodes reach: which slices and devices of them each node reaches.

The nodes of a pool are found from the pool outwards: an index of labels names the nodes that a selector may
match. If nodes reach the same slices of a pool, they share a `HeldPool`. If they also reach the same devices,
they share a `Sight`. The sights of a node are its `Outlook`.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from dradriver.allocator.features import Features
from dradriver.allocator.placement.fleet.pools import HeldPool, Sight
from dradriver.allocator.supply.nodes import AllocationNode
from dradriver.allocator.supply.pools import GatheredSlices, gather_slices, offered_devices
from dradriver.model.core.node_selector import NodeSelector, NodeSelectorTerm
from dradriver.model.resource.slices import ResourceSlice

__all__ = ["NodeIndex", "Outlook", "SharedPool"]


@dataclass(frozen=True, slots=True, eq=False)
class Outlook:
    """The pools shared with other nodes that some nodes see. Nodes with equal sights share one outlook.

    Attributes:
        number: the number of the outlook. It is unique.
        sights: the sights.
    """

    number: int
    sights: tuple[Sight, ...]

    @property
    def stamp(self) -> int:
        """Return a number that grows whenever a device of one of the pools is taken or released."""
        stamp = 0
        for sight in self.sights:  # faster than a comprehension, because most outlooks have one sight
            stamp += sight.pool.version
        return stamp

    def count_free(self) -> int:
        """Return the number of unused devices in the slices that the nodes reach."""
        return sum([sight.pool.unused.bit_count() for sight in self.sights])


@dataclass(slots=True)
class _Reach:
    """The slices that a node reaches, as bits, and by slice the devices in it, as bits."""

    slices: int = 0
    devices: dict[int, int] = field(default_factory=dict)


_NOWHERE: Final = _Reach()


class NodeIndex:
    """Finds the nodes that a node selector matches. `put` and `remove` must be called for each change."""

    def __init__(self) -> None:
        self._nodes: dict[str, AllocationNode] = {}
        self._by_label: dict[tuple[str, str], set[str]] = {}

    def put(self, node: AllocationNode) -> None:
        """Add or replace a node."""
        self.remove(node.name)
        self._nodes[node.name] = node
        for label in node.labels.items():
            self._by_label.setdefault(label, set()).add(node.name)

    def remove(self, name: str) -> None:
        """Remove a node; a no-op if it is unknown."""
        node = self._nodes.pop(name, None)
        for label in node.labels.items() if node else ():
            names = self._by_label[label]
            names.discard(name)
            if not names:
                del self._by_label[label]

    def find_matches(self, selector: NodeSelector) -> set[str]:
        """Return the names of the nodes that the selector matches."""
        found: set[str] = set()
        for term in selector.node_selector_terms:
            for name in self._find_candidates(term):
                node = self._nodes.get(name)
                if node is not None and term.matches(name, node.labels):
                    found.add(name)
        return found

    def _find_candidates(self, term: NodeSelectorTerm) -> Iterable[str]:
        """Return a set of nodes that contains all nodes that the term matches; it is as small as possible."""
        smallest: Iterable[str] = self._nodes
        size = len(self._nodes)
        for requirement in term.match_fields:
            if (requirement.key, requirement.operator) == ("metadata.name", "In") and len(
                requirement.values
            ) < size:
                smallest, size = requirement.values, len(requirement.values)
        for requirement in term.match_expressions:
            if requirement.operator == "In":
                of_values = [self._by_label.get((requirement.key, value), ()) for value in requirement.values]
                if (together := sum(map(len, of_values))) < size:
                    smallest, size = [name for names in of_values for name in names], together
        return smallest


class SharedPool:
    """A pool that several nodes may reach.

    Args:
        slices: all slices of the pool, of any generation.
        features, skips_devices: see `gather_slices`.
        make_pool: returns the pool of the slices that some node reaches.
        make_sight: returns a new sight of such a pool, for the reached devices as bits.

    Attributes:
        held_pools: the pools that the nodes see.
    """

    def __init__(
        self,
        slices: Sequence[ResourceSlice],
        features: Features,
        *,
        skips_devices: bool,
        make_pool: Callable[[GatheredSlices], HeldPool],
        make_sight: Callable[[HeldPool, int], Sight],
    ) -> None:
        self.slices = slices
        self.held_pools: list[HeldPool] = []
        self._numbers = {id(source): number for number, source in enumerate(slices)}
        self._features = features
        self._skips_devices = skips_devices
        self._make_pool = make_pool
        self._make_sight = make_sight
        self._gathered: dict[int, HeldPool | None] = {}
        self._pools: dict[Hashable, HeldPool] = {}
        self._sights: dict[Hashable, Sight] = {}
        self._reach_of_all = _Reach()
        self._reach: dict[str, _Reach] = {}

    def find_nodes(self, index: NodeIndex) -> None:
        """Find the nodes that reach each slice and device. Call this before `see` if a node has changed."""
        self._reach_of_all = _Reach()
        self._reach.clear()
        for number, source in enumerate(self.slices):
            spec = source.spec
            by_device = bool(spec.per_device_node_selection)
            by_slice = bool(spec.node_name or spec.all_nodes or spec.node_selector is not None)
            if by_slice:
                for reach in self._find_reaches(
                    spec.node_name, spec.node_selector, index, for_all=spec.all_nodes
                ):
                    reach.slices |= 1 << number
            if not by_device:
                self._reach_of_all.devices[number] = -1
            nodes: dict[tuple[str | None, bool | None, NodeSelector | None], int] = {}
            for at, device in enumerate(spec.devices if by_device else ()):
                key = device.node_name, device.all_nodes, device.node_selector
                nodes[key] = nodes.get(key, 0) | 1 << at
            for (name, for_all, selector), mask in nodes.items():
                for reach in self._find_reaches(name, selector, index, for_all=for_all):
                    reach.devices[number] = reach.devices.get(number, 0) | mask
                    reach.slices |= 0 if by_slice else 1 << number

    def see(self, node: AllocationNode) -> Sight | None:
        """Return the pool as the node sees it; None if the node reaches no slice of it."""
        own = self._reach.get(node.name, _NOWHERE)
        slices = self._reach_of_all.slices | own.slices
        if not slices:
            return None
        if slices not in self._gathered:
            self._gathered[slices] = self._gather(node)
        pool = self._gathered[slices]
        if pool is None:
            return None
        mask = offset = 0
        for source in pool.blueprint.view.slices:
            number = self._numbers[id(source)]
            reached = self._reach_of_all.devices.get(number, 0) | own.devices.get(number, 0)
            count = len(offered_devices(source))
            mask |= (reached & (1 << count) - 1) << offset
            offset += count
        mask &= pool.blueprint.devices
        key = id(pool), mask
        sight = self._sights.get(key)
        if sight is None:
            sight = self._sights[key] = self._make_sight(pool, mask)
        return sight

    def _gather(self, node: AllocationNode) -> HeldPool | None:
        gathered = gather_slices(self.slices, node, self._features, skips_devices=self._skips_devices)
        if gathered is None:
            return None
        key = (
            tuple(map(id, gathered.counted)),
            tuple(map(id, gathered.reached)),
            gathered.problem,
            gathered.ignored,
        )
        pool = self._pools.get(key)
        if pool is None:
            pool = self._pools[key] = self._make_pool(gathered)
            self.held_pools.append(pool)
        return pool

    def _find_reaches(
        self, name: str | None, selector: NodeSelector | None, index: NodeIndex, *, for_all: bool | None
    ) -> "Iterable[_Reach]":
        if name:
            return (self._reach.setdefault(name, _Reach()),)
        if for_all:
            return (self._reach_of_all,)
        names = index.find_matches(selector) if selector is not None else ()
        return [self._reach.setdefault(each, _Reach()) for each in names]
