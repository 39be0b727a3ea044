"""Computes how devices use the counter sets of pools (KEP-4815)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from dradriver.allocator import AllocationNode, Features, InUse, Inventory, PooledDevice, PoolView
from dradriver.allocator.supply.devices_in_use import PoolUse
from dradriver.allocator.supply.node_supply import compute_held_resources
from dradriver.model.quantity import Quantity
from dradriver.model.resource.claim import ResourceClaim

__all__ = ["CounterSetUse", "CounterUse", "FreeCounters", "HeldDevice", "counter_set_uses"]


@dataclass(frozen=True, slots=True)
class CounterUse:
    """One counter.

    Attributes:
        name: name of the counter.
        total: total amount of the counter.
        used: amount that all devices in use consume; higher than `total` if a driver has reduced the counter.
    """

    name: str
    total: Quantity
    used: Quantity


@dataclass(frozen=True, slots=True)
class HeldDevice:
    """A device in use.

    Attributes:
        device: name of the device.
        claims: claims (`namespace/name`) that have the device or shares of the device.
        pods: pods (`namespace/name`) for which these claims are reserved.
        consumes: amounts that the device consumes from the counter set, by counter.
    """

    device: str
    claims: tuple[str, ...]
    pods: tuple[str, ...]
    consumes: Mapping[str, Quantity]


@dataclass(frozen=True, slots=True)
class CounterSetUse:
    """One counter set.

    Attributes:
        driver, pool, name: driver, pool and name of the counter set.
        counters: all counters of the counter set, by name.
        holders: devices in use that consume from the counter set, in the pool's order.
        fitting: names of the devices that the free counters and compatibility groups still allow.
        devices: number of devices that consume from the counter set.
    """

    driver: str
    pool: str
    name: str
    counters: tuple[CounterUse, ...]
    holders: tuple[HeldDevice, ...]
    fitting: tuple[str, ...]
    devices: int


def counter_set_uses(
    inventory: Inventory, claims: Iterable[ResourceClaim], node: AllocationNode | None = None
) -> Iterator[CounterSetUse]:
    """Yield the counter sets of all usable pools, ordered by driver, pool and name.

    Args:
        inventory: all pools.
        claims: all claims. Devices of allocated claims count as in use.
        node: only pools with devices that this node reaches are included; None: all pools. The result also
            counts the devices of other nodes in these pools, because nodes share counters.
    """
    claims = list(claims)
    in_use = InUse.of(claims)
    pods = {
        claim.ref: tuple(
            f"{claim.metadata.namespace}/{user.name}"
            for user in claim.status.reserved_for
            if user.resource == "pods"
        )
        for claim in claims
        if claim.allocation is not None
    }
    for pool in _usable(inventory, node):
        yield from _of_pool(pool, in_use.pool(pool.key), pods)


def _usable(inventory: Inventory, node: AllocationNode | None) -> Sequence[PoolView]:
    """Return the usable pools in order.

    If a node is given, return only pools with devices that the node reaches.
    """
    if node is None:
        return [pool for pool in inventory.pools.values() if pool.problem is None]
    seen = inventory.pools_on(node, Features(compatibility_groups=True))
    return sorted(
        (each.view for each in seen if each.devices and each.problem is None), key=lambda pool: pool.key
    )


def _of_pool(pool: PoolView, use: PoolUse, pods: Mapping[str, tuple[str, ...]]) -> Iterator[CounterSetUse]:
    free = FreeCounters(pool, use)
    members: dict[str, list[PooledDevice]] = {name: [] for name in pool.counter_sets}
    for device in pool.devices:
        for taken in device.device.consumes_counters:
            members[taken.counter_set].append(device)
    for name, devices in sorted(members.items()):
        holders = tuple(
            _holder(name, device, use.claims[device.id.device], pods)
            for device in devices
            if device.id.device in use.claims
        )
        counters = pool.counter_sets[name].counters
        yield CounterSetUse(
            driver=pool.driver,
            pool=pool.name,
            name=name,
            counters=tuple(
                CounterUse(counter, counters[counter].value, _sum(holders, counter))
                for counter in sorted(counters)
            ),
            holders=holders,
            fitting=tuple(device.id.device for device in devices if free.fits(device)),
            devices=len(devices),
        )


def _holder(
    counter_set: str, device: PooledDevice, claims: tuple[str, ...], pods: Mapping[str, tuple[str, ...]]
) -> HeldDevice:
    consumes = {
        name: counter.value
        for taken in device.device.consumes_counters
        if taken.counter_set == counter_set
        for name, counter in taken.counters.items()
    }
    users = dict.fromkeys(pod for claim in claims for pod in pods.get(claim, ()))
    return HeldDevice(device.id.device, claims, tuple(users), consumes)


def _sum(holders: Iterable[HeldDevice], counter: str) -> Quantity:
    taken = [holder.consumes[counter] for holder in holders if counter in holder.consumes]
    return sum(taken[1:], start=taken[0]) if taken else Quantity("0")


class FreeCounters:
    """Free counters and allowed compatibility groups of a pool.

    Args:
        pool: the pool.
        use: the devices of the pool that claims hold.
    """

    def __init__(self, pool: PoolView, use: PoolUse) -> None:
        taken, self._allowed_groups = compute_held_resources(pool, use)
        self._in_use = use.claims
        self._free = [amount - nano for amount, nano in zip(pool.counters.amounts, taken, strict=True)]

    def fits(self, device: PooledDevice) -> bool:
        """Return whether the device is not in use and its counters and groups are free."""
        taken = device.consumption
        return (
            device.id.device not in self._in_use
            and all(self._free[at] >= nano for at, nano in taken.counters)
            and all(self._allowed_groups[at] & bits for at, bits in taken.groups)
        )

    def take(self, device: PooledDevice) -> None:
        """Count a device that fits as in use."""
        for at, nano in device.consumption.counters:
            self._free[at] -= nano
        for at, bits in device.consumption.groups:
            self._allowed_groups[at] &= bits
