"""Turns slices into pools: which pools exist, which of them a node can use, and their devices in order.

A node sees a pool as in Kubernetes 1.37 (`GatherPools` of its structured allocator). Of the slices that reach
the node, those with the highest generation count. If their number equals `resourceSliceCount`, they are the
pool. Otherwise the slices that do not reach the node matter too. If one of them has a newer generation, the
pool is being replaced, and the node sees nothing of it. Else all slices of the generation must exist.

So nodes may see different generations of one pool. A pool is *complete* if no slice is missing. It is *valid*
if `model.resource.pool.problems` finds no problem across its slices (KEP-4815, Validation). A pool that is
incomplete or invalid stays in the inventory with its problem, so that it can be explained.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Self

from msgspec.structs import replace

from dradriver.allocator.features import Features
from dradriver.allocator.supply.counters import Consumption, CounterTable
from dradriver.allocator.supply.devices_in_use import PoolKey
from dradriver.allocator.supply.nodes import AllocationNode, slice_on_node
from dradriver.model.resource.claim import DeviceId
from dradriver.model.resource.counters import CounterSet
from dradriver.model.resource.device import Device
from dradriver.model.resource.pool import Pool, problems
from dradriver.model.resource.rules import node_selector_problems
from dradriver.model.resource.slices import ResourceSlice

__all__ = [
    "GatheredSlices",
    "Inventory",
    "PoolOnNode",
    "PoolView",
    "PooledDevice",
    "PublishedPool",
    "gather_slices",
    "offered_devices",
]

_SHOWN_PROBLEMS = 3
_ALL_SLICES = Features(compatibility_groups=True)
"""Features with which no slice is ignored."""


@dataclass(frozen=True, eq=False)
class PooledDevice:
    """A device in its pool.

    Attributes:
        id: its name in the cluster.
        device: the device as published.
        source: the slice that contains it.
        consumption: its consumption of the pool's counters; empty while the pool is unusable.
        memo: verdicts of selectors on this device, cached by the selector provider between calls.
    """

    id: DeviceId
    device: Device
    source: ResourceSlice
    consumption: Consumption
    memo: dict[str, object] = field(default_factory=dict, repr=False)


def offered_devices(source: ResourceSlice) -> Sequence[Device]:
    """Return the devices of a slice that can be allocated.

    A slice with counter sets offers no devices, as in Kubernetes 1.37. Its API server rejects a slice that has
    both.
    """
    return () if source.spec.shared_counters else source.spec.devices


class PoolView:
    """Slices of one pool and one generation, taken together. Immutable.

    Attributes:
        driver, name: the driver and the name of the pool.
        generation: the generation of the slices.
        slices: sorted by name as in Kubernetes; their order decides between equal devices.
        complete: whether all slices of the generation exist.
        invalid: the rules that they break together; None if they break none.
        remark: the devices left out of a usable pool, and the reason; None if none is left out.
        devices: all devices, in the order of the slices.
        counter_sets: the counter sets by name.
        counters: the counter sets as integers; empty while the pool is invalid.
    """

    def __init__(self, slices: Sequence[ResourceSlice]) -> None:
        first = slices[0].spec
        self.driver = first.driver
        self.name = first.pool.name
        self.generation = first.pool.generation
        self.slices = tuple(sorted(slices, key=lambda source: source.metadata.name))
        self.counter_sets: Mapping[str, CounterSet] = MappingProxyType(
            {counter_set.name: counter_set for s in self.slices for counter_set in s.spec.shared_counters}
        )
        self.complete = slice_counts(slices) == {len(slices)}
        self.invalid = _invalid(self._broken_rules(counters=True))
        devices = [(device, source) for source in self.slices for device in offered_devices(source)]
        usable = self.invalid is None
        mixed = [s.metadata.name for s in self.slices if s.spec.shared_counters and s.spec.devices]
        self.remark = (
            f"used without the devices of {', '.join(mixed)}: a slice with sharedCounters can't have devices"
            if mixed
            else None
        )
        self.counters = CounterTable(
            self.counter_sets if usable else {}, (device for device, _ in devices if usable)
        )
        self.devices = tuple(
            PooledDevice(
                DeviceId(self.driver, self.name, device.name),
                device,
                source,
                self.counters.consumption(device) if usable else Consumption(),
            )
            for device, source in devices
        )

    @property
    def key(self) -> PoolKey:
        """Return driver and pool name."""
        return self.driver, self.name

    @property
    def problem(self) -> str | None:
        """Return why the generation as a whole can't be used; None if it can."""
        if not self.complete:
            return _incomplete(self.slices, len(self.slices))
        return self.invalid

    def problem_under(self, features: Features, *, skips_devices: bool = False) -> str | None:
        """Return why the generation as a whole can't be used if only these features are on; None if it can.

        Args:
            features: the enabled features.
            skips_devices: see `gather_slices`.
        """
        if not self.complete:
            return self.problem
        whole = features.compatibility_groups or skips_devices
        if not whole and any(map(_uses_groups, self.slices)):
            return f"incomplete: {_groups_off(features)}"
        return self.invalid_under(features)

    def invalid_under(self, features: Features) -> str | None:
        """Return the broken rules if only these features are on."""
        if self.invalid is None or features.partitionable_devices:
            return self.invalid
        return _invalid(self._broken_rules(counters=False))

    def _broken_rules(self, *, counters: bool) -> Iterator[str]:
        counter_sets = tuple(c for source in self.slices for c in source.spec.shared_counters if counters)
        # Slices of one pool may differ in per-device node selection, so their devices obey different rules.
        by_device = {True: list[Device](), False: list[Device]()}
        for source in self.slices:
            devices = offered_devices(source)
            by_device[bool(source.spec.per_device_node_selection)] += (
                devices if counters else [replace(device, consumes_counters=[]) for device in devices]
            )
            selector = source.spec.node_selector
            if selector is not None:
                found = node_selector_problems(selector)
                yield from (f"slice {source.metadata.name}: {problem}" for problem in found)
        for choosing, devices in by_device.items():
            if devices or not choosing:
                pool = Pool(self.name, tuple(devices), counter_sets, per_device_node_selection=choosing)
                yield from map(str, problems(pool))
        twice = {d.name for d in by_device[True]} & {d.name for d in by_device[False]}
        for name in sorted(twice):
            yield f"devices[{name}]: the name is used twice, it must be unique in the pool"


@dataclass(frozen=True, slots=True)
class GatheredSlices:
    """The slices of a pool that count for a node.

    Attributes:
        counted: the slices that form the pool on this node.
        reached: the counted slices that the node reaches.
        problem: why no device of them can be allocated; None if this depends on their content.
        ignored: whether the pool does not count at all, so that a request for all devices is served without it.
            `problem` then gives the reason. With any other problem such a request is refused.
    """

    counted: Sequence[ResourceSlice]
    reached: Sequence[ResourceSlice]
    problem: str | None = None
    ignored: bool = False


def gather_slices(
    slices: Sequence[ResourceSlice], node: AllocationNode, features: Features, *, skips_devices: bool = False
) -> GatheredSlices | None:
    """Return the slices of a pool that count for a node; None if the node reaches none of them.

    Args:
        slices: all slices of the pool, of any generation.
        node: the node.
        features: the enabled features.
        skips_devices: with the gate of compatibility groups off, skip the devices with groups (KEP-5963).
            Otherwise a slice with such a device is ignored completely, as in Kubernetes.
    """
    near = [source for source in slices if slice_on_node(source, node)]
    if not near:
        return None
    whole = features.compatibility_groups or skips_devices
    reached = [source for source in near if features.partitionable_devices or not _is_partitioned(source)]
    reached = [source for source in reached if whole or not _uses_groups(source)]
    if not reached:
        why = _groups_off(features) if any(map(_uses_groups, near)) else _partitions_off(features)
        return GatheredSlices(near, (), f"ignored: {why}", ignored=True)
    generation = max(source.spec.pool.generation for source in reached)
    reached = [source for source in reached if source.spec.pool.generation == generation]
    counts = slice_counts(reached)
    if counts == {len(reached)}:
        return GatheredSlices(reached, reached)
    newest = max(source.spec.pool.generation for source in slices)
    if newest > generation:
        why = (
            f"the node reaches {len(reached)} of {max(counts)} slices of generation {generation}, "
            f"and there are slices of generation {newest}"
        )
        return GatheredSlices(reached, reached, f"ignored: {why}", ignored=True)
    counted = [source for source in slices if source.spec.pool.generation == generation]
    readable = [source for source in counted if whole or not _uses_groups(source)]
    if counts == {len(readable)}:
        return GatheredSlices(readable, reached)
    if counts == {len(counted)}:
        return GatheredSlices(counted, reached, f"incomplete: {_groups_off(features)}")
    return GatheredSlices(counted, reached, _incomplete(reached, len(counted)))


@dataclass(frozen=True, slots=True)
class PoolOnNode:
    """A pool as a node sees it.

    Attributes:
        view: the slices that count on this node.
        devices: the devices in the slices that the node reaches.
        problem: why none of them can be allocated; None if they can.
        ignored: see `GatheredSlices`.
    """

    view: PoolView
    devices: Sequence[PooledDevice]
    problem: str | None = None
    ignored: bool = False

    @classmethod
    def of(cls, gathered: GatheredSlices, view: PoolView, features: Features) -> Self:
        """Return the pool that these slices form for a node."""
        reached = set(map(id, gathered.reached))
        devices = [device for device in view.devices if id(device.source) in reached]
        return cls(view, devices, gathered.problem or view.invalid_under(features), gathered.ignored)


class PublishedPool:
    """All slices of one pool, of all generations. Immutable.

    Attributes:
        slices: the slices.
    """

    def __init__(self, slices: Sequence[ResourceSlice]) -> None:
        self.slices = tuple(slices)
        self._views: dict[frozenset[int], PoolView] = {}
        self._named = all(source.spec.node_name for source in slices)
        self._seen: dict[Hashable, PoolOnNode | None] = {}

    @property
    def newest(self) -> PoolView:
        """Return the highest generation, on whatever nodes it can be reached."""
        generation = max(source.spec.pool.generation for source in self.slices)
        return self._view([source for source in self.slices if source.spec.pool.generation == generation])

    def devices(self) -> Iterator[PooledDevice]:
        """Yield the devices that some node may see: the newest generation, then older ones.

        Only nodes that slices name are considered. The nodes that a selector reaches are unknown here and count
        as seeing the newest generation.
        """
        newest = self.newest
        yield from newest.devices
        older = [source for source in self.slices if source.spec.pool.generation < newest.generation]
        told: set[tuple[int, DeviceId]] = set()
        for name in sorted(set(_named_nodes(older))):
            seen = self.on(AllocationNode(name), _ALL_SLICES)
            if seen is None or seen.ignored or seen.view.generation == newest.generation:
                continue
            for device in seen.devices:
                if (key := (id(device.source), device.id)) not in told:
                    told.add(key)
                    yield device

    def on(self, node: AllocationNode, features: Features, *, skips_devices: bool = False) -> PoolOnNode | None:
        """Return the pool as the node sees it; None if the node reaches none of its slices.

        See `gather_slices`.
        """
        if not self._named:
            return self._on(node, features, skips_devices=skips_devices)
        # Labels do not matter if all slices name their nodes.
        key = node.name, features, skips_devices
        if key not in self._seen:
            self._seen[key] = self._on(node, features, skips_devices=skips_devices)
        return self._seen[key]

    def _on(self, node: AllocationNode, features: Features, *, skips_devices: bool) -> PoolOnNode | None:
        gathered = gather_slices(self.slices, node, features, skips_devices=skips_devices)
        return None if gathered is None else PoolOnNode.of(gathered, self._view(gathered.counted), features)

    def _view(self, slices: Sequence[ResourceSlice]) -> PoolView:
        key = frozenset(map(id, slices))
        if key not in self._views:
            self._views[key] = PoolView(slices)
        return self._views[key]


class Inventory:
    """All pools of a cluster at one moment. Immutable: a change makes a new inventory.

    Attributes:
        published: all slices of each pool, by driver and pool name.
        pools: the same pools at their highest generation, on whatever nodes it can be reached.
    """

    def __init__(self, published: Mapping[PoolKey, PublishedPool]) -> None:
        self.published = dict(sorted(published.items()))
        self.pools: Mapping[PoolKey, PoolView] = MappingProxyType(
            {key: pool.newest for key, pool in self.published.items()}
        )
        self._shared: list[PublishedPool] = []
        self._local: defaultdict[str, list[PublishedPool]] = defaultdict(list)
        for pool in self.published.values():
            names = {source.spec.node_name for source in pool.slices}
            if None in names:
                self._shared.append(pool)
            else:
                for name in names:
                    self._local[name or ""].append(pool)

    @classmethod
    def of(cls, slices: Iterable[ResourceSlice], previous: "Inventory | None" = None) -> Self:
        """Return the pools that these slices form.

        Args:
            slices: all slices of the cluster, of any generation.
            previous: an earlier inventory; its pools are kept if their slices are the same objects.
        """
        found: dict[PoolKey, list[ResourceSlice]] = {}
        for source in slices:
            found.setdefault((source.spec.driver, source.spec.pool.name), []).append(source)
        known = previous.published if previous else {}
        return cls({key: _kept(known.get(key), members) for key, members in found.items()})

    def on(
        self, node: AllocationNode, features: Features, *, skips_devices: bool = False
    ) -> Iterator[PoolOnNode]:
        """Yield each pool as a node sees it, in no particular order; see `PublishedPool.on`."""
        for pool in (*self._local.get(node.name, ()), *self._shared):
            seen = pool.on(node, features, skips_devices=skips_devices)
            if seen is not None:
                yield seen


def slice_counts(slices: Iterable[ResourceSlice]) -> set[int]:
    """Return the values of `resourceSliceCount` in these slices."""
    return {source.spec.pool.resource_slice_count for source in slices}


def _uses_groups(source: ResourceSlice) -> bool:
    return any(taken.compatibility_groups for d in source.spec.devices for taken in d.consumes_counters)


def _named_nodes(slices: Iterable[ResourceSlice]) -> Iterator[str]:
    for source in slices:
        yield from filter(None, (source.spec.node_name, *(device.node_name for device in source.spec.devices)))


def _is_partitioned(source: ResourceSlice) -> bool:
    """Return whether the slice uses fields that KEP-4815 added."""
    return source.spec.per_device_node_selection is not None or bool(source.spec.shared_counters)


def _groups_off(features: Features) -> str:
    return f"devices have compatibility groups and {features.gate('compatibility_groups')} is off"


def _partitions_off(features: Features) -> str:
    return f"its slices need {features.gate('partitionable_devices')}, which is off"


def _incomplete(slices: Iterable[ResourceSlice], found: int) -> str:
    counts = slice_counts(slices)
    if len(counts) > 1:
        return f"incomplete: its slices disagree on resourceSliceCount: {sorted(counts)}"
    return f"incomplete: {found} of {counts.pop()} slices"


def _invalid(broken_rules: Iterable[str]) -> str | None:
    found = list(broken_rules)
    if not found:
        return None
    more = f" and {len(found) - _SHOWN_PROBLEMS} more" if len(found) > _SHOWN_PROBLEMS else ""
    return f"invalid: {'; '.join(found[:_SHOWN_PROBLEMS])}{more}"


def _kept(pool: PublishedPool | None, members: Sequence[ResourceSlice]) -> PublishedPool:
    if pool is not None and {id(s) for s in pool.slices} == {id(s) for s in members}:
        return pool
    return PublishedPool(members)
