"""Forms pools from slices: which pools exist, which pools a node can use, and their devices in order.

A node sees a pool as in Kubernetes 1.37 (`GatherPools` of the structured allocator). Among the slices that the
node reaches, only the slices with the highest generation count. If their number equals `resourceSliceCount`,
they form the pool. Otherwise the slices that the node does not reach matter too. If one of those slices has a
newer generation, the pool is being replaced, and the node can't use the pool. If none has a newer generation,
all slices of the generation must exist.

Therefore nodes may see different generations of one pool. A pool is *complete* if no slice is missing. It is
*valid* if `model.resource.pool.problems` finds no problem across its slices (KEP-4815, Validation). An
incomplete or invalid pool stays in the inventory with its problem, so that a refusal can report the problem.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
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
        id: the device's name in the cluster: driver, pool and name.
        device: the device as published.
        source: the slice that contains it.
        consumption: what the device consumes of the pool's counters; empty if the pool is unusable or if the
            caller does not need it.
        memo: the results of selectors on this device, which the selector provider caches between calls.
    """

    id: DeviceId
    device: Device
    source: ResourceSlice
    consumption: Consumption = field(default_factory=Consumption)
    memo: dict[str, object] = field(default_factory=dict, repr=False)


def offered_devices(source: ResourceSlice) -> Sequence[Device]:
    """Return the devices of a slice that can be allocated.

    A slice with counter sets offers no devices, as in Kubernetes 1.37. The API server rejects a slice that has
    both counter sets and devices.
    """
    return () if source.spec.shared_counters else source.spec.devices


class PoolView:
    """The slices of one generation of a pool, taken together. Immutable.

    Attributes:
        driver, name: the driver and the name of the pool.
        generation: the generation of the slices.
        slices: the slices, sorted by name as in Kubernetes. Equal devices are tried in the order of their
            slices.
        complete: whether all slices of the generation exist.
        invalid: the rules that the slices break together; None if they break none.
        remark: the devices that a usable pool does not offer, with the reason; None if it offers all devices.
        counter_sets: the counter sets by name.
    """

    def __init__(self, slices: Sequence[ResourceSlice], *, is_valid: bool = False) -> None:
        """Form the pool.

        Args:
            slices: the slices of one generation.
            is_valid: whether the caller has found that the slices break no rule together. Otherwise this is
                checked, which takes most of the time.
        """
        first = slices[0].spec
        self.driver = first.driver
        self.name = first.pool.name
        self.generation = first.pool.generation
        self.slices = tuple(sorted(slices, key=lambda source: source.metadata.name))
        self.counter_sets: Mapping[str, CounterSet] = MappingProxyType(
            {counter_set.name: counter_set for s in self.slices for counter_set in s.spec.shared_counters}
        )
        self.complete = declared_slice_counts(slices) == {len(slices)}
        self.invalid = None if is_valid else _invalid_text(self._broken_rules(counters=True))
        mixed = [s.metadata.name for s in self.slices if s.spec.shared_counters and s.spec.devices]
        self.remark = (
            f"used without the devices of {', '.join(mixed)}: a slice with sharedCounters can't have devices"
            if mixed
            else None
        )

    @cached_property
    def counters(self) -> CounterTable:
        """Return the counter sets as integers; empty while the pool is invalid."""
        if self.invalid is not None:
            return CounterTable({}, ())
        devices = (device for source in self.slices for device in offered_devices(source))
        return CounterTable(self.counter_sets, devices)

    @cached_property
    def devices(self) -> tuple[PooledDevice, ...]:
        """Return all devices, in the order of the slices."""
        usable = self.invalid is None
        return tuple(
            [
                PooledDevice(
                    DeviceId(self.driver, self.name, device.name),
                    device,
                    source,
                    self.counters.consumption(device) if usable else Consumption(),
                )
                for source in self.slices
                for device in offered_devices(source)
            ]
        )

    def without_counters(self) -> Self:
        """Return the pool without its counter sets."""
        pool = copy(self)
        pool.counters = CounterTable({}, ())
        return pool

    @property
    def key(self) -> PoolKey:
        """Return driver and pool name."""
        return self.driver, self.name

    @property
    def problem(self) -> str | None:
        """Return why this generation can't be used with all features on; None if it can be used."""
        if not self.complete:
            return _incomplete_text(self.slices, len(self.slices))
        return self.invalid

    def problem_under(self, features: Features, *, skips_devices: bool = False) -> str | None:
        """Return why this generation can't be used with these features; None if it can be used.

        Args:
            features: the enabled features.
            skips_devices: see `gather_slices`.
        """
        if not self.complete:
            return self.problem
        reads_groups = features.compatibility_groups or skips_devices
        if not reads_groups and any(map(_uses_groups, self.slices)):
            return f"unusable: {_groups_off_text(features)}"
        return self.invalid_under(features)

    def invalid_under(self, features: Features) -> str | None:
        """Return the rules that the slices break together; None if they break none.

        Args:
            features: the enabled features. Rules about counters apply only if `partitionable_devices` is on.
        """
        if self.invalid is None or features.partitionable_devices:
            return self.invalid
        return _invalid_text(self._broken_rules(counters=False))

    def _broken_rules(self, *, counters: bool) -> Iterator[str]:
        counter_sets = tuple(c for source in self.slices for c in source.spec.shared_counters if counters)
        # Slices of one pool may differ in per-device node selection. Different rules then apply to their
        # devices.
        by_device = {True: list[Device](), False: list[Device]()}
        for source in self.slices:
            devices = offered_devices(source)
            by_device[bool(source.spec.per_device_node_selection)] += (
                devices if counters else [replace(device, consumes_counters=[]) for device in devices]
            )
            selector = source.spec.node_selector
            if selector is not None:
                selector_problems = node_selector_problems(selector)
                yield from (f"slice {source.metadata.name}: {problem}" for problem in selector_problems)
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
        problem: why no device of these slices can be allocated; None if this depends on the content of the
            slices.
        ignored: whether a request for all devices is served without this pool. `problem` then gives the reason.
            If the pool has a problem and is not ignored, a request for all devices is refused.
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
        skips_devices: applies only while `compatibility_groups` is off. If True, devices with groups are
            skipped (KEP-5963). If False, a slice that contains a device with groups is ignored completely, as
            in Kubernetes.
    """
    reaching = [source for source in slices if slice_on_node(source, node)]
    if not reaching:
        return None
    reads_groups = features.compatibility_groups or skips_devices
    reached = [source for source in reaching if features.partitionable_devices or not _is_partitioned(source)]
    reached = [source for source in reached if reads_groups or not _uses_groups(source)]
    if not reached:
        reason = (
            _groups_off_text(features) if any(map(_uses_groups, reaching)) else _partitions_off_text(features)
        )
        return GatheredSlices(reaching, (), f"ignored: {reason}", ignored=True)
    generation = max(source.spec.pool.generation for source in reached)
    reached = [source for source in reached if source.spec.pool.generation == generation]
    counts = declared_slice_counts(reached)
    if counts == {len(reached)}:
        return GatheredSlices(reached, reached)
    newest = max(source.spec.pool.generation for source in slices)
    if newest > generation:
        reason = (
            f"the node reaches {len(reached)} of {max(counts)} slices of generation {generation}, "
            f"and there are slices of generation {newest}"
        )
        return GatheredSlices(reached, reached, f"ignored: {reason}", ignored=True)
    counted = [source for source in slices if source.spec.pool.generation == generation]
    readable = [source for source in counted if reads_groups or not _uses_groups(source)]
    if counts == {len(readable)}:
        return GatheredSlices(readable, reached)
    if counts == {len(counted)}:
        return GatheredSlices(counted, reached, f"unusable: {_groups_off_text(features)}")
    return GatheredSlices(counted, reached, _incomplete_text(reached, len(counted)))


@dataclass(frozen=True, slots=True)
class PoolOnNode:
    """A pool as a node sees it.

    Attributes:
        view: the slices that count on this node.
        devices: the devices in the slices that the node reaches.
        problem: why none of the devices can be allocated; None if they can be allocated.
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
        self._names_nodes = all(source.spec.node_name for source in slices)
        self._by_node: dict[Hashable, PoolOnNode | None] = {}

    @property
    def newest(self) -> PoolView:
        """Return the highest generation, regardless of the nodes that reach it."""
        generation = max(source.spec.pool.generation for source in self.slices)
        return self._view([source for source in self.slices if source.spec.pool.generation == generation])

    def devices(self) -> Iterator[PooledDevice]:
        """Yield the devices that some node may see: those of the newest generation, then those of older ones.

        Older generations are considered only for nodes that a slice names. The nodes that a selector matches
        are unknown here. They are assumed to see the newest generation.
        """
        newest = self.newest
        yield from newest.devices
        older = [source for source in self.slices if source.spec.pool.generation < newest.generation]
        yielded: set[tuple[int, DeviceId]] = set()
        for name in sorted(set(_named_nodes(older))):
            pool_on_node = self.on_node(AllocationNode(name), _ALL_SLICES)
            if (
                pool_on_node is None
                or pool_on_node.ignored
                or pool_on_node.view.generation == newest.generation
            ):
                continue
            for device in pool_on_node.devices:
                if (key := (id(device.source), device.id)) not in yielded:
                    yielded.add(key)
                    yield device

    def on_node(
        self, node: AllocationNode, features: Features, *, skips_devices: bool = False
    ) -> PoolOnNode | None:
        """Return the pool as the node sees it; None if the node reaches none of its slices.

        See `gather_slices`.
        """
        if not self._names_nodes:
            return self._gather(node, features, skips_devices=skips_devices)
        # If each slice names its node, the labels of nodes do not matter.
        key = node.name, features, skips_devices
        if key not in self._by_node:
            self._by_node[key] = self._gather(node, features, skips_devices=skips_devices)
        return self._by_node[key]

    def _gather(self, node: AllocationNode, features: Features, *, skips_devices: bool) -> PoolOnNode | None:
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
        pools: the highest generation of each pool, regardless of the nodes that reach it.
    """

    def __init__(self, published: Mapping[PoolKey, PublishedPool]) -> None:
        self.published = dict(sorted(published.items()))
        self.pools: Mapping[PoolKey, PoolView] = MappingProxyType(
            {key: pool.newest for key, pool in self.published.items()}
        )
        self._shared: list[PublishedPool] = []
        self._pools_of_node: defaultdict[str, list[PublishedPool]] = defaultdict(list)
        for pool in self.published.values():
            names = {source.spec.node_name for source in pool.slices}
            if None in names:
                self._shared.append(pool)
            else:
                for name in names:
                    self._pools_of_node[name or ""].append(pool)

    @classmethod
    def of(cls, slices: Iterable[ResourceSlice], previous: "Inventory | None" = None) -> Self:
        """Return the pools that these slices form.

        Args:
            slices: all slices of the cluster, of any generation.
            previous: an earlier inventory. A pool of it is reused if all slices of the pool are the same
                objects.
        """
        slices_of_pool: dict[PoolKey, list[ResourceSlice]] = {}
        for source in slices:
            slices_of_pool.setdefault((source.spec.driver, source.spec.pool.name), []).append(source)
        previous_pools = previous.published if previous else {}
        return cls(
            {key: _reuse_pool(previous_pools.get(key), members) for key, members in slices_of_pool.items()}
        )

    def pools_on(
        self, node: AllocationNode, features: Features, *, skips_devices: bool = False
    ) -> Iterator[PoolOnNode]:
        """Yield each pool as a node sees it, in no particular order.

        Args:
            node: the node. If the node reaches no slice of a pool, the pool is omitted.
            features: the enabled features.
            skips_devices: see `gather_slices`.

        Source: `GatherPools` of Kubernetes' structured allocator.
        """
        for pool in (*self._pools_of_node.get(node.name, ()), *self._shared):
            pool_on_node = pool.on_node(node, features, skips_devices=skips_devices)
            if pool_on_node is not None:
                yield pool_on_node


def declared_slice_counts(slices: Iterable[ResourceSlice]) -> set[int]:
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


def _groups_off_text(features: Features) -> str:
    return f"devices have compatibility groups and {features.gate('compatibility_groups')} is off"


def _partitions_off_text(features: Features) -> str:
    return f"its slices need {features.gate('partitionable_devices')}, which is off"


def _incomplete_text(slices: Iterable[ResourceSlice], count: int) -> str:
    counts = declared_slice_counts(slices)
    if len(counts) > 1:
        return f"incomplete: its slices disagree on resourceSliceCount: {sorted(counts)}"
    return f"incomplete: {count} of {counts.pop()} slices"


def _invalid_text(broken_rules: Iterable[str]) -> str | None:
    messages = list(broken_rules)
    if not messages:
        return None
    more = f" and {len(messages) - _SHOWN_PROBLEMS} more" if len(messages) > _SHOWN_PROBLEMS else ""
    return f"invalid: {'; '.join(messages[:_SHOWN_PROBLEMS])}{more}"


def _reuse_pool(pool: PublishedPool | None, members: Sequence[ResourceSlice]) -> PublishedPool:
    if pool is not None and {id(s) for s in pool.slices} == {id(s) for s in members}:
        return pool
    return PublishedPool(members)
