"""Decides what may be published while the API server drops fields because a feature gate is off.

If a server drops a field, it stores the rest of the object without an error. For some fields this is harmless.
Without other fields a device is unsafe: a partition without its counters looks like an independent device, and
a device without a taint that keeps claims away looks healthy. Unsafe devices are not published (KEP-4815
Rollback, KEP-5963, KEP-5007).

Source: `dropDisabledFields` of `pkg/registry/resource/resourceslice`, Kubernetes 1.37.
"""

import re
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from dradriver.model.resource.device import Capacity, Device
from dradriver.model.resource.pool import Pool
from dradriver.model.resource.slices import PoolReference, ResourceSliceSpec

__all__ = [
    "DroppedField",
    "dropped_fields",
    "fields_of",
    "gated_fields",
    "guarding_fields",
    "keeps_claims_away",
    "refused_fields",
    "safe_part",
]


@dataclass(frozen=True, slots=True, order=True)
class DroppedField:
    """A field of a slice that the server does not store.

    Attributes:
        field: the path of the field in a slice's spec, such as `devices[].taints`.
        gate: the feature gate of the API server that is probably off.
    """

    field: str
    gate: str

    def __str__(self) -> str:
        return f"{self.field} ({self.gate})"


@dataclass(frozen=True, slots=True)
class _Gated:
    """A field behind a gate.

    Attributes:
        name: the path of the field.
        uses: returns how often a spec uses the field.
        is_guard: whether a device is unsafe without the field.
        refused_at: pattern of the paths at which validation fails if the server dropped the field, or if an
            older server has different rules. Default: matches no path.
    """

    name: DroppedField
    uses: Callable[[ResourceSliceSpec], int]
    is_guard: bool = False
    refused_at: str = r"(?!)"


def _each(uses: Callable[[Device], int]) -> Callable[[ResourceSliceSpec], int]:
    return lambda spec: sum(uses(device) for device in spec.devices)


SHARED_COUNTERS: Final = DroppedField("sharedCounters", "DRAPartitionableDevices")
PER_DEVICE_NODES: Final = DroppedField("perDeviceNodeSelection", "DRAPartitionableDevices")
CONSUMES_COUNTERS: Final = DroppedField("devices[].consumesCounters", "DRAPartitionableDevices")
GROUPS: Final = DroppedField("devices[].consumesCounters[].compatibilityGroups", "DRADeviceCompatibilityGroups")
BINDING: Final = DroppedField("devices[].bindingConditions", "DRADeviceBindingConditions")
BINDS_TO_NODE: Final = DroppedField("devices[].bindsToNode", "DRADeviceBindingConditions")
TAINTS: Final = DroppedField("devices[].taints", "DRADeviceTaints")
MULTIPLE: Final = DroppedField("devices[].allowMultipleAllocations", "DRAConsumableCapacity")
REQUEST_POLICY: Final = DroppedField("devices[].capacity[].requestPolicy", "DRAConsumableCapacity")
LISTS: Final = DroppedField("devices[].attributes[] of a list type", "DRAListTypeAttributes")

_GATED: Final = (
    _Gated(
        SHARED_COUNTERS,
        lambda spec: len(spec.shared_counters),
        is_guard=True,
        refused_at=r"spec\.sharedCounters",
    ),
    _Gated(
        PER_DEVICE_NODES,
        lambda spec: 1 if spec.per_device_node_selection else 0,
        is_guard=True,
        refused_at=r"spec$",
    ),
    _Gated(
        CONSUMES_COUNTERS,
        _each(lambda device: len(device.consumes_counters)),
        is_guard=True,
        refused_at=r"spec\.devices\[\d+\](\.basic)?\.consumesCounters",
    ),
    _Gated(
        GROUPS,
        _each(lambda device: sum(len(c.compatibility_groups) for c in device.consumes_counters)),
        is_guard=True,
    ),
    _Gated(
        BINDING,
        _each(lambda device: len(device.binding_conditions) + len(device.binding_failure_conditions)),
        is_guard=True,
    ),
    _Gated(BINDS_TO_NODE, _each(lambda device: device.binds_to_node is not None)),
    _Gated(TAINTS, _each(lambda device: len(device.taints))),
    _Gated(MULTIPLE, _each(lambda device: device.allow_multiple_allocations is not None)),
    _Gated(
        REQUEST_POLICY,
        _each(lambda device: sum(c.request_policy is not None for c in device.capacity.values())),
    ),
    _Gated(
        LISTS,
        _each(lambda device: sum(attribute.is_list for attribute in device.attributes.values())),
        refused_at=r"spec\.devices\[\d+\](\.basic)?\.attributes\[",
    ),
)


def gated_fields(spec: ResourceSliceSpec) -> frozenset[DroppedField]:
    """Return the fields behind gates that a spec uses."""
    return frozenset(gated.name for gated in _GATED if gated.uses(spec))


def fields_of(pool: Pool) -> frozenset[DroppedField]:
    """Return the fields behind gates that any slice of a pool uses."""
    spec = ResourceSliceSpec(
        driver="",
        pool=PoolReference(name=pool.name, generation=0, resource_slice_count=0),
        per_device_node_selection=pool.per_device_node_selection or None,
        devices=list(pool.devices),
        shared_counters=list(pool.counter_sets),
    )
    return gated_fields(spec)


def dropped_fields(sent: ResourceSliceSpec, stored: ResourceSliceSpec) -> frozenset[DroppedField]:
    """Return the fields that were sent but not stored.

    If the server drops the consumption of counters, the compatibility groups in the consumption are gone too.
    In this case it stays unknown whether the server would drop compatibility groups alone, so they are not in
    the result.
    """
    missing = {gated.name for gated in _GATED if gated.uses(sent) > gated.uses(stored)}
    return frozenset(missing - {GROUPS} if CONSUMES_COUNTERS in missing else missing)


def refused_fields(sent: ResourceSliceSpec, refused: Iterable[str]) -> frozenset[DroppedField]:
    """Return the fields whose gates explain a rejection: if the server dropped them, the rest became invalid.

    Args:
        sent: the rejected spec. It must be valid by the rules of Kubernetes 1.37.
        refused: the paths in the server's error.
    """
    paths = list(refused)
    return frozenset(
        gated.name
        for gated in _GATED
        if gated.uses(sent) and any(re.match(gated.refused_at, path) for path in paths)
    )


def guarding_fields(dropped: Iterable[DroppedField]) -> frozenset[DroppedField]:
    """Return the dropped fields that make the pool unsafe, so that a fallback may be better.

    Taints are not among them. If taints are dropped, a device with a taint is omitted, and no fallback is
    needed.
    """
    return frozenset(gated.name for gated in _GATED if gated.is_guard).intersection(dropped)


def safe_part(pool: Pool, dropped: AbstractSet[DroppedField]) -> Pool | None:
    """Return the part of a pool that may be published while the server drops `dropped`; None if there is none.

    Unsafe devices are omitted. Harmless dropped fields are removed from the other devices. Otherwise the sent
    slice would differ from the stored slice and would be written again at each attempt.
    """
    if PER_DEVICE_NODES in dropped and pool.per_device_node_selection:
        return None
    no_counters = bool(dropped & {SHARED_COUNTERS, CONSUMES_COUNTERS})
    devices = [
        _strip(device, dropped) for device in pool.devices if _is_safe(device, dropped, no_counters=no_counters)
    ]
    return replace(pool, devices=tuple(devices), counter_sets=() if no_counters else pool.counter_sets)


def keeps_claims_away(device: Device) -> bool:
    """Return whether a taint of the device keeps claims away."""
    return any(taint.effect != "None" for taint in device.taints)


def _is_safe(device: Device, dropped: AbstractSet[DroppedField], *, no_counters: bool) -> bool:
    if no_counters and device.consumes_counters:
        return False
    if TAINTS in dropped and keeps_claims_away(device):
        return False
    if GROUPS in dropped and any(c.compatibility_groups for c in device.consumes_counters):
        return False
    return not (BINDING in dropped and (device.binding_conditions or device.binding_failure_conditions))


def _strip(device: Device, dropped: AbstractSet[DroppedField]) -> Device:
    changes: dict[str, object] = {}
    if TAINTS in dropped and device.taints:
        changes["taints"] = []
    if BINDS_TO_NODE in dropped and device.binds_to_node is not None:
        changes["binds_to_node"] = None
    if MULTIPLE in dropped and device.allow_multiple_allocations is not None:
        changes["allow_multiple_allocations"] = None
    if REQUEST_POLICY in dropped and any(c.request_policy for c in device.capacity.values()):
        changes["capacity"] = {name: Capacity(c.value) for name, c in device.capacity.items()}
    if LISTS in dropped and any(attribute.is_list for attribute in device.attributes.values()):
        changes["attributes"] = {name: a for name, a in device.attributes.items() if not a.is_list}
    return replace(device, **changes) if changes else device
