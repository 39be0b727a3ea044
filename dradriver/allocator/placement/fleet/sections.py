"""Divides a pool into its components.

A component that equals one of another pool is not read again. The amounts that devices take, and the amounts of
counters, are compared by their numbers (`fleet.contents`).
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from dradriver.allocator.placement.fleet.components import ComponentShape
from dradriver.allocator.placement.fleet.contents import SliceContents, Take
from dradriver.allocator.supply.compatibility import NO_GROUPS
from dradriver.allocator.supply.node_supply import Row
from dradriver.allocator.supply.pools import PoolView, offered_devices
from dradriver.model.resource.counters import CounterSet, connect_sets
from dradriver.model.resource.device import Device

__all__ = ["Arrangement", "Section", "SectionBuilder"]

_MAX_KNOWN: Final = 100_000

_Place: TypeAlias = tuple[int, tuple[int, ...]]
"""The number of a component, and the positions of counter sets in it."""


@dataclass(frozen=True, slots=True)
class Section:
    """A component of the pool.

    Attributes:
        shape: the common part of this component and equal components.
        members: the numbers of its devices in the pool, ascending.
        mask: the devices of `members` as bits.
        first: the number of the first device if the numbers in `members` are consecutive, else None.
        visible: the devices in the slices that the node reaches, as bits of the component's numbers.
    """

    shape: ComponentShape
    members: tuple[int, ...]
    mask: int
    first: int | None
    visible: int

    def in_pool(self, local: int) -> int:
        """Convert devices, as bits, from the component's numbers to the pool's numbers."""
        if self.first is not None:
            return local << self.first
        return sum([1 << member for number, member in enumerate(self.members) if local >> number & 1])

    def in_component(self, mask: int) -> int:
        """Convert devices, as bits, from the pool's numbers to the component's numbers."""
        if self.first is not None:
            return (mask & self.mask) >> self.first
        return sum([1 << number for number, member in enumerate(self.members) if mask >> member & 1])


class Arrangement:
    """The devices of each component. Pools with equal arrangements share one.

    Attributes:
        members: for each component, the numbers of its devices in the pool, ascending.
        masks: the same as bits.
        firsts: for each component, see `Section.first`.
        section_of: for each device, its component and its number in the component; None for a device that
            consumes nothing.
        without_counters: the devices that consume nothing, as bits.
    """

    def __init__(self, members: tuple[tuple[int, ...], ...], devices: int) -> None:
        section_of: list[tuple[int, int] | None] = [None] * devices
        for at, numbers in enumerate(members):
            for local, number in enumerate(numbers):
                section_of[number] = at, local
        self.members = members
        self.masks = [sum([1 << number for number in numbers]) for numbers in members]
        self.firsts = [
            numbers[0] if numbers and numbers[-1] - numbers[0] + 1 == len(numbers) else None
            for numbers in members
        ]
        self.section_of: Sequence[tuple[int, int] | None] = section_of
        self.without_counters = sum([1 << number for number, at in enumerate(section_of) if at is None])


@dataclass(frozen=True, slots=True)
class _PoolContents:
    """The parts of a pool that decide about its components.

    Attributes:
        slices: its slices.
        sets: the names of its counter sets; takes refer to their positions.
        takes: for each device, what it takes of counter sets.
        counters: for each counter set by name, the counters and the number of the counters.
    """

    slices: Sequence[SliceContents]
    sets: Sequence[str]
    takes: Sequence[Take]
    counters: dict[str, tuple[CounterSet, int]]

    def device(self, number: int) -> Device:
        """Return a device by its number in the pool."""
        for each in self.slices:
            devices = offered_devices(each.source)
            if number < len(devices):
                return devices[number]
            number -= len(devices)
        raise IndexError(number)


class SectionBuilder:
    """Divides pools into components, and stores equal shapes and equal arrangements once."""

    def __init__(self) -> None:
        self._shapes: dict[Hashable, ComponentShape] = {}
        self._rows: dict[Hashable, dict[Hashable, Row]] = {}
        self._arrangements: dict[Hashable, Arrangement] = {}

    def clear(self) -> None:
        """Forget what is stored. Equal components may then have several shapes."""
        self._shapes.clear()
        self._rows.clear()
        self._arrangements.clear()

    def divide(
        self, slices: Sequence[SliceContents], sets: Sequence[str], view: PoolView
    ) -> tuple[Arrangement, list[ComponentShape]] | None:
        """Return the components of a pool, with the shape of each.

        The components have the order of `CounterTable.components`.

        Args:
            slices: the contents of its slices, in the pool's order.
            sets: the names of its counter sets, in the order in which the slices first name them.
            view: the pool.

        Returns:
            None if a device consumes a counter that the pool lacks, or if two sets have one name.
        """
        counters = {
            counter_set.name: (counter_set, number)
            for each in slices
            for counter_set, number in zip(each.source.spec.shared_counters, each.counters, strict=True)
        }
        if len(counters) < sum([len(each.counters) for each in slices]):
            return None
        pool = _PoolContents(slices, sets, list(_list_takes(slices, sets)), counters)
        if len(self._shapes) > _MAX_KNOWN:
            self.clear()
        return self._divide(pool, view)

    def _divide(self, pool: _PoolContents, view: PoolView) -> tuple[Arrangement, list[ComponentShape]] | None:
        used = {sets_of for _, sets_of in pool.takes if sets_of}
        if not {pool.sets[at] for sets_of in used for at in sets_of} <= pool.counters.keys():
            return None
        connected = connect_sets(pool.counters, [[pool.sets[at] for at in sets_of] for sets_of in used])
        positions = {
            name: (at, local) for at, names in enumerate(connected) for local, name in enumerate(names)
        }
        places: dict[tuple[int, ...], _Place] = {}
        for sets_of in used:
            found = [positions[pool.sets[at]] for at in sets_of]
            places[sets_of] = found[0][0], tuple([local for _, local in found])
        members: list[list[int]] = [[] for _ in connected]
        takes: list[list[Take]] = [[] for _ in connected]
        for number, (consumption, sets_of) in enumerate(pool.takes):
            if sets_of:
                at, locals_of = places[sets_of]
                members[at].append(number)
                takes[at].append((consumption, locals_of))
        shapes = []
        for names, numbers, taken in zip(connected, members, takes, strict=True):
            groups = _list_groups(pool, numbers, taken, view)
            shape = self._find_shape(pool, names, numbers, taken, groups)
            if shape is None:
                return None
            shapes.append(shape)
        key = tuple(map(tuple, members)), len(pool.takes)
        arrangement = self._arrangements.get(key)
        if arrangement is None:
            arrangement = self._arrangements[key] = Arrangement(*key)
        return arrangement, shapes

    def _find_shape(
        self,
        pool: _PoolContents,
        sets: Sequence[str],
        members: Sequence[int],
        takes: Sequence[Take],
        groups: tuple[Row, ...] | None,
    ) -> ComponentShape | None:
        """Return the shape of a component; None if a device consumes a counter that the sets lack.

        Args:
            pool: the pool.
            sets: the names of the component's counter sets.
            members: the numbers of its devices.
            takes: what each device takes. The sets are positions in `sets`.
            groups: the compatibility groups of each device, as bits; None if no device has any.
        """
        key = tuple([pool.counters[name][1] for name in sets]), tuple(takes), groups
        shape = self._shapes.get(key)
        if shape is None:
            amounts: list[int] = []
            index: dict[tuple[int, str], int] = {}
            for at, name in enumerate(sets):
                for counter, amount in sorted(pool.counters[name][0].counters.items()):
                    index[at, counter] = len(amounts)
                    amounts.append(amount.value.nano)
            try:
                needs = self._list_needs(pool, index, members, takes)
            except KeyError:
                return None
            if groups is None:
                groups = tuple([tuple([(at, NO_GROUPS) for at in locals_of]) for _, locals_of in takes])
            shape = self._shapes[key] = ComponentShape(tuple(amounts), len(sets), needs, groups)
        return shape

    def _list_needs(
        self,
        pool: _PoolContents,
        index: dict[tuple[int, str], int],
        members: Sequence[int],
        takes: Sequence[Take],
    ) -> tuple[Row, ...]:
        """Return what each device takes.

        Raises:
            KeyError: a device consumes a counter that is not in `index`.
        """
        known = self._rows.setdefault(tuple(index), {})
        needs = []
        for number, take in zip(members, takes, strict=True):
            row = known.get(take)
            if row is None:
                row = known[take] = tuple(
                    [
                        (index[at, name], amount.value.nano)
                        for at, taken in zip(take[1], pool.device(number).consumes_counters, strict=True)
                        for name, amount in taken.counters.items()
                    ]
                )
            needs.append(row)
        return tuple(needs)


def _list_takes(slices: Sequence[SliceContents], sets: Sequence[str]) -> Iterator[Take]:
    """Yield what each device of a pool takes. The sets are positions in `sets`."""
    position = {name: at for at, name in enumerate(sets)}
    for each in slices:
        in_pool = [position[name] for name in each.sets]
        if in_pool == list(range(len(in_pool))):
            yield from each.takes
        else:
            for consumption, sets_of in each.takes:
                yield consumption, tuple([in_pool[at] for at in sets_of])


def _list_groups(
    pool: _PoolContents, members: Sequence[int], takes: Sequence[Take], view: PoolView
) -> tuple[Row, ...] | None:
    """Return the compatibility groups of each device as bits; None if the pool has no groups."""
    if not any(each.has_groups for each in pool.slices):
        return None
    # The bits must be those of the view, because claims may name other groups.
    bits = view.counters.groups
    rows = []
    for number, (_, locals_of) in zip(members, takes, strict=True):
        taken = pool.device(number).consumes_counters
        rows.append(tuple([(at, bits.bits(each)) for at, each in zip(locals_of, taken, strict=True)]))
    return tuple(rows)
