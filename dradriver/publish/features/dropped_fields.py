"""Fields that the API server drops because a feature gate is off, and what may be published without them.

A server that drops a field stores the rest without an error. For some fields that is harmless. Without others a
device is unsafe: a partition without its counters looks like an independent device, and a device without the
taint that keeps claims away looks healthy. Such devices are omitted (KEP-4815 Rollback, KEP-5963, KEP-5007:
fail closed).

Source: `dropDisabledFields` of `pkg/registry/resource/resourceslice`, Kubernetes 1.37.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from dradriver.model.resource.device import Attribute, Capacity, Device
from dradriver.model.resource.pool import Pool
from dradriver.model.resource.slices import PoolReference, ResourceSliceSpec

__all__ = [
    "DroppedField",
    "dropped_fields",
    "fields_of",
    "gated_fields",
    "keeps_claims_away",
    "refused_fields",
    "safe_part",
    "unsafe",
]


@dataclass(frozen=True, slots=True, order=True)
class DroppedField:
    """A field of a slice that the server does not store.

    Attributes:
        field: its path in a slice's spec, `devices[].taints`.
        gate: the feature gate of the API server that is probably off.
    """

    field: str
    gate: str

    def __str__(self) -> str:
        return f"{self.field} ({self.gate})"


@dataclass(frozen=True, slots=True)
class _Gated:
    """A field behind a gate: how often a spec uses it, and the paths that are rejected if half is dropped."""

    name: DroppedField
    uses: Callable[[ResourceSliceSpec], int]
    guards: bool = False
    refused_at: str = r"(?!)"
    """Validation fails at such a path if the field was dropped, or if an older server has other rules."""


def _each(uses: Callable[[Device], int]) -> Callable[[ResourceSliceSpec], int]:
    return lambda spec: sum(uses(device) for device in spec.devices)


def _lists(attribute: Attribute) -> bool:
    return any(
        items is not None for items in (attribute.ints, attribute.bools, attribute.strings, attribute.versions)
    )


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
        SHARED_COUNTERS, lambda spec: len(spec.shared_counters), guards=True, refused_at=r"spec\.sharedCounters"
    ),
    _Gated(
        PER_DEVICE_NODES,
        lambda spec: 1 if spec.per_device_node_selection else 0,
        guards=True,
        refused_at=r"spec$",
    ),
    _Gated(
        CONSUMES_COUNTERS,
        _each(lambda device: len(device.consumes_counters)),
        guards=True,
        refused_at=r"spec\.devices\[\d+\](\.basic)?\.consumesCounters",
    ),
    _Gated(
        GROUPS,
        _each(lambda device: sum(len(c.compatibility_groups) for c in device.consumes_counters)),
        guards=True,
    ),
    _Gated(
        BINDING,
        _each(lambda device: len(device.binding_conditions) + len(device.binding_failure_conditions)),
        guards=True,
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
        _each(lambda device: sum(map(_lists, device.attributes.values()))),
        refused_at=r"spec\.devices\[\d+\](\.basic)?\.attributes\[",
    ),
)


def gated_fields(spec: ResourceSliceSpec) -> frozenset[DroppedField]:
    """Return the fields behind gates that a spec uses."""
    return frozenset(gated.name for gated in _GATED if gated.uses(spec))


def fields_of(pool: Pool) -> frozenset[DroppedField]:
    """Return the fields behind gates that a pool uses, in any slice."""
    whole = ResourceSliceSpec(
        driver="",
        pool=PoolReference(name=pool.name, generation=0, resource_slice_count=0),
        per_device_node_selection=pool.per_device_node_selection or None,
        devices=list(pool.devices),
        shared_counters=list(pool.counter_sets),
    )
    return gated_fields(whole)


def dropped_fields(sent: ResourceSliceSpec, stored: ResourceSliceSpec) -> frozenset[DroppedField]:
    """Return the fields that were sent and not stored.

    Dropped counter consumptions take their compatibility groups along. That does not show whether groups are
    dropped.
    """
    found = {gated.name for gated in _GATED if gated.uses(sent) > gated.uses(stored)}
    return frozenset(found - {GROUPS} if CONSUMES_COUNTERS in found else found)


def refused_fields(sent: ResourceSliceSpec, refused: Iterable[str]) -> frozenset[DroppedField]:
    """Return the fields behind gates that explain a rejection: without the gate the remaining spec is invalid.

    Args:
        sent: the rejected spec. It keeps all rules of Kubernetes 1.37.
        refused: the paths in the server's error.
    """
    paths = list(refused)
    return frozenset(
        gated.name
        for gated in _GATED
        if gated.uses(sent) and any(re.match(gated.refused_at, path) for path in paths)
    )


def unsafe(dropped: Iterable[DroppedField]) -> frozenset[DroppedField]:
    """Return the dropped fields that make the pool's layout unsafe, so that another layout may be better.

    Taints are not among them: the device is omitted while it has one, and the layout stays.
    """
    guarding = {gated.name for gated in _GATED if gated.guards}
    return frozenset(field for field in dropped if field in guarding)


def safe_part(pool: Pool, dropped: Iterable[DroppedField]) -> Pool | None:
    """Return the part of a pool that may be published while those fields are dropped; None if there is none.

    Unsafe devices are omitted. Harmless dropped fields are removed from the others, so that the sent slice
    equals the stored one and is not written again and again.
    """
    without = frozenset(dropped)
    if PER_DEVICE_NODES in without and pool.per_device_node_selection:
        return None
    no_counters = bool(without & {SHARED_COUNTERS, CONSUMES_COUNTERS})
    devices = [
        _stripped(device, without)
        for device in pool.devices
        if _is_safe(device, without, no_counters=no_counters)
    ]
    return replace(pool, devices=tuple(devices), counter_sets=() if no_counters else pool.counter_sets)


def keeps_claims_away(device: Device) -> bool:
    """Return whether a taint of the device keeps claims away."""
    return any(taint.effect != "None" for taint in device.taints)


def _is_safe(device: Device, without: frozenset[DroppedField], *, no_counters: bool) -> bool:
    if no_counters and device.consumes_counters:
        return False
    if TAINTS in without and keeps_claims_away(device):
        return False
    if GROUPS in without and any(c.compatibility_groups for c in device.consumes_counters):
        return False
    return not (BINDING in without and (device.binding_conditions or device.binding_failure_conditions))


def _stripped(device: Device, without: frozenset[DroppedField]) -> Device:
    changes: dict[str, object] = {}
    if TAINTS in without and device.taints:
        changes["taints"] = []
    if BINDS_TO_NODE in without and device.binds_to_node is not None:
        changes["binds_to_node"] = None
    if MULTIPLE in without and device.allow_multiple_allocations is not None:
        changes["allow_multiple_allocations"] = None
    if REQUEST_POLICY in without and any(c.request_policy for c in device.capacity.values()):
        changes["capacity"] = {name: Capacity(c.value) for name, c in device.capacity.items()}
    if LISTS in without and any(map(_lists, device.attributes.values())):
        changes["attributes"] = {n: a for n, a in device.attributes.items() if not _lists(a)}
    return replace(device, **changes) if changes else device
