"""Finds the largest devices of each pool that claims can still get."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from dradriver.allocator import InUse, Inventory, PooledDevice, PoolView
from dradriver.allocator.supply.devices_in_use import PoolUse
from dradriver.model.resource.claim import ResourceClaim
from dradriver.model.resource.counters import FULL_SIZE, compute_size
from dradriver.overview.counters.counter_use import FreeCounters

__all__ = ["LargestDevices", "largest_devices"]

_MAX_NAMES: Final = 4


@dataclass(frozen=True, slots=True)
class LargestDevices:
    """The largest devices of one pool that still fit.

    Attributes:
        driver, pool: driver and name of the pool.
        node: the node of a node-local pool; empty for a pool that several nodes reach.
        size: the part of its counters that each of the devices takes (`compute_size`), in percent; 100 for
            devices that consume nothing.
        devices: names of devices of this size that fit together. They are taken in the pool's order, so another
            choice can have more devices. Empty if no device fits.
    """

    driver: str
    pool: str
    node: str
    size: float
    devices: tuple[str, ...]

    def line(self) -> str:
        """Return the devices as text."""
        node = f" on node {self.node}" if self.node else ""
        more = f" and {len(self.devices) - _MAX_NAMES} more" if len(self.devices) > _MAX_NAMES else ""
        names = f"{', '.join(self.devices[:_MAX_NAMES])}{more}"
        found = f"{len(self.devices)} of size {self.size:g} %: {names}" if self.devices else "none"
        return f"{self.driver}/{self.pool}{node}: {found}"


def largest_devices(inventory: Inventory, claims: Iterable[ResourceClaim]) -> Iterator[LargestDevices]:
    """Yield the largest devices of each usable pool that still fit, ordered by driver and pool.

    Only counters, compatibility groups and devices in use count, not selectors and taints.

    Args:
        inventory: all pools.
        claims: all claims. Devices of allocated claims count as in use.
    """
    in_use = InUse.of(claims)
    for pool in sorted(inventory.pools.values(), key=lambda pool: pool.key):
        if pool.problem is None and pool.devices:
            yield _of_pool(pool, in_use.pool(pool.key))


def _of_pool(pool: PoolView, use: PoolUse) -> LargestDevices:
    free = FreeCounters(pool, use)
    fitting = [(_size(pool, device), device) for device in pool.devices if free.fits(device.device)]
    largest = max((size for size, _ in fitting), default=0)
    names = []
    for size, device in fitting:
        if size == largest and free.fits(device.device):
            free.take(device.device)
            names.append(device.id.device)
    node = pool.slices[0].spec.node_name or ""
    return LargestDevices(pool.driver, pool.name, node, round(100 * largest / FULL_SIZE, 1), tuple(names))


def _size(pool: PoolView, device: PooledDevice) -> int:
    if device.consumption.component is None:
        return FULL_SIZE
    first, end = pool.counters.components[device.consumption.component].counters
    taken = ((nano, pool.counters.amounts[at]) for at, nano in device.consumption.counters)
    return compute_size(taken, end - first)
