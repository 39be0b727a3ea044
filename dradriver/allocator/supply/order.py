"""The order in which devices are tried. The search takes the first allocation in this order.

- `ORDERED` is the order of Kubernetes' own allocator. Pools are sorted by driver and name, and pools with a
  binding condition come last. Inside a pool, slices are sorted by name, and devices keep the published order.
- `PACKED` keeps large partitions whole. It prefers the smallest sufficient device, then the device that spoils
  the smallest partition, then the device in the fullest counter sets (`search.packing`). Devices with binding
  conditions come last.

A new order is a new value. The search does not change.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from dradriver.allocator.search.packing import LONE, WHOLE, Cost, costs, share_of
from dradriver.allocator.supply.node_supply import Supply

__all__ = ["ORDERED", "ORDERS", "PACKED", "WAITS", "Order", "Preference"]

Preference: TypeAlias = tuple[int, ...]
"""The disadvantages of a device. The smallest value is preferred, and the first among equals."""

WAITS: Final[Preference] = (1,)
"""The rating of a node that serves a pod with binding conditions, under an order that prefers no device."""


@dataclass(frozen=True)
class Order:
    """An order of preference.

    Attributes:
        name: the name on the command line.
        prefers: returns the preference of each device, given in Kubernetes' order; None keeps that order. With
            preferences, the best node has the smallest sum of preferences of the given devices, and among
            equals the fewest devices left. Without them, the best node is the first by name: among the nodes
            that serve the pod without binding conditions, or among all nodes if there is none (KEP-5007,
            Goals).
        admin_consumes: whether admin access needs counters and compatibility groups and takes them from the
            other requests of the pod, as in Kubernetes 1.37. Otherwise it gets any device, whatever uses the
            counters: an allocation for admin access holds nothing (KEP-5018).
        skips_devices: with the gate of compatibility groups off, skip the devices with groups, as KEP-5963
            requires; groups that claims recorded still count. Otherwise a slice with such a device is ignored
            completely, as in Kubernetes 1.37.
    """

    name: str
    prefers: Callable[[Supply], Sequence[Preference]] | None = None
    admin_consumes: bool = True
    skips_devices: bool = False


def _smallest_first(supply: Supply) -> Sequence[Preference]:
    """Return for each device whether it has binding conditions, then its cost (`search.packing`)."""
    return [
        (int(bool(pooled.device.binding_conditions)), *cost)
        for pooled, cost in zip(supply.devices, _costs(supply), strict=True)
    ]


def _costs(supply: Supply) -> list[Cost]:
    members: list[list[int]] = [[] for _ in supply.components]
    found: list[Cost] = [LONE] * len(supply.devices)
    for device, component in enumerate(supply.component):
        if supply.counters[device]:
            members[component].append(device)
        elif supply.shared_out[device] is not None:
            found[device] = WHOLE, WHOLE, _room_of_shares(supply, device), 0
    known: dict[Hashable, list[Cost]] = {}
    for component, devices in enumerate(members):
        for device, cost in zip(devices, _of_component(supply, component, devices, known), strict=True):
            shared = supply.shared_out[device] is not None
            found[device] = (*cost[:2], _room_of_shares(supply, device), cost[3]) if shared else cost
    return found


def _of_component(
    supply: Supply, component: int, devices: Sequence[int], known: dict[Hashable, list[Cost]]
) -> list[Cost]:
    (first, end), sets = supply.components[component].counters, supply.components[component].sets
    state = tuple(supply.totals[first:end]), tuple(supply.left[first:end]), tuple(supply.joined[slice(*sets)])
    needs = tuple(tuple((at - first, nano) for at, nano in supply.counters[device]) for device in devices)
    groups = tuple(tuple((at - sets[0], bits) for at, bits in supply.groups[device]) for device in devices)
    free = sum(supply.can_be_had(device) << place for place, device in enumerate(devices))
    # GPUs of one model in one state have equal costs.
    key = state, needs, groups, free
    if key not in known:
        amounts, left, joined = state
        known[key] = costs(amounts, needs, groups, left, joined, free)
    return known[key]


def _room_of_shares(supply: Supply, device: int) -> int:
    return share_of([(supply.left[at], supply.totals[at]) for at in supply.rooms[device].values()])


ORDERED: Final = Order("ordered")
PACKED: Final = Order("packed", _smallest_first, admin_consumes=False, skips_devices=True)
ORDERS: Final[Mapping[str, Order]] = {order.name: order for order in (ORDERED, PACKED)}
"""All orders by name."""
