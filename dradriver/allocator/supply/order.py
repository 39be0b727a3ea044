"""The order in which devices are tried. The search takes the first allocation in this order.

- `ORDERED` is the order of Kubernetes' own allocator. Pools are sorted by driver and name, and pools with a
  binding condition come last. Inside a pool, slices are sorted by name, and devices keep the published order.
- `PACKED` keeps large partitions available. It prefers the smallest sufficient device, then the device that
  makes only small partitions unavailable, then the first device (`search.packing`). Devices with binding
  conditions come last.

To add an order, define another `Order` value. The search needs no change.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from dradriver.allocator.search.packing import FULL_DEVICE_COST, Cost, CostTable
from dradriver.allocator.supply.node_supply import Supply
from dradriver.model.resource.counters import FULL_SIZE

__all__ = ["BINDING_RATING", "ORDERED", "ORDERS", "PACKED", "Order", "Preference"]

Preference: TypeAlias = tuple[int, ...]
"""The disadvantages of a device. A device with a smaller value is preferred; among equals, the first one."""

BINDING_RATING: Final[Preference] = (1,)
"""The rating under an order without preferences if a chosen device has binding conditions."""


@dataclass(frozen=True)
class Order:
    """An order of preference.

    Attributes:
        name: the name on the command line.
        compute_preferences: receives the devices in Kubernetes' order and returns the preference of each. If
            this attribute is None, the devices keep Kubernetes' order. With preferences, the best node has the
            smallest sum of preferences of the allocated devices; among equal nodes, the node with the fewest
            devices left. Without preferences, the best node is the first by name among the nodes that serve the
            pod without binding conditions. If no node does, the best node is the first by name that serves the
            pod (KEP-5007, Goals).
        admin_consumes: whether a request with admin access consumes counters and compatibility groups, so that
            the other requests of the pod can't use them, as in Kubernetes 1.37. If False, such a request can
            get a device whose counters are in use, because an allocation for admin access holds nothing
            (KEP-5018).
        skips_devices: applies only while the gate DRADeviceCompatibilityGroups is off. If True, devices with
            groups are skipped, as KEP-5963 requires, and groups that claims recorded still count. If False, a
            slice that contains a device with groups is ignored completely, as in Kubernetes 1.37.
    """

    name: str
    compute_preferences: Callable[[Supply], Sequence[Preference]] | None = None
    admin_consumes: bool = True
    skips_devices: bool = False


def _prefer_smallest(supply: Supply) -> Sequence[Preference]:
    """Return, for each device, whether it has binding conditions, followed by its cost (`search.packing`)."""
    return [
        (int(bool(pooled.device.binding_conditions)), *cost)
        for pooled, cost in zip(supply.devices, _compute_costs(supply), strict=True)
    ]


def _compute_costs(supply: Supply) -> list[Cost]:
    members: list[list[int]] = [[] for _ in supply.components]
    costs_of_devices: list[Cost] = [FULL_DEVICE_COST] * len(supply.devices)
    for device, component in enumerate(supply.component):
        if supply.counters[device]:
            members[component].append(device)
    tables: dict[Hashable, CostTable] = {}
    for component, devices in enumerate(members):
        costs = _component_costs(supply, component, devices, tables)
        for device, cost in zip(devices, costs, strict=True):
            costs_of_devices[device] = cost
    for device, shares in enumerate(supply.held_shares):
        if shares is not None:
            costs_of_devices[device] = (*costs_of_devices[device][:3], _share_left(supply, device))
    return costs_of_devices


def _component_costs(
    supply: Supply, component: int, devices: Sequence[int], tables: dict[Hashable, CostTable]
) -> list[Cost]:
    first, end = supply.components[component].counters
    first_set, end_set = supply.components[component].sets
    amounts = tuple(supply.totals[first:end])
    needs = tuple(tuple((at - first, nano) for at, nano in supply.counters[device]) for device in devices)
    groups = tuple(tuple((at - first_set, bits) for at, bits in supply.groups[device]) for device in devices)
    # GPUs of one model have equal counters and devices.
    key = amounts, needs, groups
    if key not in tables:
        tables[key] = CostTable(*key)
    free = sum(supply.is_available(device) << number for number, device in enumerate(devices))
    return tables[key].costs(supply.left[first:end], supply.groups_left[first_set:end_set], free)


def _share_left(supply: Supply, device: int) -> int:
    """Return the mean share of the device's capacities that is left, in millionths.

    A device without capacities has the full size.
    """
    amounts = [(supply.left[at], supply.totals[at]) for at in supply.capacity_indexes[device].values()]
    shares = [left * FULL_SIZE // total for left, total in amounts if total > 0]
    return sum(shares) // len(shares) if shares else FULL_SIZE


ORDERED: Final = Order("ordered")
PACKED: Final = Order("packed", _prefer_smallest, admin_consumes=False, skips_devices=True)
ORDERS: Final[Mapping[str, Order]] = {order.name: order for order in (ORDERED, PACKED)}
"""All orders by name."""
