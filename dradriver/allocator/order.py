"""In which order devices are tried. The search takes the first allocation that it finds in this order.

An order is a function from the pools that a node reaches to the same pools, sorted. `ordered` is that of
Kubernetes' own allocator. A new order is a new function; the search does not change.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from dradriver.allocator.inventory import PooledDevice, PoolView

__all__ = ["Offer", "Order", "ordered"]


@dataclass(frozen=True, slots=True)
class Offer:
    """A pool that a node reaches, and the devices in the slices that it reaches."""

    pool: PoolView
    devices: Sequence[PooledDevice]


Order: TypeAlias = Callable[[Iterable[Offer]], Sequence[Offer]]


def ordered(offers: Iterable[Offer]) -> Sequence[Offer]:
    """Kubernetes' order: pools by driver and name, those with a binding condition after all others.

    Inside a pool slices go by name and devices as published.
    """
    return sorted(offers, key=lambda offer: (_has_binding_conditions(offer), offer.pool.key))


def _has_binding_conditions(offer: Offer) -> bool:
    return any(device.device.binding_conditions for device in offer.devices)
