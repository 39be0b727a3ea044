"""Divide a pool into slices, within the limits of the API.

Counter sets have slices of their own, before those of the devices. An allocator takes the first device that
fits, so the devices are ordered: first those that are ready immediately (KEP-5007, Goals), among these the ones
that consume least, and whole devices last (KEP-4815). Slices are read in the order of their names, which is the
order of this list.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from dradriver.errors import InvalidObjectError, Problem
from dradriver.model.resource.counters import MAX_COUNTER_SETS, MAX_SLICE_COUNTERS, CounterSet
from dradriver.model.resource.device import Attribute, Device
from dradriver.model.resource.pool import Pool, problems
from dradriver.model.resource.slices import MAX_DEVICES, MAX_DEVICES_ADVANCED, PoolReference, ResourceSliceSpec

__all__ = ["MAX_SLICE_BYTES", "layout", "order_devices", "refusals"]

MAX_SLICE_BYTES: Final = 1_000_000
"""Devices in one slice as JSON: far enough below etcd's 1.5 MiB for metadata and managed fields."""

_PARTS: Final = 1_000_000
"""Consumption is compared in millionths of a counter set, as integers."""


def refusals(pool: Pool, node: str | None) -> list[Problem]:
    """Return the reasons why a pool cannot be published, empty if it can.

    Args:
        pool: a pool that a driver wants.
        node: the node that the publisher runs for. None for a publisher of the control plane.
    """
    found = problems(pool)
    if node is None and not pool.name:
        found.append(Problem("name", "is required: without a node there is no default"))
    if node is None and pool.node_local:
        found.append(
            Problem(
                "nodeSelector", "one of nodeSelector, allNodes, perDeviceNodeSelection is required: no node"
            )
        )
    if node is not None and pool.per_device_node_selection:
        found.append(
            Problem(
                "perDeviceNodeSelection",
                f"is for publishers of the control plane: the plugin of node {node} speaks for its own node "
                "only; give the pool a nodeSelector or allNodes instead, or publish it from a PoolDriver",
            )
        )
    return found


def layout(pool: Pool, driver: str, node: str | None) -> list[ResourceSliceSpec]:
    """Return the slices of a pool in the order of their names; an empty pool has one empty slice.

    The generation is 0, because the next generation depends on the published one (`plan`).

    Args:
        pool: the devices and counter sets.
        driver: the driver's name.
        node: the publisher's node: the `nodeName` of node-local pools, and the default name of pools.

    Raises:
        InvalidObjectError: `refusals()` is not empty.
    """
    if problems := refusals(pool, node):
        raise InvalidObjectError(f"pool {pool.name or node}", problems)
    sets = [
        pool.counter_sets[i : i + MAX_COUNTER_SETS] for i in range(0, len(pool.counter_sets), MAX_COUNTER_SETS)
    ]
    devices = list(_cut(order_devices(pool)))
    if not sets and not devices:
        devices = [[]]
    reference = PoolReference(
        name=pool.name or node or "", generation=0, resource_slice_count=len(sets) + len(devices)
    )
    empty = ResourceSliceSpec(
        driver=driver,
        pool=reference,
        node_name=node if pool.node_local else None,
        node_selector=pool.node_selector,
        all_nodes=pool.all_nodes or None,
        per_device_node_selection=pool.per_device_node_selection or None,
    )
    return [msgspec.structs.replace(empty, shared_counters=list(part)) for part in sets] + [
        msgspec.structs.replace(empty, devices=part) for part in devices
    ]


def order_devices(pool: Pool) -> list[Device]:
    """Return the devices in the order of publication; equal ones keep the driver's order.

    Devices without binding conditions come first: kube-scheduler prefers whole pools without any, and within a
    pool takes the first device that fits. Within both kinds, devices that consume least of their counter sets
    come first.
    """
    sets = {counter_set.name: counter_set for counter_set in pool.counter_sets}
    return sorted(pool.devices, key=lambda device: (bool(device.binding_conditions), _consumed(device, sets)))


def _consumed(device: Device, sets: dict[str, CounterSet]) -> int:
    """Return the mean share of the counters of each consumed set, summed over the sets."""
    total = 0
    for consumption in device.consumes_counters:
        available = sets[consumption.counter_set].counters
        shares = sum(
            counter.value.nano * _PARTS // max(1, available[name].value.nano)
            for name, counter in consumption.counters.items()
        )
        total += shares // len(available)
    return total


def _cut(devices: Sequence[Device]) -> Iterator[list[Device]]:
    part: list[Device] = []
    counters = size = 0
    advanced = False
    for device in devices:
        more_counters = sum(len(consumption.counters) for consumption in device.consumes_counters)
        more_size = len(msgspec.json.encode(device, enc_hook=str))
        limit = MAX_DEVICES_ADVANCED if advanced or _is_advanced(device) else MAX_DEVICES
        full = (
            len(part) >= limit
            or counters + more_counters > MAX_SLICE_COUNTERS
            or size + more_size > MAX_SLICE_BYTES
        )
        if part and full:
            yield part
            part, counters, size, advanced = [], 0, 0, False
        part.append(device)
        counters += more_counters
        size += more_size
        advanced = advanced or _is_advanced(device)
    if part:
        yield part


def _is_advanced(device: Device) -> bool:
    """Return whether the device lowers its slice's limit (`ResourceSliceMaxDevicesWithAdvancedFeatures`)."""
    return bool(device.taints or device.consumes_counters) or any(map(_is_list, device.attributes.values()))


def _is_list(attribute: Attribute) -> bool:
    return any(
        items is not None for items in (attribute.ints, attribute.bools, attribute.strings, attribute.versions)
    )
