"""The supply of a node: its numbered devices, and one row with all resources for which they compete.

The number of a device is its position in the order of preference. The search uses this number instead of the
device's name. The row contains the counters of each pool, followed by the capacities of the pool's devices that
several claims may share. A device that consumes counters belongs to a component (`counters`). Every other
device forms a component of its own.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Final, TypeAlias

from dradriver.allocator.features import Features
from dradriver.allocator.supply.compatibility import ANY
from dradriver.allocator.supply.counters import Component, CounterTable, Row
from dradriver.allocator.supply.devices_in_use import InUse, PoolKey, PoolUse
from dradriver.allocator.supply.nodes import AllocationNode
from dradriver.allocator.supply.pools import Inventory, PooledDevice, PoolOnNode, PoolView
from dradriver.model.quantity import Quantity

__all__ = ["CounterOffsets", "Offer", "Row", "Supply", "compute_held_resources", "iter_offers"]

Offer: TypeAlias = tuple[PoolOnNode, PoolUse]
"""A pool as a node sees it, and the use of the pool by claims."""

_NO_CAPACITY: Final[Mapping[str, int]] = {}


@dataclass(frozen=True, slots=True)
class CounterOffsets:
    """The positions at which the counters and counter sets of one pool start in the rows of all pools."""

    table: CounterTable
    first_counter: int
    first_set: int


class Supply:
    """The devices that a node reaches, and the resources that are left for them.

    Attributes:
        devices: the devices in order of preference.
        held_by: for each device, the claims that make it unavailable: they hold it as a whole, or they hold a
            share of a device that is no longer shareable.
        offsets: for each device, the offsets of its pool's counters.
        counters: for each device, its consumption: (index in `left`, nanos).
        groups: for each device, its compatibility groups: (index in `groups_left`, groups as bits).
        component: for each device, the number of its component.
        components: for each component, its ranges in the rows of counters and of counter sets.
        capacity_indexes: for each shareable device, the indexes in `left` of its capacities by name.
        held_shares: for each device, the number of shares that claims hold; None if it is not shareable.
        left: the amount of each counter and shared capacity that is left, in nanos. It is below zero if a
            driver reduced the total below the amount in use.
        totals: the total of each counter and shared capacity, in nanos.
        groups_left: for each counter set, as bits, the compatibility groups that are still possible.
        counter_names: for each index in `left`, the number of the counter's name. Counters with equal names in
            different counter sets have one number.
        overdrawn: for each pool with a counter below zero, the description of this counter.
        unusable: the pools that can't be used, with the reason. If there is one, the node can't serve a request
            for all devices.
        remarks: the pools that are ignored on this node or do not offer some of their devices, with the reason.
    """

    def __init__(self, offers: Iterable[Offer], features: Features) -> None:
        self.devices: list[PooledDevice] = []
        self.held_by: list[tuple[str, ...]] = []
        self.offsets: list[CounterOffsets] = []
        self.counters: list[Row] = []
        self.groups: list[Row] = []
        self.component: list[int] = []
        self.components: list[Component] = []
        self.capacity_indexes: list[Mapping[str, int]] = []
        self.held_shares: list[int | None] = []
        self.left: list[int] = []
        self.totals: list[int] = []
        self.groups_left: list[int] = []
        self.counter_names: list[int] = []
        self.overdrawn: dict[tuple[str, str], str] = {}
        self.unusable: list[tuple[PoolView, str]] = []
        self.remarks: list[tuple[PoolView, str]] = []
        self._tables: list[CounterOffsets] = []
        self._binding_pools: set[PoolKey] = set()
        self._names: dict[tuple[str, str], int] = {}
        self._features = features
        usable: list[tuple[bool, PoolKey, Offer]] = []
        for pool_on_node, use in offers:
            pool = pool_on_node.view
            if pool_on_node.problem is not None:
                (self.remarks if pool_on_node.ignored else self.unusable).append((pool, pool_on_node.problem))
                continue
            if pool.remark is not None:
                self.remarks.append((pool, pool.remark))
            is_binding = any(device.device.binding_conditions for device in pool_on_node.devices)
            usable.append((is_binding, pool.key, (pool_on_node, use)))
            self._binding_pools |= {pool.key} if is_binding else set()
        for _, _, (pool_on_node, use) in sorted(usable, key=itemgetter(0, 1)):
            self._add(pool_on_node.view, pool_on_node.devices, use)

    def pool_rank(self, device: int) -> tuple[bool, PoolKey]:
        """Return the sort key of the device's pool in Kubernetes' order.

        Pools with binding conditions come after all others.
        """
        key = self.devices[device].id[:2]
        return key in self._binding_pools, key

    def reorder(self, positions: Sequence[int]) -> None:
        """Reorder the devices. `positions` lists their current positions in the new order."""
        names = "devices held_by offsets counters groups component capacity_indexes held_shares"
        for name in names.split():
            row = getattr(self, name)
            setattr(self, name, [row[position] for position in positions])

    def is_available(self, device: int) -> bool:
        """Return whether no claim holds the device as a whole, and its counters and groups are available."""
        if self.held_by[device]:
            return False
        return bool(self.held_shares[device]) or (
            all(self.left[at] >= nano for at, nano in self.counters[device])
            and all(self.groups_left[at] & bits for at, bits in self.groups[device])
        )

    def _add(self, pool: PoolView, devices: Sequence[PooledDevice], use: PoolUse) -> None:
        offsets = CounterOffsets(pool.counters, len(self.left), len(self.groups_left))
        self._tables.append(offsets)
        first_component = len(self.components)
        self._add_counters(pool, offsets, use)
        self.components += (_shift_component(component, offsets) for component in pool.counters.components)
        for device in devices:
            taken = device.consumption
            self.devices.append(device)
            self.offsets.append(offsets)
            self.counters.append(_shift_row(taken.counters, offsets.first_counter))
            self.groups.append(_shift_row(taken.groups, offsets.first_set))
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
            self.capacity_indexes.append(_NO_CAPACITY)
            self.held_shares.append(None)
            return
        self.held_by.append(holders if name in use.exclusive else ())
        self.held_shares.append(len(holders) if name in use.consumed else 0)
        consumed = use.consumed.get(name, {})
        indexes = {}
        for capacity, amount in device.device.capacity.items():
            indexes[capacity] = len(self.left)
            self._add_resource(("capacity", capacity), amount.value.nano, consumed.get(capacity, 0))
        self.capacity_indexes.append(indexes)

    def _add_counters(self, pool: PoolView, offsets: CounterOffsets, use: PoolUse) -> None:
        """Add the counters and groups of a pool, less what its held devices take on any node."""
        table = offsets.table
        taken, groups_left = compute_held_resources(pool, use)
        for at, nano in enumerate(taken):
            counter_set, name = table.names[at]
            if table.amounts[at] < nano and pool.key not in self.overdrawn:
                self.overdrawn[pool.key] = f"counter {name} of counter set {counter_set}"
            self._add_resource(("counter", name), table.amounts[at], nano)
        self.groups_left += groups_left

    def _add_resource(self, name: tuple[str, str], total: int, taken: int) -> None:
        self.left.append(total - taken)
        self.totals.append(total)
        self.counter_names.append(self._names.setdefault(name, len(self._names)))

    def describe_resource(self, at: int, *amounts: int) -> tuple[str, ...]:
        """Return the name of the resource at an index of `left`, and the amounts as quantities."""
        for offsets in self._tables:
            local = at - offsets.first_counter
            if 0 <= local < len(offsets.table.names):
                return (
                    f"counter {offsets.table.names[local][1]}",
                    *(offsets.table.amount(local, nano) for nano in amounts),
                )
        for device, indexes in enumerate(self.capacity_indexes):
            name = next((name for name, index in indexes.items() if index == at), None)
            if name is not None:
                like = self.devices[device].device.capacity[name].value
                written = (like - like + Quantity.parse(f"{nano}n") for nano in amounts)
                return (f"capacity {name}", *map(str, written))
        raise IndexError(at)


def compute_held_resources(pool: PoolView, use: PoolUse) -> tuple[list[int], list[int]]:
    """Return the resources of a pool that its held devices take. The devices may be held on any node.

    Returns:
        For each counter of the pool's table, the nanos taken. For each counter set, the compatibility groups
        that are still possible.
    """
    table = pool.counters
    taken, groups_left = [0] * len(table.amounts), [ANY] * len(table.sets)
    for device in pool.devices if use.claims else ():
        if device.id.device not in use.claims:
            continue
        for at, nano in device.consumption.counters:
            taken[at] += nano
        recorded = use.groups.get(device.id.device)
        for at, bits in device.consumption.groups:
            groups_left[at] &= bits if recorded is None else table.groups.named(recorded.get(table.sets[at]))
    for counter_set, groups in (each for recorded in use.groups.values() for each in recorded.items()):
        # `use.groups` also lists devices that are no longer in the pool.
        if counter_set in table.set_indexes:
            groups_left[table.set_indexes[counter_set]] &= table.groups.named(groups)
    return taken, groups_left


def iter_offers(
    node: AllocationNode,
    inventory: Inventory,
    in_use: InUse,
    features: Features,
    *,
    skips_devices: bool = False,
) -> Iterator[Offer]:
    """Yield each pool as the node sees it, with the pool's use; see `PublishedPool.on_node`."""
    for pool_on_node in inventory.pools_on(node, features, skips_devices=skips_devices):
        yield pool_on_node, in_use.pool(pool_on_node.view.key)


def _shift_row(row: Row, first: int) -> Row:
    return tuple([(first + at, value) for at, value in row]) if first else row


def _shift_component(component: Component, offsets: CounterOffsets) -> Component:
    (c0, c1), (s0, s1) = component.counters, component.sets
    return Component(
        (offsets.first_counter + c0, offsets.first_counter + c1),
        (offsets.first_set + s0, offsets.first_set + s1),
    )
