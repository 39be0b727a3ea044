"""In which order devices are tried. The search takes the first allocation that it finds in this order.

- `ORDERED` is the order of Kubernetes' own allocator: pools by driver and name, those with a binding condition
  after all others; inside a pool slices go by name and devices as published.
- `PACKED` keeps large partitions whole: the smallest device that will do, of equal ones the one in the fullest
  counter set, of those the one that spoils the least of what is still free; devices with binding conditions
  come last.

A new order is a new value; the search does not change.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from dradriver.allocator.supply import Supply

__all__ = ["ORDERED", "PACKED", "Order"]

Arrange: TypeAlias = Callable[[Supply], Sequence[int]]

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


def _as_kubernetes(supply: Supply) -> Sequence[int]:
    return range(len(supply.devices))


def _smallest_first(supply: Supply) -> Sequence[int]:
    sizes = [_size(supply, device) for device in range(len(supply.devices))]
    spoiled = _spoiled(supply, sizes)
    keys = [
        (
            bool(supply.devices[device].device.binding_conditions),
            sizes[device],
            _room(supply, device),
            spoiled[device],
            device,
        )
        for device in range(len(sizes))
    ]
    return sorted(range(len(keys)), key=keys.__getitem__)


def _size(supply: Supply, device: int) -> int:
    """How much of its counter sets the device takes, in millionths of all counters together."""
    shares = [
        nano * _WHOLE // total if (total := supply.totals[at]) > 0 else 0
        for at, nano in supply.counters[device]
    ]
    return sum(shares) // len(shares) if shares else _WHOLE


def _room(supply: Supply, device: int) -> int:
    """How much is left of the counter sets that it consumes, or of the capacities that it shares out."""
    places = [at for at, _ in supply.counters[device]]
    if supply.shared_out[device] is not None:
        places = list(supply.rooms[device].values())
    shares = [supply.left[at] * _WHOLE // total for at in places if (total := supply.totals[at]) > 0]
    return sum(shares) // len(shares) if shares else _WHOLE


def _spoiled(supply: Supply, sizes: Sequence[int]) -> list[int]:
    """Per device what can no longer be had of its component when it is taken: the sum of the sizes."""
    rivals: list[list[int]] = [[] for _ in supply.components]
    for device, component in enumerate(supply.component):
        if supply.counters[device]:
            rivals[component].append(device)
    found = [0] * len(sizes)
    known: dict[Hashable, list[int]] = {}
    for component, devices in enumerate(rivals):
        first, end = supply.components[component].counters
        left = supply.left[first:end]
        needs = [{at - first: nano for at, nano in supply.counters[device]} for device in devices]
        free = [not supply.held_by[device] for device in devices]
        # GPUs of one model in one state are alike.
        key = tuple(left), tuple(free), tuple(tuple(need.items()) for need in needs)
        if key not in known:
            known[key] = _spoiled_of_one(left, needs, free, [sizes[device] for device in devices])
        for device, amount in zip(devices, known[key], strict=True):
            found[device] = amount
    return found


def _spoiled_of_one(
    left: Sequence[int], needs: Sequence[Mapping[int, int]], free: Sequence[bool], sizes: Sequence[int]
) -> list[int]:
    """The same for the devices of one component, with places from its first counter on."""
    fitting = [
        (need, size)
        for need, size, is_free in zip(needs, sizes, free, strict=True)
        if is_free and all(left[at] >= nano for at, nano in need.items())
    ]
    return [
        sum(
            size
            for need, size in fitting
            if any(left[at] - taken.get(at, 0) < nano for at, nano in need.items())
        )
        for taken in needs
    ]


ORDERED: Final = Order("ordered", _as_kubernetes)
PACKED: Final = Order("packed", _smallest_first, skips_devices=True)
