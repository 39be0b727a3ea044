"""Represents the shared counters of a pool as integers (KEP-4815).

All counters of a pool are in one row of integers, in nanos. If a device consumes from several counter sets,
these counter sets belong to one *component*. Devices of different components never compete. In the row of
counters and in the row of counter sets, the entries of a component are adjacent, so the component's state is
one slice of each row. Therefore two components can be compared, for example two GPUs of one model.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from dradriver.allocator.supply.compatibility import GroupBits
from dradriver.model.quantity import Quantity
from dradriver.model.resource.counters import CounterSet, connect_sets
from dradriver.model.resource.device import Device

__all__ = ["Component", "Consumption", "CounterTable", "Row"]


Row: TypeAlias = tuple[tuple[int, int], ...]
"""Pairs of (index of a resource, nanos) or of (index of a counter set, groups as bits)."""


@dataclass(frozen=True, slots=True)
class Component:
    """A group of connected counter sets. The attributes are its ranges in the two rows."""

    counters: tuple[int, int]
    sets: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Consumption:
    """The consumption of one device.

    Attributes:
        component: the component's number in the table; None if the device consumes nothing.
        counters: for each consumed amount: (index in the row of counters, nanos).
        groups: for each counter set: (index in the row of counter sets, compatibility groups as bits).
    """

    component: int | None = None
    counters: Row = ()
    groups: Row = ()


_MAX_STORED: Final = 100_000
_STORED: Final[dict[Consumption, Consumption]] = {}
"""Consumptions that are shared by equal devices of all pools. They take most of the memory of a large pool."""


def _store_once(consumption: Consumption) -> Consumption:
    if len(_STORED) >= _MAX_STORED:
        _STORED.clear()
    return _STORED.setdefault(consumption, consumption)


class CounterTable:
    """The counters of one valid pool.

    Attributes:
        sets: the names of the counter sets, in the order of the row of counter sets.
        names: for each index in the row of counters: (counter set, counter).
        amounts: the total of each counter, in nanos.
        set_indexes: the index of each counter set in the row of counter sets.
        components: the groups of connected counters and sets.
        groups: the compatibility groups of the pool.
    """

    def __init__(self, counter_sets: Mapping[str, CounterSet], devices: Iterable[Device]) -> None:
        self._counter_sets = counter_sets
        self.groups = GroupBits()
        self.sets: list[str] = []
        self.names: list[tuple[str, str]] = []
        self.amounts: list[int] = []
        self.components: list[Component] = []
        consumed = ([each.counter_set for each in device.consumes_counters] for device in devices)
        for connected in connect_sets(counter_sets, consumed):
            first_counter, first_set = len(self.names), len(self.sets)
            for name in connected:
                self.sets.append(name)
                for counter, amount in sorted(counter_sets[name].counters.items()):
                    self.names.append((name, counter))
                    self.amounts.append(amount.value.nano)
            self.components.append(Component((first_counter, len(self.names)), (first_set, len(self.sets))))
        self._index = {name: index for index, name in enumerate(self.names)}
        self.set_indexes = {name: index for index, name in enumerate(self.sets)}
        self._component_of_set = {
            index: number
            for number, component in enumerate(self.components)
            for index in range(*component.sets)
        }

    def consumption(self, device: Device) -> Consumption:
        """Return the consumption of a device of the pool."""
        if not device.consumes_counters:
            return Consumption()
        counters = tuple(
            (self._index[consumed.counter_set, name], amount.value.nano)
            for consumed in device.consumes_counters
            for name, amount in consumed.counters.items()
        )
        groups = tuple(
            (self.set_indexes[consumed.counter_set], self.groups.bits(consumed))
            for consumed in device.consumes_counters
        )
        return _store_once(Consumption(self._component_of_set[groups[0][0]], counters, groups))

    def amount(self, index: int, nano: int) -> str:
        """Return an amount of a counter (in nanos) as text, in the quantity format of the published counter."""
        counter_set, name = self.names[index]
        like = self._counter_sets[counter_set].counters[name].value
        return str(like - like + Quantity.parse(f"{nano}n"))
