"""The shared counters of a pool as integers (KEP-4815).

All counters of a pool are in one row of integers, in nanos. Counter sets that some device consumes together
form a *component*. Devices of different components never compete. The counters and the sets of a component are
adjacent in their rows, so its state is one slice of each row. Two components, for example two GPUs of one
model, can therefore be compared.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dradriver.allocator.supply.compatibility import GroupBits
from dradriver.model.quantity import Quantity
from dradriver.model.resource.counters import CounterSet
from dradriver.model.resource.device import Device

__all__ = ["Component", "Consumption", "CounterTable"]


@dataclass(frozen=True, slots=True)
class Component:
    """Counter sets that are connected, as the ranges of their counters and sets in the rows."""

    counters: tuple[int, int]
    sets: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Consumption:
    """The consumption of one device.

    Attributes:
        component: its number in the table; None if the device consumes nothing.
        counters: (place in the row of counters, nanos) of each amount.
        groups: (place in the row of sets, compatibility groups as bits) of each set.
    """

    component: int | None = None
    counters: tuple[tuple[int, int], ...] = ()
    groups: tuple[tuple[int, int], ...] = ()


class CounterTable:
    """The counters of one valid pool.

    Attributes:
        sets: the names of the counter sets, in the row's order.
        names: (counter set, counter) of each place in the row.
        amounts: the total of each counter, in nanos.
        set_places: the place of each counter set in the row.
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
        for together in _joined(counter_sets, devices):
            first_counter, first_set = len(self.names), len(self.sets)
            for name in together:
                self.sets.append(name)
                for counter, amount in sorted(counter_sets[name].counters.items()):
                    self.names.append((name, counter))
                    self.amounts.append(amount.value.nano)
            self.components.append(Component((first_counter, len(self.names)), (first_set, len(self.sets))))
        self._place = {name: index for index, name in enumerate(self.names)}
        self.set_places = {name: index for index, name in enumerate(self.sets)}
        self._component_of_set = {
            place: number
            for number, component in enumerate(self.components)
            for place in range(*component.sets)
        }

    def consumption(self, device: Device) -> Consumption:
        """Return the consumption of a device of the pool."""
        if not device.consumes_counters:
            return Consumption()
        counters = tuple(
            (self._place[taken.counter_set, name], amount.value.nano)
            for taken in device.consumes_counters
            for name, amount in taken.counters.items()
        )
        groups = tuple(
            (self.set_places[taken.counter_set], self.groups.bits(taken)) for taken in device.consumes_counters
        )
        return Consumption(self._component_of_set[groups[0][0]], counters, groups)

    def amount(self, place: int, nano: int) -> str:
        """Return nanos of a counter in the quantity format of its counter set."""
        counter_set, name = self.names[place]
        like = self._counter_sets[counter_set].counters[name].value
        return str(like - like + Quantity.parse(f"{nano}n"))


def _joined(counter_sets: Mapping[str, CounterSet], devices: Iterable[Device]) -> Sequence[list[str]]:
    """Return the names of the counter sets, grouped into connected sets."""
    group = {name: [name] for name in sorted(counter_sets)}
    for device in devices:
        names = [taken.counter_set for taken in device.consumes_counters]
        for other in names[1:]:
            if group[names[0]] is not group[other]:
                merged = sorted(group[names[0]] + group[other])
                group.update(dict.fromkeys(merged, merged))
    return list({id(names): names for names in group.values()}.values())
