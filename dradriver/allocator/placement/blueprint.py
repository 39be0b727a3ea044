"""A node's pool as all nodes of its kind have it: compiled once for any number of nodes.

Devices are numbered in the order of the pool. Sets of devices are integers with one bit for each device, so
finding the free devices in a set is one operation. The free devices follow from the *states* of the pool's
components (`supply.counters`). A component's state consists of the counters that are left, the compatibility
groups in force, and the held devices. Equal components (the eight GPUs of a node) have one `Shape`. The states
of a shape are numbered, and equal numbers mean that the same devices are available.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Final, TypeAlias

from dradriver.allocator.features import Features
from dradriver.allocator.search.packing import Cost, costs
from dradriver.allocator.supply.compatibility import ANY
from dradriver.allocator.supply.pools import PooledDevice, PoolOnNode, PoolView

__all__ = ["Blueprint", "ComponentState", "HeldBy", "Section", "Shape"]

HeldBy: TypeAlias = tuple[tuple[int, bool], ...]
"""The held devices of a component: place in the component, and whether it is held as shares; ascending."""

Groups: TypeAlias = tuple[int, ...]
"""For each counter set of a component, the groups that claims recorded, as bits."""


_STATES: Final = 50_000
_CANDIDATES: Final = 1000
"""Number of states, and of answers for one state, that are remembered."""


@dataclass(slots=True, eq=False)
class ComponentState:
    """One state of a component.

    Attributes:
        number: equal for states in which the same devices are available.
        left: the rest of each counter, in nanos.
        joined: for each counter set, the groups still possible.
        free: the devices that counters, groups and holders leave available, as bits.
        overdrawn: the place of a counter below zero; None if there is none.
    """

    number: int
    shape: "Shape"
    left: tuple[int, ...]
    joined: tuple[int, ...]
    free: int
    overdrawn: int | None
    _costs: list[Cost] = field(default_factory=list)
    _cheapest: dict[int, tuple[Cost, int]] = field(default_factory=dict)

    def cheapest(self, candidates: int) -> tuple[Cost, int]:
        """Return the lowest cost of a candidate (`search.packing`) and its place; the first among equals.

        Args:
            candidates: places of devices, as bits; at least one.
        """
        found = self._cheapest.get(candidates)
        if found is None:
            if not self._costs:
                shape = self.shape
                self._costs = costs(shape.amounts, shape.needs, shape.groups, self.left, self.joined, self.free)
            if len(self._cheapest) > _CANDIDATES:
                self._cheapest.clear()
            places = (place for place in range(len(self._costs)) if candidates >> place & 1)
            found = self._cheapest[candidates] = min((self._costs[place], place) for place in places)
        return found


class Shape:
    """The common part of equal components. It numbers their states.

    Attributes:
        amounts: the total of each counter, in nanos.
        needs: for each device, (counter, nanos) of each amount that it takes.
        groups: for each device, (counter set, groups as bits).
    """

    def __init__(
        self,
        amounts: tuple[int, ...],
        sets: int,
        needs: Sequence[tuple[tuple[int, int], ...]],
        groups: Sequence[tuple[tuple[int, int], ...]],
    ) -> None:
        self.amounts = amounts
        self.needs = needs
        self.groups = groups
        self._sets = sets
        self._numbers = count()
        self._by_holders: dict[Hashable, ComponentState] = {}
        self._by_effect: dict[Hashable, ComponentState] = {}

    def state(
        self, held: HeldBy, recorded: Groups = (), known: frozenset[tuple[int, int]] = frozenset()
    ) -> ComponentState:
        """Return the state in which these devices are held.

        Args:
            held: the devices.
            recorded: the groups that claims recorded; empty if each claim's groups equal those of its device.
            known: (device, counter set) pairs for which the recorded groups count and not the published ones.
        """
        key = held, recorded, known
        found = self._by_holders.get(key)
        if found is None:
            if len(self._by_holders) > _STATES:
                # Numbers are never reused, so an old number never denotes a new state.
                self._by_holders.clear()
                self._by_effect.clear()
            found = self._by_holders[key] = self._compute(held, recorded, known)
        return found

    def _compute(self, held: HeldBy, recorded: Groups, known: frozenset[tuple[int, int]]) -> ComponentState:
        left = list(self.amounts)
        joined = list(recorded) or [ANY] * self._sets
        for device, _ in held:
            for at, nano in self.needs[device]:
                left[at] -= nano
            for at, bits in self.groups[device]:
                if (device, at) not in known:
                    joined[at] &= bits
        whole = {device for device, is_share in held if not is_share}
        shared = {device for device, is_share in held if is_share}
        free = sum(
            1 << device
            for device in range(len(self.needs))
            if device not in whole and (device in shared or self._finds(device, left, joined))
        )
        overdrawn = next((at for at, nano in enumerate(left) if nano < 0), None)
        effect = tuple(left), tuple(joined), free
        return self._by_effect.setdefault(
            effect, ComponentState(next(self._numbers), self, tuple(left), tuple(joined), free, overdrawn)
        )

    def _finds(self, device: int, left: Sequence[int], joined: Sequence[int]) -> bool:
        return all(left[at] >= nano for at, nano in self.needs[device]) and all(
            joined[at] & bits for at, bits in self.groups[device]
        )


@dataclass(frozen=True, slots=True)
class Section:
    """A component of the pool.

    Attributes:
        shape: the part that it has in common with equal components.
        members: its devices, by their numbers in the pool, ascending.
        mask: the same as bits.
        first: the number of the first device, if the members are consecutive.
    """

    shape: Shape
    members: tuple[int, ...]
    mask: int
    first: int | None

    def in_pool(self, local: int) -> int:
        """Convert devices, as bits, from the component's numbers to the pool's numbers."""
        if self.first is not None:
            return local << self.first
        return sum(1 << member for place, member in enumerate(self.members) if local >> place & 1)

    def in_component(self, mask: int) -> int:
        """Convert devices, as bits, from the pool's numbers to the component's numbers."""
        if self.first is not None:
            return (mask & self.mask) >> self.first
        return sum(1 << place for place, member in enumerate(self.members) if mask >> member & 1)


class Blueprint:
    """A pool without names and values of attributes.

    Attributes:
        number: equal for equal pools.
        view: the first pool of that kind; its devices represent those of all others.
        problem, ignored: see `PoolOnNode`.
        devices: the devices that the node reaches, as bits.
        late: whether one of these has binding conditions.
        binding: all devices with binding conditions, as bits.
        sections: the components.
        place: for each device, its section and its place there; None for a device that consumes nothing.
        loners: the devices that consume nothing, as bits.
        shareable: the devices that several claims may hold, as bits.
        sets: the names of the counter sets in the view, in the order in which the pool names them.
    """

    def __init__(self, number: int, seen: PoolOnNode, sets: Sequence[str], features: Features) -> None:
        self.number = number
        self.view = view = seen.view
        self.sets = tuple(sets)
        self.problem = seen.problem
        self.ignored = seen.ignored
        members = {id(device) for device in seen.devices}
        self.devices = sum(1 << n for n, device in enumerate(view.devices) if id(device) in members)
        self.binding = sum(1 << n for n, device in enumerate(view.devices) if device.device.binding_conditions)
        self.late = bool(self.binding & self.devices)
        self.sections: list[Section] = []
        self.place: list[tuple[int, int] | None] = [None] * len(view.devices)
        self._divide(view.devices)
        self.loners = sum(1 << n for n, place in enumerate(self.place) if place is None)
        self.shareable = sum(
            1 << n
            for n, device in enumerate(view.devices)
            if device.device.shareable and features.consumable_capacity
        )

    def on_node(self, view: PoolView) -> PoolOnNode:
        """Return the pool as a node of this kind sees it, with the node's own names."""
        devices = tuple(device for number, device in enumerate(view.devices) if self.devices >> number & 1)
        return PoolOnNode(view, devices, self.problem, self.ignored)

    def _divide(self, devices: Sequence[PooledDevice]) -> None:
        shapes: dict[Hashable, Shape] = {}
        members: list[list[int]] = [[] for _ in self.view.counters.components]
        for number, device in enumerate(devices):
            if device.consumption.component is not None:
                members[device.consumption.component].append(number)
        for component, numbers in zip(self.view.counters.components, members, strict=True):
            first, end = component.counters
            amounts = tuple(self.view.counters.amounts[first:end])
            needs = tuple(_moved(devices[n].consumption.counters, first) for n in numbers)
            groups = tuple(_moved(devices[n].consumption.groups, component.sets[0]) for n in numbers)
            sets = component.sets[1] - component.sets[0]
            key = amounts, sets, needs, groups
            shape = shapes.setdefault(key, Shape(amounts, sets, needs, groups))
            for place, number in enumerate(numbers):
                self.place[number] = len(self.sections), place
            consecutive = bool(numbers) and numbers == list(range(numbers[0], numbers[0] + len(numbers)))
            mask = sum(1 << n for n in numbers)
            self.sections.append(Section(shape, tuple(numbers), mask, numbers[0] if consecutive else None))


def _moved(places: Iterable[tuple[int, int]], first: int) -> tuple[tuple[int, int], ...]:
    return tuple((at - first, value) for at, value in places)
