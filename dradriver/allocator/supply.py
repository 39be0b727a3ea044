"""What a node can offer: its devices in order, numbered, and all their counters in one row of integers.

The number of a device is its position in the order of preference; it is used in place of names everywhere
below. Devices that consume counters belong to a component (`counters`), every other device is one of its own.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from dradriver.allocator.compatibility import ANY
from dradriver.allocator.counters import Component, CounterTable
from dradriver.allocator.features import Features
from dradriver.allocator.inventory import Inventory, PooledDevice, PoolView
from dradriver.allocator.nodes import Node
from dradriver.allocator.order import Offer, Order
from dradriver.allocator.use import InUse

__all__ = ["Place", "Supply"]


@dataclass(frozen=True, slots=True)
class Place:
    """Where the counters of a pool begin in the rows of all pools."""

    table: CounterTable
    first_counter: int
    first_set: int


class Supply:
    """The devices that a node reaches and what is left of their counters.

    Attributes:
        devices: in order of preference.
        held_by: per device the claims that hold it.
        places: per device where its pool's counters are.
        counters: per device what it consumes: (place in `left`, nanos).
        groups: per device its compatibility groups: (place in `joined`, bits).
        component: per device the number of its component.
        components: per component its counters and sets in the rows.
        left: what is left of each counter, in nanos; below zero where a driver took back more than was free.
        joined: per counter set the compatibility groups still possible, as bits.
        counter_names: per counter the number of its name; equal names of different sets have one number.
        overdrawn: pools of which a counter is below zero, with that counter.
        unusable: visible pools that can't be used, with the reason.
    """

    def __init__(
        self, inventory: Inventory, in_use: InUse, node: Node, features: Features, order: Order
    ) -> None:
        self.devices: list[PooledDevice] = []
        self.held_by: list[tuple[str, ...]] = []
        self.places: list[Place] = []
        self.counters: list[tuple[tuple[int, int], ...]] = []
        self.groups: list[tuple[tuple[int, int], ...]] = []
        self.component: list[int] = []
        self.components: list[Component] = []
        self.left: list[int] = []
        self.joined: list[int] = []
        self.counter_names: list[int] = []
        self.overdrawn: dict[tuple[str, str], str] = {}
        self.unusable: list[tuple[PoolView, str]] = []
        self._names: dict[str, int] = {}
        offers: list[Offer] = []
        for pool in inventory.near(node):
            devices = pool.visible_on(node)
            if devices is None:
                continue
            problem = pool.problem_under(features)
            if problem is not None:
                self.unusable.append((pool, problem))
                continue
            if not features.partitionable_devices:
                devices = [d for d in devices if not d.source.spec.per_device_node_selection]
            offers.append(Offer(pool, devices))
        for offer in order(offers):
            self._add(offer, in_use.of_pool(offer.pool.key))

    def _add(self, offer: Offer, held: Mapping[str, tuple[str, ...]]) -> None:
        pool, table = offer.pool, offer.pool.counters
        place = Place(table, len(self.left), len(self.joined))
        first_component = len(self.components)
        self._add_counters(pool, place, held)
        self.components += (_moved(component, place) for component in table.components)
        for device in offer.devices:
            use = device.consumption
            self.devices.append(device)
            self.held_by.append(held.get(device.id.device, ()))
            self.places.append(place)
            self.counters.append(tuple((place.first_counter + at, nano) for at, nano in use.counters))
            self.groups.append(tuple((place.first_set + at, bits) for at, bits in use.groups))
            if use.component is None:
                self.component.append(len(self.components))
                self.components.append(Component((0, 0), (0, 0)))
            else:
                self.component.append(first_component + use.component)

    def _add_counters(self, pool: PoolView, place: Place, held: Mapping[str, tuple[str, ...]]) -> None:
        """Adds what is left when the held devices of the pool have theirs, whatever node they are on."""
        left, joined = list(place.table.amounts), [ANY] * len(place.table.sets)
        for device in pool.devices if held else ():
            if device.id.device in held:
                for at, nano in device.consumption.counters:
                    left[at] -= nano
                for at, bits in device.consumption.groups:
                    joined[at] &= bits
        for at, nano in enumerate(left):
            if nano < 0 and pool.key not in self.overdrawn:
                counter_set, name = place.table.names[at]
                self.overdrawn[pool.key] = f"counter {name} of counter set {counter_set}"
        self.left += left
        self.joined += joined
        self.counter_names += (self._names.setdefault(name, len(self._names)) for _, name in place.table.names)


def _moved(component: Component, place: Place) -> Component:
    (c0, c1), (s0, s1) = component.counters, component.sets
    return Component(
        (place.first_counter + c0, place.first_counter + c1), (place.first_set + s0, place.first_set + s1)
    )
