"""Computes how devices use the counter sets of pools (KEP-4815)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from dradriver.allocator import AllocationNode, Features, InUse, Inventory, PoolView
from dradriver.allocator.supply.devices_in_use import PoolUse
from dradriver.allocator.supply.node_supply import compute_held_resources
from dradriver.allocator.supply.pools import offered_devices
from dradriver.model.quantity import Quantity
from dradriver.model.resource.claim import ResourceClaim
from dradriver.model.resource.device import Device
from dradriver.overview.counters.shares import has_free_share

__all__ = [
    "CounterSetUse",
    "CounterUse",
    "FreeCounters",
    "HeldDevice",
    "counter_set_uses",
    "find_product",
    "list_devices",
    "pods_of_claim",
    "pool_counter_sets",
]

_ZERO: Final = Quantity("0")
_PRODUCT: Final = ("productName", "model")
"""Attributes in the driver's domain that name the product, in the order in which they are looked up."""


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
        fitting: names of the devices that claims can still get, as a whole or as shares. Only counters,
            compatibility groups, shares and devices in use count.
        devices: number of devices that consume from the counter set.
        product: see `find_product`.
    """

    driver: str
    pool: str
    name: str
    counters: tuple[CounterUse, ...]
    holders: tuple[HeldDevice, ...]
    fitting: tuple[str, ...]
    devices: int
    product: str = ""


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
    pods = {claim.ref: pods_of_claim(claim) for claim in claims if claim.allocation is not None}
    for pool in _usable(inventory, node):
        yield from pool_counter_sets(pool, in_use.pool(pool.key), pods)


def pods_of_claim(claim: ResourceClaim) -> tuple[str, ...]:
    """Return the pods (`namespace/name`) for which a claim is reserved.

    Args:
        claim: the claim.
    """
    namespace = claim.metadata.namespace
    return tuple(f"{namespace}/{user.name}" for user in claim.status.reserved_for if user.resource == "pods")


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


def pool_counter_sets(
    pool: PoolView, use: PoolUse, pods: Mapping[str, tuple[str, ...]]
) -> Iterator[CounterSetUse]:
    """Yield the counter sets of a pool, ordered by name.

    Args:
        pool: a pool whose slices break no rule.
        use: the devices of the pool that claims hold.
        pods: for each of these claims (`namespace/name`), the pods for which it is reserved.
    """
    free = FreeCounters(pool, use)
    members: dict[str, list[Device]] = {name: [] for name in pool.counter_sets}
    for device in list_devices(pool):
        for taken in device.consumes_counters:
            members[taken.counter_set].append(device)
    for name, devices in sorted(members.items()):
        held = (device for device in devices if device.name in use.claims) if use.claims else ()
        holders = tuple(_holder(name, device, use.claims[device.name], pods) for device in held)
        counters = pool.counter_sets[name].counters
        yield CounterSetUse(
            driver=pool.driver,
            pool=pool.name,
            name=name,
            counters=tuple(
                [
                    CounterUse(counter, counters[counter].value, _sum(holders, counter) if holders else _ZERO)
                    for counter in sorted(counters)
                ]
            ),
            holders=holders,
            fitting=tuple([device.name for device in devices if free.offers(device)]),
            devices=len(devices),
            product=find_product(devices, pool.driver),
        )


def list_devices(pool: PoolView) -> list[Device]:
    """Return the devices of a pool, in its order. This does not compile counters, as `PoolView.devices` does.

    Args:
        pool: the pool.
    """
    return [device for source in pool.slices for device in offered_devices(source)]


def find_product(devices: Sequence[Device], driver: str) -> str:
    """Return the product that the attributes of a card's first device name; empty if they name none.

    Args:
        devices: the devices of one card. All devices are parts of one product.
        driver: the driver of the devices.
    """
    for attribute in _PRODUCT if devices else ():
        value = devices[0].attribute(attribute, driver)
        if isinstance(value, str):
            return value
    return ""


def _holder(
    counter_set: str, device: Device, claims: tuple[str, ...], pods: Mapping[str, tuple[str, ...]]
) -> HeldDevice:
    consumes = {
        name: counter.value
        for taken in device.consumes_counters
        if taken.counter_set == counter_set
        for name, counter in taken.counters.items()
    }
    users = dict.fromkeys(pod for claim in claims for pod in pods.get(claim, ()))
    return HeldDevice(device.name, claims, tuple(users), consumes)


def _sum(holders: Iterable[HeldDevice], counter: str) -> Quantity:
    taken = [holder.consumes[counter] for holder in holders if counter in holder.consumes]
    return sum(taken[1:], start=taken[0]) if taken else _ZERO


class FreeCounters:
    """Free counters and allowed compatibility groups of a pool.

    Args:
        pool: the pool.
        use: the devices of the pool that claims hold.
    """

    def __init__(self, pool: PoolView, use: PoolUse) -> None:
        self._use = use
        self._free = {
            counter_set.name: {name: counter.value.nano for name, counter in counter_set.counters.items()}
            for counter_set in pool.counter_sets.values()
        }
        self._bits = pool.counters.groups if _has_groups(pool, use) else None
        self._allowed_groups: dict[str, int] = {}
        if self._bits is not None:
            _, allowed = compute_held_resources(pool, use)
            self._allowed_groups = dict(zip(pool.counters.sets, allowed, strict=True))
        for device in list_devices(pool) if use.claims else ():
            if device.name in use.claims:
                self._take_counters(device)

    def fits(self, device: Device) -> bool:
        """Return whether the device is not in use and its counters and groups are free."""
        if device.name in self._use.claims:
            return False
        # Loops instead of `all`: this runs for every device of a cluster.
        for taken in device.consumes_counters:
            free = self._free[taken.counter_set]
            for name, counter in taken.counters.items():
                if free[name] < counter.value.nano:
                    return False
        bits = self._bits
        return bits is None or all(
            self._allowed_groups[taken.counter_set] & bits.bits(taken) for taken in device.consumes_counters
        )

    def offers(self, device: Device) -> bool:
        """Return whether claims can still get the device or, if it is shared, another share of it."""
        if device.name in self._use.consumed:
            return has_free_share(device, self._use)
        return self.fits(device)

    def take(self, device: Device) -> None:
        """Count a device that fits as in use."""
        self._take_counters(device)
        if self._bits is not None:
            for taken in device.consumes_counters:
                self._allowed_groups[taken.counter_set] &= self._bits.bits(taken)

    def _take_counters(self, device: Device) -> None:
        for taken in device.consumes_counters:
            free = self._free[taken.counter_set]
            for name, counter in taken.counters.items():
                free[name] -= counter.value.nano


def _has_groups(pool: PoolView, use: PoolUse) -> bool:
    """Return whether a device declares compatibility groups, or a claim has recorded some."""
    return bool(use.groups) or any(
        taken.compatibility_groups for device in list_devices(pool) for taken in device.consumes_counters
    )
