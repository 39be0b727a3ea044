"""Divide a pool into slices, within the limits of the API.

Counter sets are in separate slices, before the slices with devices. An allocator takes the first device that
fits, so the devices are sorted: devices without binding conditions come first (KEP-5007, Goals), then devices
that consume less come before devices that consume more (KEP-4815). Allocators read slices in the order of their
names, which is the order of the returned list.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from dradriver.errors import InvalidObjectError, Problem
from dradriver.model.resource.attachments import is_attached_on_allocation
from dradriver.model.resource.counters import (
    MAX_COUNTER_SETS,
    MAX_SLICE_COUNTERS,
    compute_size,
    connect_sets,
)
from dradriver.model.resource.device import Device
from dradriver.model.resource.pool import Pool, problems
from dradriver.model.resource.slices import MAX_DEVICES, MAX_DEVICES_ADVANCED, PoolReference, ResourceSliceSpec

__all__ = ["MAX_SLICE_BYTES", "layout", "order_devices", "refusals"]

MAX_SLICE_BYTES: Final = 1_000_000
"""Maximum bytes of a slice's devices as JSON. Metadata and managed fields also fit into etcd's 1.5 MiB."""


def refusals(pool: Pool, node: str | None) -> list[Problem]:
    """Return the reasons why a pool cannot be published; empty if it can be published.

    Args:
        pool: a pool that a driver wants.
        node: the node for which the publisher runs. None for a publisher of the control plane.
    """
    reasons = problems(pool)
    if node is None and not pool.name:
        reasons.append(Problem("name", "is required: a publisher without a node has no default name"))
    if node is None and pool.node_local:
        rule = "one of nodeSelector, allNodes, perDeviceNodeSelection is required: the publisher has no node"
        reasons.append(Problem("nodeSelector", rule))
    if node is not None and pool.per_device_node_selection:
        rule = (
            f"must not be set by the plugin of a node ({node}): set nodeSelector or allNodes of the pool, or "
            "publish it from a PoolDriver"
        )
        reasons.append(Problem("perDeviceNodeSelection", rule))
    return reasons


def layout(pool: Pool, driver: str, node: str | None) -> list[ResourceSliceSpec]:
    """Return the slices of a pool in the order of their names. An empty pool has one empty slice.

    The generation of the slices is 0. `plan` sets it, because it depends on the published generation.

    Args:
        pool: the devices and counter sets.
        driver: the driver's name.
        node: the publisher's node. It is the `nodeName` of node-local pools and the default name of pools.

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
    """Return the devices in the order of publication. Equal devices keep the driver's order.

    Devices without binding conditions come first, because kube-scheduler prefers pools without binding
    conditions but takes the first device that fits in a pool. A device whose conditions the API server drops
    counts as one with conditions. Among the devices with and among those without
    binding conditions, smaller devices come first (`compute_size`).
    """
    size_of = _Sizes(pool)
    return sorted(pool.devices, key=lambda device: (is_attached_on_allocation(device), size_of(device)))


class _Sizes:
    """Computes the sizes of a pool's devices (`compute_size`); 0 for a device that consumes nothing."""

    def __init__(self, pool: Pool) -> None:
        self._counters = {each.name: each.counters for each in pool.counter_sets}
        consumed = ([each.counter_set for each in device.consumes_counters] for device in pool.devices)
        self._in_component = {
            name: sum(len(self._counters[member]) for member in component)
            for component in connect_sets(self._counters, consumed)
            for name in component
        }

    def __call__(self, device: Device) -> int:
        """Return the size of a device."""
        if not device.consumes_counters:
            return 0
        taken = (
            (counter.value.nano, self._counters[each.counter_set][name].value.nano)
            for each in device.consumes_counters
            for name, counter in each.counters.items()
        )
        return compute_size(taken, self._in_component[device.consumes_counters[0].counter_set])


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
    """Return whether `ResourceSliceMaxDevicesWithAdvancedFeatures` limits a slice that contains the device."""
    has_lists = any(attribute.is_list for attribute in device.attributes.values())
    return has_lists or bool(device.taints or device.consumes_counters)
