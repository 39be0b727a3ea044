"""The optional behaviors of Kubernetes' allocator that can be switched on or off."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Final, Self

__all__ = ["Features"]

_GATES: Final[Mapping[str, str]] = {
    "DRAAdminAccess": "admin_access",
    "DRAConsumableCapacity": "consumable_capacity",
    "DRADerivedAttributes": "derived_attributes",
    "DRADeviceBindingConditions": "binding_conditions",
    "DRADeviceCompatibilityGroups": "compatibility_groups",
    "DRADeviceTaints": "device_taints",
    "DRAExtendedResource": "extended_resources",
    "DRAFractionalCapacityRange": "fractional_capacity_range",
    "DRAListTypeAttributes": "list_type_attributes",
    "DRAOptionalNodeOperations": "optional_node_operations",
    "DRAPartitionableDevices": "partitionable_devices",
    "DRAPrioritizedList": "prioritized_list",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """The allocator's feature gates; the defaults are those of Kubernetes 1.37.

    One search reads these values. There are no variants of the search.

    Attributes:
        admin_access: requests may ask for devices that are in use (DRAAdminAccess).
        binding_conditions: devices with binding conditions may be allocated (DRADeviceBindingConditions).
        compatibility_groups: KEP-5963 is enforced. Off: a slice that has any group is ignored completely, so
            its pool is incomplete (DRADeviceCompatibilityGroups).
        consumable_capacity: devices that allow it are allocated to several claims, and each claim consumes a
            part of their capacities (DRAConsumableCapacity, KEP-5075). Off: such a device is allocated to one
            claim.
        derived_attributes: requests may compute attributes for their constraints (DRADerivedAttributes).
        device_taints: taints keep claims away (DRADeviceTaints).
        extended_resources: devices serve extended resources of pods (DRAExtendedResource, KEP-5004). The search
            itself does not read this field.
        fractional_capacity_range: the steps of a capacity's valid range may be smaller than one
            (DRAFractionalCapacityRange).
        list_type_attributes: constraints compare list-typed attributes as sets. Off: such an attribute counts
            as absent (DRAListTypeAttributes).
        optional_node_operations: devices whose slice skips operations of the kubelet may be allocated, on nodes
            that declare the feature (DRAOptionalNodeOperations).
        partitionable_devices: KEP-4815. Off: a device that consumes counters or selects its own nodes is not
            allocated (DRAPartitionableDevices).
        prioritized_list: requests may use `firstAvailable` (DRAPrioritizedList).
    """

    admin_access: bool = True
    binding_conditions: bool = True
    compatibility_groups: bool = False
    consumable_capacity: bool = True
    derived_attributes: bool = False
    device_taints: bool = True
    extended_resources: bool = True
    fractional_capacity_range: bool = True
    list_type_attributes: bool = False
    optional_node_operations: bool = False
    partitionable_devices: bool = True
    prioritized_list: bool = True

    @classmethod
    def of_gates(cls, gates: Mapping[str, bool]) -> Self:
        """Return the features for these feature gates. Gates of other components are ignored."""
        return cls(**{_GATES[gate]: on for gate, on in gates.items() if gate in _GATES})

    def gate(self, feature: str) -> str:
        """Return the Kubernetes gate of one of the attributes."""
        assert feature in {field.name for field in fields(self)}  # noqa: S101 - a slip of this package
        return next(gate for gate, name in _GATES.items() if name == feature)
