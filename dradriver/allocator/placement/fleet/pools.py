"""A pool in its present state: a blueprint, the names, and the devices that claims hold.

A pool that only one node reaches is a `HeldPool` of this node. A pool that several nodes reach is a
`HeldPool` for each set of its slices that some node reaches, and a `Sight` for each set of devices that some
node reaches of it.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import is_
from typing import TypeAlias

from dradriver.allocator.placement.fleet.blueprint import Blueprint, find_device
from dradriver.allocator.placement.fleet.columns import AttributeColumn, Columns, no_column
from dradriver.allocator.placement.fleet.components import ComponentState
from dradriver.allocator.placement.fleet.contents import SliceContents
from dradriver.allocator.placement.fleet.usage_index import DeviceUse
from dradriver.allocator.supply.compatibility import ANY
from dradriver.allocator.supply.devices_in_use import PoolKey, PoolUse
from dradriver.allocator.supply.pools import PooledDevice, PoolOnNode, PoolView
from dradriver.model.resource.recorded_groups import GroupsBySet

__all__ = ["Entry", "HeldPool", "PoolNames", "Sight"]


@dataclass(frozen=True)
class PoolNames:
    """The names of a pool's devices and counter sets, in the blueprint's order.

    Attributes:
        devices: the names of the devices.
        sets: the names of the counter sets.
        number: by name of a device, its number.
    """

    devices: tuple[str, ...]
    sets: tuple[str, ...]
    number: Mapping[str, int] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "number", {name: number for number, name in enumerate(self.devices)})


class HeldPool:
    """A pool as the nodes that reach some of its slices see it.

    Attributes:
        key: driver and pool name.
        blueprint: the common part of this pool and equal pools.
        names: the names of its devices and counter sets.
        columns: the values of the attributes of its devices.
        values: a key. If two pools of one blueprint have equal keys, their attributes have equal values.
        slices: the slices that form the pool, as published.
        version: a number that grows whenever a device is taken or released.
        states: for each section of the blueprint, the state of this pool's component.
        free: as bits, the devices that are available: no claim holds them as a whole, and their counters and
            groups are available.
        unused: the same, but without regard to a counter below zero, which blocks other devices too. The rating
            of a node counts these devices (`Supply.is_available`).
        overdrawn: whether a counter is below zero.
    """

    def __init__(
        self,
        key: PoolKey,
        blueprint: Blueprint,
        names: PoolNames,
        contents: Sequence[SliceContents],
        columns: Columns,
    ) -> None:
        self.key = key
        self.blueprint = blueprint
        self.names = names
        self.columns = columns
        self.values = tuple([columns[name].number for name in sorted(columns)])
        self.slices = tuple([each.source for each in contents])
        self.version = 0
        self._held: dict[int, DeviceUse] = {}
        self._in_section: dict[int, dict[int, bool]] = {}
        self._recorded_groups: dict[str, GroupsBySet] = {}
        self.states: list[ComponentState] = [section.shape.state(()) for section in blueprint.sections]
        self._supplied = blueprint.fitting & ~blueprint.without_counters
        self._free_without_counters = blueprint.without_counters
        self.overdrawn = False
        self.unused = 0
        self.free = self._compute_free()

    @property
    def pool(self) -> "HeldPool":
        """Return this pool. A `Sight` has the same property."""
        return self

    @property
    def reached(self) -> int:
        """Return the devices that the node reaches, as bits."""
        return self.blueprint.devices

    @property
    def state(self) -> Hashable:
        """Return a key. If two pools of one blueprint have equal keys, their available devices are the same."""
        shares: Hashable = None
        if self.blueprint.shareable:
            held = self._held.items()
            shares = tuple(sorted((n, use.key) for n, use in held if self.blueprint.shareable >> n & 1))
        return tuple([state.number for state in self.states]), self._free_without_counters, shares

    @property
    def held(self) -> Hashable:
        """Return a key. If two pools of one blueprint have equal keys, their held devices are the same."""
        return tuple(sorted((number, use.is_exclusive) for number, use in self._held.items()))

    def column(self, name: str) -> AttributeColumn:
        """Return the values of an attribute.

        Args:
            name: the attribute's name without its domain.
        """
        return self.columns.get(name) or no_column(self.blueprint.size)

    def on_node(self) -> PoolOnNode:
        """Return the pool as the node sees it, with the names on this node."""
        return self.blueprint.on_node(self.blueprint.view if self._is_example else PoolView(self.slices))

    @property
    def _is_example(self) -> bool:
        """Return whether the blueprint was made from this pool."""
        first = self.blueprint.view
        return len(first.slices) == len(self.slices) and all(map(is_, first.slices, self.slices))

    def device(self, number: int) -> PooledDevice:
        """Return a device with its name and its values of attributes, but without its consumption."""
        return self.blueprint.device(number) if self._is_example else find_device(self.key, self.slices, number)

    def update(self, uses: Iterable[tuple[str, DeviceUse | None]]) -> None:
        """Update the use of some devices: (name, use). A use of None means that no claim holds the device."""
        self.version += 1
        sections = set()
        for name, use in uses:
            number = self.names.number.get(name)
            if self._recorded_groups or (use is not None and use.groups is not None):
                sections |= self._note_groups(name, number, use)
            if number is None:
                continue
            if use is None:
                self._held.pop(number, None)
            else:
                self._held[number] = use
            section_and_local = self.blueprint.section_of[number]
            if section_and_local is not None:
                sections.add(section_and_local[0])
                self._set_held(*section_and_local, number, use)
            elif use is None or (not use.is_exclusive and self.blueprint.shareable >> number & 1):
                self._free_without_counters |= 1 << number
            else:
                self._free_without_counters &= ~(1 << number)
        for section in sections:
            self._update_section(section)
        self.free = self._compute_free()

    def use(self, names: PoolNames) -> PoolUse:
        """Return the use of the pool, with the devices and counter sets named as in `names`."""
        held = {names.devices[number]: use for number, use in self._held.items()}
        sets = dict(zip(self.names.sets, names.sets, strict=True))
        groups: dict[str, GroupsBySet] = {}
        for name, recorded in self._recorded_groups.items():
            number = self.names.number.get(name)
            # If a device is gone from the pool, its name may occur in `names`. No device has the name that is
            # used here.
            groups[f"gone/{name}" if number is None else names.devices[number]] = {
                sets[each]: bits for each, bits in recorded.items() if each in sets
            }
        return PoolUse(
            dict.fromkeys(held, ("",)),
            frozenset(name for name, use in held.items() if use.is_exclusive),
            {name: dict(use.consumed) for name, use in held.items() if use.consumed is not None},
            groups,
        )

    def _set_held(self, section: int, local: int, number: int, use: DeviceUse | None) -> None:
        if use is None:
            self._in_section.get(section, {}).pop(local, None)
        else:
            is_shareable = bool(self.blueprint.shareable >> number & 1)
            self._in_section.setdefault(section, {})[local] = is_shareable and not use.is_exclusive

    def _note_groups(self, name: str, number: int | None, use: DeviceUse | None) -> set[int]:
        """Keep the recorded groups if they differ from the declared groups. Return the affected sections."""
        recorded = use.groups if use is not None else None
        if recorded is not None and number is not None:
            declared = self.declared_groups(number)
            # If the record does not list a counter set, the device uses this counter set without groups.
            recorded = dict.fromkeys(declared, ()) | dict(recorded)
            recorded = None if recorded == declared else recorded
        before = self._recorded_groups.pop(name, {})
        if recorded is not None:
            self._recorded_groups[name] = recorded
        return {
            section
            for counter_set in (*before, *(recorded or ()))
            if (section := self._section_of(counter_set)) is not None
        }

    def declared_groups(self, number: int) -> GroupsBySet:
        """Return the compatibility groups that a device declares, by counter set."""
        sets = dict(zip(self.blueprint.sets, self.names.sets, strict=True))
        taken = self.blueprint.device(number).device.consumes_counters
        return {sets[each.counter_set]: tuple(each.compatibility_groups) for each in taken}

    def _set_index(self, name: str) -> int | None:
        """Return the index, in the view's table, of the counter set with this name; None if there is none."""
        if name not in self.names.sets:
            return None
        return self.blueprint.view.counters.set_indexes.get(self.blueprint.sets[self.names.sets.index(name)])

    def _section_of(self, name: str) -> int | None:
        index = self._set_index(name)
        components = self.blueprint.view.counters.components
        return (
            None
            if index is None
            else next(n for n, each in enumerate(components) if each.sets[0] <= index < each.sets[1])
        )

    def _update_section(self, number: int) -> None:
        section = self.blueprint.sections[number]
        held = tuple(sorted(self._in_section.get(number, {}).items()))
        recorded = self._groups_of_section(number) if self._recorded_groups else ()
        state = section.shape.state(held, *recorded)
        self.states[number] = state
        self._supplied = self._supplied & ~section.mask | section.in_pool(state.free)

    def _groups_of_section(self, number: int) -> tuple[tuple[int, ...], frozenset[tuple[int, int]]]:
        """Return the recorded groups of a section's counter sets.

        The second value is the set of (device, counter set) pairs for which these groups count.
        """
        table = self.blueprint.view.counters
        first, end = table.components[number].sets
        groups_left = [ANY] * (end - first)
        recorded_devices = set()
        for name, recorded in self._recorded_groups.items():
            device = self.names.number.get(name)
            section = None if device is None else self.blueprint.section_of[device]
            for counter_set, groups in recorded.items():
                at = self._set_index(counter_set)
                if at is not None and first <= at < end:
                    groups_left[at - first] &= table.groups.named(groups)
                    if section is not None and section[0] == number:
                        recorded_devices.add((section[1], at - first))
        return tuple(groups_left), frozenset(recorded_devices)

    def _compute_free(self) -> int:
        blueprint = self.blueprint
        if blueprint.problem is not None:
            self.unused = 0
            return 0
        free = self._supplied | self._free_without_counters
        self.unused = free & blueprint.devices
        self.overdrawn = bool(self.states) and any(state.overdrawn is not None for state in self.states)
        if self.overdrawn:
            # A counter below zero blocks all devices with counters, except devices in use as shares: they
            # already have their counters.
            shared = sum(
                1 << n for n, use in self._held.items() if blueprint.shareable >> n & 1 and not use.is_exclusive
            )
            free &= self._free_without_counters | shared
        return free & blueprint.devices


@dataclass(frozen=True, slots=True, eq=False)
class Sight:
    """A pool that several nodes reach, as some of these nodes see it.

    Attributes:
        number: the number of the sight. It is unique.
        pool: the pool of the slices that the nodes reach.
        reached: as bits, the devices that the nodes reach (KEP-4815, per-device node selection).
    """

    number: int
    pool: HeldPool
    reached: int

    @property
    def free(self) -> int:
        """Return, as bits, the available devices in the slices that the nodes reach."""
        return self.pool.free

    @property
    def key(self) -> PoolKey:
        """Return driver and pool name."""
        return self.pool.key

    @property
    def blueprint(self) -> Blueprint:
        """Return the blueprint of the pool."""
        return self.pool.blueprint

    @property
    def states(self) -> Sequence[ComponentState]:
        """Return the state of each component of the pool."""
        return self.pool.states

    @property
    def overdrawn(self) -> bool:
        """Return whether a counter of the pool is below zero."""
        return self.pool.overdrawn


Entry: TypeAlias = HeldPool | Sight
"""A pool that a node sees."""
