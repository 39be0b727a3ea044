"""One node's pool: a blueprint, the names on this node, and the devices that claims hold."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import is_

from dradriver.allocator.placement.blueprint import Blueprint, ComponentState
from dradriver.allocator.placement.contents import Values
from dradriver.allocator.placement.usage_index import DeviceUse
from dradriver.allocator.supply.compatibility import ANY
from dradriver.allocator.supply.devices_in_use import PoolKey, PoolUse
from dradriver.allocator.supply.pools import PoolOnNode, PoolView
from dradriver.model.resource.recorded_groups import GroupsBySet
from dradriver.model.resource.slices import ResourceSlice

__all__ = ["NodePool", "PoolNames"]


@dataclass(frozen=True)
class PoolNames:
    """The names of a pool's devices and counter sets, in the blueprint's order.

    Attributes:
        devices: the names of the devices.
        sets: the names of the counter sets.
        number: the number of the device with each name.
    """

    devices: tuple[str, ...]
    sets: tuple[str, ...]
    number: Mapping[str, int] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "number", {name: number for number, name in enumerate(self.devices)})


class NodePool:
    """A pool that only one node reaches.

    Attributes:
        key: driver and pool name.
        blueprint: the part that it has in common with equal pools.
        names: the names of its parts on this node.
        attributes: the attributes, by slice and device.
        slices: the slices that count, as published.
        states: for each section of the blueprint, its state.
        free: the devices that counters, groups and holders leave available, as bits.
        overdrawn: whether a counter is below zero.
    """

    def __init__(
        self,
        key: PoolKey,
        blueprint: Blueprint,
        names: PoolNames,
        attributes: tuple[tuple[Values, ...], ...],
        slices: Sequence[ResourceSlice],
    ) -> None:
        self.key = key
        self.blueprint = blueprint
        self.names = names
        self.attributes = attributes
        self.slices = tuple(slices)
        self._held: dict[int, DeviceUse] = {}
        self._in_section: list[dict[int, bool]] = [{} for _ in blueprint.sections]
        self._odd: dict[str, GroupsBySet] = {}
        self.states: list[ComponentState] = [section.shape.state(()) for section in blueprint.sections]
        self._fed = 0
        for section, state in zip(blueprint.sections, self.states, strict=True):
            self._fed |= section.in_pool(state.free)
        self._lone = blueprint.loners
        self.overdrawn = False
        self.free = self._free()

    @property
    def state(self) -> Hashable:
        """Return a key that is equal for pools of one blueprint in which the same devices are available."""
        shares: Hashable = None
        if self.blueprint.shareable:
            held = self._held.items()
            shares = tuple(sorted((n, use.mark) for n, use in held if self.blueprint.shareable >> n & 1))
        return tuple([state.number for state in self.states]), self._lone, shares

    @property
    def held(self) -> Hashable:
        """Return a key that is equal for pools of one blueprint in which the same devices are held."""
        return tuple(sorted((number, use.whole) for number, use in self._held.items()))

    def seen(self) -> PoolOnNode:
        """Return the pool as the node sees it, with the names on this node."""
        known = self.blueprint.view
        mine = len(known.slices) == len(self.slices) and all(map(is_, known.slices, self.slices))
        return self.blueprint.on_node(known if mine else PoolView(self.slices))

    def update(self, uses: Iterable[tuple[str, DeviceUse | None]]) -> None:
        """Update the use of some devices, by name; None means that the device is no longer held."""
        sections = set()
        for name, use in uses:
            number = self.names.number.get(name)
            sections |= self._note_groups(name, number, use)
            if number is None:
                continue
            if use is None:
                self._held.pop(number, None)
            else:
                self._held[number] = use
            place = self.blueprint.place[number]
            if place is not None:
                sections.add(place[0])
                self._hold(*place, number, use)
            elif use is None or (not use.whole and self.blueprint.shareable >> number & 1):
                self._lone |= 1 << number
            else:
                self._lone &= ~(1 << number)
        for section in sections:
            self._settle(section)
        self.free = self._free()

    def use(self, names: PoolNames) -> PoolUse:
        """Return the use of the pool, under other names."""
        held = {names.devices[number]: use for number, use in self._held.items()}
        sets = dict(zip(self.names.sets, names.sets, strict=True))
        groups: dict[str, GroupsBySet] = {}
        for name, recorded in self._odd.items():
            number = self.names.number.get(name)
            # A device that is gone from the pool may exist under the other names. No device has this name.
            groups[f"gone/{name}" if number is None else names.devices[number]] = {
                sets[each]: bits for each, bits in recorded.items() if each in sets
            }
        return PoolUse(
            dict.fromkeys(held, ("",)),
            frozenset(name for name, use in held.items() if use.whole),
            {name: dict(use.consumed) for name, use in held.items() if use.consumed is not None},
            groups,
        )

    def _hold(self, section: int, place: int, number: int, use: DeviceUse | None) -> None:
        if use is None:
            self._in_section[section].pop(place, None)
        else:
            self._in_section[section][place] = not use.whole and bool(self.blueprint.shareable >> number & 1)

    def _note_groups(self, name: str, number: int | None, use: DeviceUse | None) -> set[int]:
        """Keep recorded groups that differ from the declared ones, and return the affected sections."""
        recorded = use.groups if use is not None else None
        if recorded is not None and number is not None:
            declared = self.declared(number)
            # A counter set that the record does not list is used without groups.
            recorded = dict.fromkeys(declared, ()) | dict(recorded)
            recorded = None if recorded == declared else recorded
        before = self._odd.pop(name, {})
        if recorded is not None:
            self._odd[name] = recorded
        return {
            section
            for counter_set in (*before, *(recorded or ()))
            if (section := self._section_of(counter_set)) is not None
        }

    def declared(self, number: int) -> GroupsBySet:
        """Return the compatibility groups that a device declares, by counter set."""
        sets = dict(zip(self.blueprint.sets, self.names.sets, strict=True))
        taken = self.blueprint.view.devices[number].device.consumes_counters
        return {sets[each.counter_set]: tuple(each.compatibility_groups) for each in taken}

    def _set_place(self, name: str) -> int | None:
        """Return the place of the counter set with this name in the view's table."""
        if name not in self.names.sets:
            return None
        return self.blueprint.view.counters.set_places.get(self.blueprint.sets[self.names.sets.index(name)])

    def _section_of(self, name: str) -> int | None:
        place = self._set_place(name)
        components = self.blueprint.view.counters.components
        return (
            None
            if place is None
            else next(n for n, each in enumerate(components) if each.sets[0] <= place < each.sets[1])
        )

    def _settle(self, number: int) -> None:
        section = self.blueprint.sections[number]
        held = tuple(sorted(self._in_section[number].items()))
        state = section.shape.state(held, *self._recorded(number)) if self._odd else section.shape.state(held)
        self.states[number] = state
        self._fed = self._fed & ~section.mask | section.in_pool(state.free)

    def _recorded(self, number: int) -> tuple[tuple[int, ...], frozenset[tuple[int, int]]]:
        """Return the recorded groups of a section's counter sets.

        The second value is the set of (device, counter set) pairs for which these groups count.
        """
        table = self.blueprint.view.counters
        first, end = table.components[number].sets
        joined = [ANY] * (end - first)
        known = set()
        for name, recorded in self._odd.items():
            device = self.names.number.get(name)
            place = None if device is None else self.blueprint.place[device]
            for counter_set, groups in recorded.items():
                at = self._set_place(counter_set)
                if at is not None and first <= at < end:
                    joined[at - first] &= table.groups.named(groups)
                    if place is not None and place[0] == number:
                        known.add((place[1], at - first))
        return tuple(joined), frozenset(known)

    def _free(self) -> int:
        blueprint = self.blueprint
        if blueprint.problem is not None:
            return 0
        free = self._fed | self._lone
        self.overdrawn = any(state.overdrawn is not None for state in self.states)
        if self.overdrawn:
            # A counter below zero blocks the whole pool. A device with shares already has its counters.
            shared = sum(
                1 << n for n, use in self._held.items() if blueprint.shareable >> n & 1 and not use.whole
            )
            free &= self._lone | shared
        return free & blueprint.devices
