"""In which order devices are tried. The search takes the first allocation that it finds in this order.

- `ORDERED` is the order of Kubernetes' own allocator: pools by driver and name, those with a binding condition
  after all others; inside a pool slices go by name and devices as published.
- `PACKED` keeps large partitions whole: the smallest device that will do, of equal ones the one in the fullest
  counter set, of those the one that spoils the least of what is still free; devices with binding conditions
  come last.

A new order is a new value; the search does not change.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from dradriver.allocator.supply import Supply

__all__ = ["ORDERED", "PACKED", "Order"]

Arrange: TypeAlias = "Callable[[Supply], Sequence[int]]"

_WHOLE: Final = 10**6


@dataclass(frozen=True)
class Order:
    """An order of preference.

    Attributes:
        name: as it is chosen on the command line.
        arrange: from the devices in Kubernetes' order to the same, sorted, by position.
        skips_devices: with the compatibility groups' gate off, devices with groups are skipped, as KEP-5963
            says, and groups that claims recorded still count. Else the slice that has one is ignored whole, as
            Kubernetes 1.37 does.
    """

    name: str
    arrange: Arrange
    skips_devices: bool = False


def _as_kubernetes(supply: "Supply") -> Sequence[int]:
    return range(len(supply.devices))


def _smallest_first(supply: "Supply") -> Sequence[int]:
    spoiled = _Spoiled(supply)
    keys = [
        (
            bool(supply.devices[device].device.binding_conditions),
            _size(supply, device),
            _room(supply, device),
            spoiled.by(device),
            device,
        )
        for device in range(len(supply.devices))
    ]
    return sorted(range(len(keys)), key=keys.__getitem__)


def _size(supply: "Supply", device: int) -> int:
    """How much of its counter sets the device takes, in millionths of all counters together."""
    shares = [
        nano * _WHOLE // total if (total := supply.totals[at]) > 0 else 0
        for at, nano in supply.counters[device]
    ]
    return sum(shares) // len(shares) if shares else _WHOLE


def _room(supply: "Supply", device: int) -> int:
    """How much is left of the counter sets that it consumes, or of the capacities that it shares out."""
    places = [at for at, _ in supply.counters[device]]
    if supply.shared_out[device] is not None:
        places = list(supply.rooms[device].values())
    shares = [supply.left[at] * _WHOLE // total for at in places if (total := supply.totals[at]) > 0]
    return sum(shares) // len(shares) if shares else _WHOLE


class _Spoiled:
    """What can no longer be had of a component when a device is taken: the sum of the sizes."""

    def __init__(self, supply: "Supply") -> None:
        self._supply = supply
        self._free: list[list[int]] = [[] for _ in supply.components]
        for device, component in enumerate(supply.component):
            if supply.counters[device] and not supply.held_by[device] and self._fits(device, {}):
                self._free[component].append(device)

    def by(self, device: int) -> int:
        supply, component = self._supply, self._supply.component[device]
        if not supply.counters[device]:
            return 0
        taken = dict(supply.counters[device])
        return sum(
            _size(supply, other)
            for other in self._free[component]
            if other != device and not self._fits(other, taken)
        )

    def _fits(self, device: int, taken: dict[int, int]) -> bool:
        left = self._supply.left
        return all(left[at] - taken.get(at, 0) >= nano for at, nano in self._supply.counters[device])


ORDERED: Final = Order("ordered", _as_kubernetes)
PACKED: Final = Order("packed", _smallest_first, skips_devices=True)
