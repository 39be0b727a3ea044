"""Slices in, pools out: which pools exist, which of them can be used, and their devices in order.

Only the slices of a pool's highest generation count. A pool is *complete* when all the slices are there
that its slices speak of, and *valid* when `model.pool.problems` finds nothing across them (KEP-4815,
Validation). One that is neither stays in the inventory with its problem, so that it can be explained.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Self

from msgspec.structs import replace

from dradriver.allocator.counters import Consumption, CounterTable
from dradriver.allocator.features import Features
from dradriver.allocator.nodes import Node, slice_on_node
from dradriver.allocator.use import PoolKey
from dradriver.model.claim import DeviceId
from dradriver.model.counters import CounterSet
from dradriver.model.device import Device
from dradriver.model.pool import Pool, problems
from dradriver.model.rules import node_selector_problems
from dradriver.model.slices import ResourceSlice

__all__ = ["Inventory", "PoolView", "PooledDevice"]

_SHOWN_PROBLEMS = 3


@dataclass(frozen=True, eq=False)
class PooledDevice:
    """A device in its pool.

    Attributes:
        id: its name in the cluster.
        device: as published.
        source: the slice that it comes from.
        consumption: what it takes of the pool's counters; nothing while the pool is unusable.
        memo: verdicts of selectors on this device, kept by the selector provider from call to call.
    """

    id: DeviceId
    device: Device
    source: ResourceSlice
    consumption: Consumption
    memo: dict[str, object] = field(default_factory=dict, repr=False)


class PoolView:
    """One pool at its highest generation. Immutable.

    Attributes:
        driver, name: which pool.
        generation: of the slices that count.
        slices: these slices, sorted by name as Kubernetes does: their order decides among equal devices.
        complete: whether all slices of the generation are there.
        problem: why the pool can't be used, None when it can.
        devices: all its devices, in the order of the slices.
        counter_sets: by name.
        counters: the counter sets as integers; empty while the pool is unusable.
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
        counts = {source.spec.pool.resource_slice_count for source in slices}
        self.complete = counts == {len(slices)}
        self.problem = self._problem(counts)
        devices = [(device, source) for source in self.slices for device in source.spec.devices]
        usable = self.problem is None
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
        """Driver and pool name."""
        return self.driver, self.name

    def problem_under(self, features: Features, *, skips_devices: bool = False) -> str | None:
        """Why the pool can't be used when only these features are on.

        Args:
            features: what is switched on.
            skips_devices: with the gate of compatibility groups off the devices that have some are skipped
                (KEP-5963); else the whole slice is ignored, as Kubernetes does.
        """
        problem = self.problem
        if problem is not None and self.complete and not features.partitionable_devices:
            problem = self._invalid(self._broken_rules(counters=False))
        groups = features.compatibility_groups or skips_devices
        if problem is None and not groups and self._uses_groups():
            gate = features.gate("compatibility_groups")
            return f"incomplete: devices have compatibility groups and {gate} is off"
        return problem

    def visible_on(self, node: Node, features: Features) -> Sequence[PooledDevice] | None:
        """The devices in the slices that the node reaches; None when it reaches none of the slices."""
        reached = {
            id(source)
            for source in self.slices
            if slice_on_node(source, node) and (features.partitionable_devices or not _is_partitioned(source))
        }
        if not reached:
            return None
        return [device for device in self.devices if id(device.source) in reached]

    def _uses_groups(self) -> bool:
        return any(taken.compatibility_groups for d in self.devices for taken in d.device.consumes_counters)

    def _problem(self, counts: set[int]) -> str | None:
        if len(counts) > 1:
            return f"incomplete: its slices disagree on resourceSliceCount: {sorted(counts)}"
        if not self.complete:
            return f"incomplete: {len(self.slices)} of {counts.pop()} slices"
        return self._invalid(self._broken_rules(counters=True))

    @staticmethod
    def _invalid(broken_rules: Iterable[str]) -> str | None:
        found = list(broken_rules)
        if not found:
            return None
        more = f" and {len(found) - _SHOWN_PROBLEMS} more" if len(found) > _SHOWN_PROBLEMS else ""
        return f"invalid: {'; '.join(found[:_SHOWN_PROBLEMS])}{more}"

    def _broken_rules(self, *, counters: bool) -> Iterator[str]:
        counter_sets = tuple(c for source in self.slices for c in source.spec.shared_counters if counters)
        # Slices of one pool may differ in who chooses the nodes, so their devices obey different rules.
        by_device = {True: list[Device](), False: list[Device]()}
        for source in self.slices:
            devices = source.spec.devices
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


class Inventory:
    """All pools of a cluster at one moment. Immutable: a change makes a new one.

    Attributes:
        pools: by driver and pool name.
    """

    def __init__(self, pools: Mapping[PoolKey, PoolView]) -> None:
        self.pools: Mapping[PoolKey, PoolView] = MappingProxyType(dict(sorted(pools.items())))
        self._shared: list[PoolView] = []
        self._local: defaultdict[str, list[PoolView]] = defaultdict(list)
        for pool in self.pools.values():
            names = {source.spec.node_name for source in pool.slices}
            if None in names:
                self._shared.append(pool)
            else:
                for name in names:
                    self._local[name or ""].append(pool)

    @classmethod
    def of(cls, slices: Iterable[ResourceSlice], previous: "Inventory | None" = None) -> Self:
        """The pools that these slices make up.

        Args:
            slices: all slices of the cluster, of any generation.
            previous: an earlier inventory; its pools are kept where their slices are the same objects.
        """
        newest: dict[PoolKey, list[ResourceSlice]] = {}
        for source in slices:
            spec = source.spec
            together = newest.setdefault((spec.driver, spec.pool.name), [])
            if together and spec.pool.generation > together[0].spec.pool.generation:
                together.clear()
            if not together or spec.pool.generation == together[0].spec.pool.generation:
                together.append(source)
        known = previous.pools if previous else {}
        return cls({key: _kept(known.get(key), members) for key, members in newest.items()})

    def near(self, node: Node) -> Iterator[PoolView]:
        """The pools of which the node might reach something, in no particular order."""
        yield from self._local.get(node.name, ())
        yield from self._shared


def _is_partitioned(source: ResourceSlice) -> bool:
    """Whether the slice uses what KEP-4815 added."""
    return source.spec.per_device_node_selection is not None or bool(source.spec.shared_counters)


def _kept(pool: PoolView | None, members: list[ResourceSlice]) -> PoolView:
    if pool is not None and {id(s) for s in pool.slices} == {id(s) for s in members}:
        return pool
    return PoolView(members)
