"""Drops fields whose feature gate is off when an object is written, unless the stored object already uses them.

Each row defines the fields that a gate guards, and the objects of a spec that contain these fields. If a gate
is off, all its fields are dropped. If any of them is in use, none is dropped. Kubernetes has the same rule.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from dradriver.cluster.apiserver.formats.values import Object, dig
from dradriver.cluster.apiserver.kinds.gates import FeatureGates

Owners = Callable[[Object], Iterable[Object]]


@dataclass(frozen=True, slots=True)
class Guard:
    """The fields that a gate guards.

    Attributes:
        gates: the gates, which must all be on for the fields to be kept.
        guarded: pairs of a function and field names. The function returns the objects that contain the fields.
    """

    gates: tuple[str, ...]
    guarded: tuple[tuple[Owners, tuple[str, ...]], ...]

    def in_use(self, spec: Object | None) -> bool:
        """Return whether any guarded field is set. An empty list does not count."""
        if spec is None:
            return False
        return any(
            owner.get(field) not in (None, [], {})
            for owners, fields in self.guarded
            for owner in owners(spec)
            for field in fields
        )

    def apply(self, new: Object, old: Object | None, gates: FeatureGates) -> None:
        """Drop the fields from `new` if the gates are off and `old` does not use them."""
        if all(gates.enabled(gate) for gate in self.gates) or self.in_use(old):
            return
        for owners, fields in self.guarded:
            for owner in owners(new):
                for field in fields:
                    owner.pop(field, None)


def _spec_itself(spec: Object) -> Iterable[Object]:
    return (spec,)


def _devices(spec: Object) -> Iterable[Object]:
    return spec.get("devices") or ()


def _consumptions(spec: Object) -> Iterable[Object]:
    return (each for device in _devices(spec) for each in device.get("consumesCounters") or ())


def _capacities(spec: Object) -> Iterable[Object]:
    return (each for device in _devices(spec) for each in (device.get("capacity") or {}).values())


def _attributes(spec: Object) -> Iterable[Object]:
    return (each for device in _devices(spec) for each in (device.get("attributes") or {}).values())


def _requests(spec: Object) -> Iterable[Object]:
    return dig(spec, "devices", "requests") or ()


def _exact(spec: Object) -> Iterable[Object]:
    return (request["exactly"] for request in _requests(spec) if request.get("exactly") is not None)


def _all_requests(spec: Object) -> Iterable[Object]:
    yield from _exact(spec)
    for request in _requests(spec):
        yield from request.get("firstAvailable") or ()


def _constraints(spec: Object) -> Iterable[Object]:
    return dig(spec, "devices", "constraints") or ()


def _results(status: Object) -> Iterable[Object]:
    return dig(status, "allocation", "devices", "results") or ()


_BINDING = ("DRADeviceBindingConditions", "DRAResourceClaimDeviceStatus")
_SLICE = (
    Guard(("DRADeviceTaints",), ((_devices, ("taints",)),)),
    Guard(
        ("DRAPartitionableDevices",),
        ((_spec_itself, ("sharedCounters", "perDeviceNodeSelection")),
         (_devices, ("consumesCounters", "nodeName", "nodeSelector", "allNodes"))),
    ),
    Guard(_BINDING, ((_devices, ("bindingConditions", "bindingFailureConditions", "bindsToNode")),)),
    Guard(
        ("DRAConsumableCapacity",),
        ((_devices, ("allowMultipleAllocations",)), (_capacities, ("requestPolicy",))),
    ),
    Guard(("DRADeviceCompatibilityGroups",), ((_consumptions, ("compatibilityGroups",)),)),
    Guard(("DRANodeAllocatableResources",), ((_devices, ("nodeAllocatableResources",)),)),
    Guard(("DRAListTypeAttributes",), ((_attributes, ("bools", "ints", "strings", "versions")),)),
    Guard(("DRAPartitionableDevicesType",), ((_spec_itself, ("partitionTypeAttribute",)),)),
    Guard(("DRAOptionalNodeOperations",), ((_spec_itself, ("skipNodeOperations",)),)),
)  # fmt: skip
_CLAIM = (
    Guard(("DRAPrioritizedList",), ((_requests, ("firstAvailable",)),)),
    Guard(("DRADeviceTaints",), ((_all_requests, ("tolerations",)),)),
    Guard(("DRAAdminAccess",), ((_exact, ("adminAccess",)),)),
    Guard(("DRAConsumableCapacity",), ((_constraints, ("distinctAttribute",)), (_all_requests, ("capacity",)))),
    Guard(("DRADerivedAttributes",), ((_all_requests, ("derivedAttributes",)),)),
)
_DEVICE_STATUS = Guard(("DRAResourceClaimDeviceStatus",), ((_spec_itself, ("devices",)),))
_ADMIN_STATUS = Guard(("DRAAdminAccess",), ((_results, ("adminAccess",)),))


def _device_entries(status: Object) -> Iterable[Object]:
    return status.get("devices") or ()


_CAPACITY_STATUS = Guard(
    ("DRAConsumableCapacity",), ((_results, ("shareID", "consumedCapacity")), (_device_entries, ("shareID",)))
)
_STATUS = (
    Guard(_BINDING, ((_results, ("bindingConditions", "bindingFailureConditions")),)),
    Guard(("DRAOptionalNodeOperations",), ((_results, ("skipNodeOperations",)),)),
    # This field is from KEP-5963, and Kubernetes 1.37 does not serve it. For each counter set, it has the
    # groups that were active when a device was allocated.
    Guard(("DRADeviceCompatibilityGroups",), ((_results, ("compatibilityGroups",)),)),
)
_CLASS = Guard(("DRAExtendedResource",), ((_spec_itself, ("extendedResourceName",)),))


def drop_slice_fields(spec: Object, old: Object | None, gates: FeatureGates) -> None:
    """Drop a slice's gated fields."""
    for guard in _SLICE:
        guard.apply(spec, old, gates)


def drop_claim_fields(spec: Object, old: Object | None, gates: FeatureGates) -> None:
    """Drop a claim's gated fields."""
    for guard in _CLAIM:
        guard.apply(spec, old, gates)


def drop_status_fields(new: Object, old: Object, gates: FeatureGates) -> None:
    """Drop the gated fields of a claim's status.

    If the claim's spec uses a feature, the feature counts as in use.
    """
    status, before, spec = new.get("status") or {}, old.get("status") or {}, old.get("spec") or {}
    _DEVICE_STATUS.apply(status, before, gates)
    if not any(guard.in_use(spec) for guard in _CLAIM if guard.gates == ("DRAAdminAccess",)):
        _ADMIN_STATUS.apply(status, before, gates)
    if not any(guard.in_use(spec) for guard in _CLAIM if guard.gates == ("DRAConsumableCapacity",)):
        _CAPACITY_STATUS.apply(status, before, gates)
    for guard in _STATUS:
        guard.apply(status, before, gates)


def drop_class_fields(spec: Object, old: Object | None, gates: FeatureGates) -> None:
    """Drop a class's gated fields."""
    _CLASS.apply(spec, old, gates)
