"""The components of a pool: equal components have one shape, and a shape numbers its states.

A component's state consists of the counters that are left, the compatibility groups in force, and the held
devices (`supply.counters`). Equal components, such as the eight GPUs of a node, have one `ComponentShape`. In
states with equal numbers the same devices are available.
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from typing import Final, TypeAlias

from dradriver.allocator.search.packing import Cost, CostTable
from dradriver.allocator.supply.compatibility import ANY
from dradriver.allocator.supply.node_supply import Row

__all__ = ["ComponentShape", "ComponentState", "Groups", "HeldBy", "iter_bits"]

HeldBy: TypeAlias = tuple[tuple[int, bool], ...]
"""The held devices of a component, ascending: (number in the component, whether it is held as shares)."""

Groups: TypeAlias = tuple[int, ...]
"""For each counter set of a component, the groups that claims recorded, as bits."""


_MAX_COSTS: Final = 1_000_000
"""Maximum number of devices in all known states of a shape together. Each state keeps a cost for each."""
_MAX_ANSWERS: Final = 1000
"""Maximum number of results of `cheapest` that one state caches."""


@dataclass(slots=True, eq=False)
class ComponentState:
    """One state of a component.

    Attributes:
        number: the number of the state. States with equal numbers have equal counters, groups and available
            devices.
        left: the amount of each counter that is left, in nanos.
        groups_left: for each counter set, the groups that are still possible.
        free: as bits, the devices that are available: no claim holds them as a whole, and their counters and
            groups are available.
        overdrawn: the index of a counter below zero; None if there is none.
    """

    number: int
    shape: "ComponentShape"
    left: tuple[int, ...]
    groups_left: tuple[int, ...]
    free: int
    overdrawn: int | None
    _costs: dict[int, list[Cost]] = field(default_factory=dict)
    _cheapest: dict[tuple[int, int], tuple[Cost, int]] = field(default_factory=dict)
    _lost: dict[int, int] = field(default_factory=dict)

    def costs(self, visible: int) -> list[Cost]:
        """Return the cost of each device (`search.packing`).

        Args:
            visible: the devices in the slices that the node reaches, as bits. The other devices have no
                influence on the costs.
        """
        free = self.free & visible
        costs = self._costs.get(free)
        if costs is None:
            if len(self._costs) > _MAX_ANSWERS:
                self._costs.clear()
            costs = self._costs[free] = self.shape.cost_table.costs(self.left, self.groups_left, free)
        return costs

    def lost(self, chosen: int) -> int:
        """Return, as bits, the available devices that are no longer available after a choice.

        The result contains the chosen devices. It is not defined for devices that are held as shares.

        Args:
            chosen: the chosen devices as bits. They can be held together.
        """
        lost = self._lost.get(chosen)
        if lost is None:
            if len(self._lost) > _MAX_ANSWERS:
                self._lost.clear()
            lost = self._lost[chosen] = chosen | self.shape.find_unavailable(self, chosen)
        return lost

    def cheapest(self, candidates: int, visible: int) -> tuple[Cost, int]:
        """Return the lowest cost of the candidates (`search.packing`), and the first device with this cost.

        Args:
            candidates: available devices of the component as bits; at least one.
            visible: see `costs`.
        """
        key = candidates, visible
        cheapest = self._cheapest.get(key)
        if cheapest is None:
            costs = self.costs(visible)
            if len(self._cheapest) > _MAX_ANSWERS:
                self._cheapest.clear()
            devices = (number for number in range(len(costs)) if candidates >> number & 1)
            cheapest = self._cheapest[key] = min((costs[number], number) for number in devices)
        return cheapest


class ComponentShape:
    """The common part of equal components. It also numbers their states.

    Attributes:
        amounts: the total of each counter, in nanos.
        needs: for each device, the amounts that it takes as (counter, nanos).
        groups: for each device, its groups as (counter set, groups as bits).
    """

    def __init__(
        self,
        amounts: tuple[int, ...],
        sets: int,
        needs: Sequence[Row],
        groups: Sequence[Row],
    ) -> None:
        self.amounts = amounts
        self.needs = needs
        self.groups = groups
        self._sets = sets
        self._numbers = count()
        self._by_holders: dict[Hashable, ComponentState] = {}
        self._by_effect: dict[Hashable, ComponentState] = {}

    @cached_property
    def cost_table(self) -> CostTable:
        """Computes the costs of the devices in each state."""
        return CostTable(self.amounts, self.needs, self.groups)

    def state(
        self, held: HeldBy, recorded: Groups = (), known: frozenset[tuple[int, int]] = frozenset()
    ) -> ComponentState:
        """Return the state in which these devices are held.

        Args:
            held: the devices.
            recorded: the groups that claims recorded; empty if the recorded groups equal those that the devices
                declare.
            known: the (device, counter set) pairs for which the recorded groups count instead of the published
                groups.
        """
        key = held, recorded, known
        state = self._by_holders.get(key)
        if state is None:
            if len(self._by_holders) * len(self.needs) > _MAX_COSTS:
                # Numbers are never reused, so an old number never denotes a new state.
                self._by_holders.clear()
                self._by_effect.clear()
            state = self._by_holders[key] = self._compute(held, recorded, known)
        return state

    def find_unavailable(self, state: ComponentState, chosen: int) -> int:
        """Return, as bits, the available devices that lack counters or groups after a choice.

        Args:
            state: the state before the choice.
            chosen: the chosen devices as bits.
        """
        left, groups_left = list(state.left), list(state.groups_left)
        for device in iter_bits(chosen):
            self._take(device, left, groups_left)
        return sum(
            1 << device for device in iter_bits(state.free) if not self._is_available(device, left, groups_left)
        )

    def _compute(self, held: HeldBy, recorded: Groups, known: frozenset[tuple[int, int]]) -> ComponentState:
        left = list(self.amounts)
        groups_left = list(recorded) or [ANY] * self._sets
        for device, _ in held:
            self._take(device, left, groups_left, known)
        exclusive = {device for device, is_share in held if not is_share}
        shared = {device for device, is_share in held if is_share}
        free = sum(
            1 << device
            for device in range(len(self.needs))
            if device not in exclusive and (device in shared or self._is_available(device, left, groups_left))
        )
        overdrawn = next((at for at, nano in enumerate(left) if nano < 0), None)
        effect = tuple(left), tuple(groups_left), free
        return self._by_effect.setdefault(
            effect,
            ComponentState(next(self._numbers), self, tuple(left), tuple(groups_left), free, overdrawn),
        )

    def _take(
        self,
        device: int,
        left: list[int],
        groups_left: list[int],
        known: frozenset[tuple[int, int]] = frozenset(),
    ) -> None:
        for at, nano in self.needs[device]:
            left[at] -= nano
        for at, bits in self.groups[device]:
            if (device, at) not in known:
                groups_left[at] &= bits

    def _is_available(self, device: int, left: Sequence[int], groups_left: Sequence[int]) -> bool:
        return all(left[at] >= nano for at, nano in self.needs[device]) and all(
            groups_left[at] & bits for at, bits in self.groups[device]
        )


def iter_bits(mask: int) -> Iterator[int]:
    """Yield the numbers of the bits that are set, ascending."""
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest
