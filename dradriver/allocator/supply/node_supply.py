"""The supply of a node: its devices in order, numbered, and all resources for which they compete in one row.

The number of a device is its position in the order of preference. It replaces the name in the code of the
search. The row contains the counters of each pool, followed by the capacities of the pool's devices that
several claims may share. Devices that consume counters belong to a component (`counters`). Every other device
is a component of its own.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Final, TypeAlias

from dradriver.allocator.features import Features
from dradriver.allocator.supply.compatibility import ANY
from dradriver.allocator.supply.counters import Component, CounterTable
from dradriver.allocator.supply.devices_in_use import InUse, PoolKey, PoolUse
from dradriver.allocator.supply.nodes import AllocationNode
from dradriver.allocator.supply.pools import Inventory, PooledDevice, PoolOnNode, PoolView
from dradriver.model.quantity import Quantity

__all__ = ["CounterOffsets", "Offer", "Supply", "offers_on", "taken_of"]

Offer: TypeAlias = tuple[PoolOnNode, PoolUse]
"""A pool as a node sees it, and its use by claims."""

_NO_ROOM: Final[Mapping[str, int]] = {}


@dataclass(frozen=True, slots=True)
class CounterOffsets:
    """The places in the rows of all pools at which the counters of one pool begin."""

    table: CounterTable
    first_counter: int
    first_set: int


class Supply:
    """The devices that a node reaches, and the resources that are left for them.

    Attributes:
        devices: the devices in order of preference.
        held_by: for each device, the claims that hold it as a whole or prevent sharing it.
        places: for each device, the place of its pool's counters.
        counters: for each device, its consumption: (place in `left`, nanos).
        groups: for each device, its compatibility groups: (place in `joined`, bits).
        component: for each device, the number of its component.
        components: for each component, its counters and sets in the rows.
        rooms: for each shareable device, the places in `left` of its capacities by name.
        shared_out: for each device, the number of shares that claims hold; None if it is not shareable.
        left: the rest of each counter and shared capacity, in nanos; below zero if a driver withdrew more than
            was free.
        totals: the total of each counter and shared capacity, in nanos.
        joined: for each counter set, the compatibility groups still possible, as bits.
        counter_names: for each place, the number of its name; equal names of different sets have one number.
        overdrawn: pools with a counter below zero, with that counter.
        unusable: pools that can't be used, with the reason; the node can't serve a request for all devices
            then.
        remarks: pools that do not count for the node, and pools with devices that are not offered, with the
            reason.
    """

    def __init__(self, offers: Iterable[Offer], features: Features) -> None:
        self.devices: list[PooledDevice] = []
        self.held_by: list[tuple[str, ...]] = []
        self.places: list[CounterOffsets] = []
        self.counters: list[tuple[tuple[int, int], ...]] = []
        self.groups: list[tuple[tuple[int, int], ...]] = []
        self.component: list[int] = []
        self.components: list[Component] = []
        self.rooms: list[Mapping[str, int]] = []
        self.shared_out: list[int | None] = []
        self.left: list[int] = []
        self.totals: list[int] = []
        self.joined: list[int] = []
        self.counter_names: list[int] = []
        self.overdrawn: dict[tuple[str, str], str] = {}
        self.unusable: list[tuple[PoolView, str]] = []
        self.remarks: list[tuple[PoolView, str]] = []
        self._tables: list[CounterOffsets] = []
        self._late: set[PoolKey] = set()
        self._names: dict[tuple[str, str], int] = {}
        self._features = features
        usable: list[tuple[bool, PoolKey, Offer]] = []
        for seen, use in offers:
            pool = seen.view
            if seen.problem is not None:
                (self.remarks if seen.ignored else self.unusable).append((pool, seen.problem))
                continue
            if pool.remark is not None:
                self.remarks.append((pool, pool.remark))
            late = any(device.device.binding_conditions for device in seen.devices)
            usable.append((late, pool.key, (seen, use)))
            self._late |= {pool.key} if late else set()
        for _, _, (seen, use) in sorted(usable, key=itemgetter(0, 1)):
            self._add(seen.view, seen.devices, use)

    def place_of(self, device: int) -> tuple[bool, PoolKey]:
        """Return the place of the device's pool in Kubernetes' order.

        Pools with binding conditions come after all others.
        """
        key = self.devices[device].id[:2]
        return key in self._late, key

    def arrange(self, positions: Sequence[int]) -> None:
        """Put the devices into another order, given as their current positions."""
        for name in ("devices", "held_by", "places", "counters", "groups", "component", "rooms", "shared_out"):
            row = getattr(self, name)
            setattr(self, name, [row[position] for position in positions])

    def can_be_had(self, device: int) -> bool:
        """Return whether no claim holds the device as a whole and its counters and groups are available."""
        if self.held_by[device]:
            return False
        return bool(self.shared_out[device]) or (
            all(self.left[at] >= nano for at, nano in self.counters[device])
            and all(self.joined[at] & bits for at, bits in self.groups[device])
        )

    def _add(self, pool: PoolView, devices: Sequence[PooledDevice], use: PoolUse) -> None:
        place = CounterOffsets(pool.counters, len(self.left), len(self.joined))
        self._tables.append(place)
        first_component = len(self.components)
        self._add_counters(pool, place, use)
        self.components += (_moved(component, place) for component in pool.counters.components)
        for device in devices:
            taken = device.consumption
            self.devices.append(device)
            self.places.append(place)
            self.counters.append(_moved_row(taken.counters, place.first_counter))
            self.groups.append(_moved_row(taken.groups, place.first_set))
            self._add_shares(device, use)
            if taken.component is None:
                self.component.append(len(self.components))
                self.components.append(Component((0, 0), (0, 0)))
            else:
                self.component.append(first_component + taken.component)

    def _add_shares(self, device: PooledDevice, use: PoolUse) -> None:
        name = device.id.device
        holders = use.claims.get(name, ())
        if not (device.device.shareable and self._features.consumable_capacity):
            # A share of a device that is no longer shareable blocks the device for all other claims.
            self.held_by.append(holders)
            self.rooms.append(_NO_ROOM)
            self.shared_out.append(None)
            return
        self.held_by.append(holders if name in use.whole else ())
        self.shared_out.append(len(holders) if name in use.consumed else 0)
        consumed = use.consumed.get(name, {})
        rooms = {}
        for capacity, amount in device.device.capacity.items():
            rooms[capacity] = len(self.left)
            self._add_place(("capacity", capacity), amount.value.nano, consumed.get(capacity, 0))
        self.rooms.append(rooms)

    def _add_counters(self, pool: PoolView, place: CounterOffsets, use: PoolUse) -> None:
        """Add the counters and groups that are left after the use by held devices on any node."""
        table = place.table
        taken, joined = taken_of(pool, use)
        for at, nano in enumerate(taken):
            counter_set, name = table.names[at]
            if table.amounts[at] < nano and pool.key not in self.overdrawn:
                self.overdrawn[pool.key] = f"counter {name} of counter set {counter_set}"
            self._add_place(("counter", name), table.amounts[at], nano)
        self.joined += joined

    def _add_place(self, name: tuple[str, str], total: int, taken: int) -> None:
        self.left.append(total - taken)
        self.totals.append(total)
        self.counter_names.append(self._names.setdefault(name, len(self._names)))

    def told(self, at: int, *amounts: int) -> tuple[str, ...]:
        """Return the name of a place in `left`, and amounts of it in the pool's quantity format."""
        for place in self._tables:
            local = at - place.first_counter
            if 0 <= local < len(place.table.names):
                return (
                    f"counter {place.table.names[local][1]}",
                    *(place.table.amount(local, nano) for nano in amounts),
                )
        for device, rooms in enumerate(self.rooms):
            name = next((name for name, room in rooms.items() if room == at), None)
            if name is not None:
                like = self.devices[device].device.capacity[name].value
                written = (like - like + Quantity.parse(f"{nano}n") for nano in amounts)
                return (f"capacity {name}", *map(str, written))
        raise IndexError(at)


def taken_of(pool: PoolView, use: PoolUse) -> tuple[list[int], list[int]]:
    """Return the resources that the held devices take of a pool, on any node.

    Returns:
        For each counter of its table the nanos taken, and for each counter set the compatibility groups still
        possible.
    """
    table = pool.counters
    taken, joined = [0] * len(table.amounts), [ANY] * len(table.sets)
    for device in pool.devices if use.claims else ():
        if device.id.device not in use.claims:
            continue
        for at, nano in device.consumption.counters:
            taken[at] += nano
        recorded = use.groups.get(device.id.device)
        for at, bits in device.consumption.groups:
            joined[at] &= bits if recorded is None else table.groups.named(recorded.get(table.sets[at]))
    for counter_set, groups in (each for recorded in use.groups.values() for each in recorded.items()):
        # This includes devices that are no longer in the pool.
        if counter_set in table.set_places:
            joined[table.set_places[counter_set]] &= table.groups.named(groups)
    return taken, joined


def offers_on(
    node: AllocationNode,
    inventory: Inventory,
    in_use: InUse,
    features: Features,
    *,
    skips_devices: bool = False,
) -> Iterator[Offer]:
    """Yield each pool as the node sees it, with its use; see `PublishedPool.on`."""
    for seen in inventory.on(node, features, skips_devices=skips_devices):
        yield seen, in_use.pool(seen.view.key)


def _moved_row(row: tuple[tuple[int, int], ...], first: int) -> tuple[tuple[int, int], ...]:
    return tuple([(first + at, value) for at, value in row]) if first else row


def _moved(component: Component, place: CounterOffsets) -> Component:
    (c0, c1), (s0, s1) = component.counters, component.sets
    return Component(
        (place.first_counter + c0, place.first_counter + c1), (place.first_set + s0, place.first_set + s1)
    )
