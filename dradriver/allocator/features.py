"""The optional behaviors of Kubernetes' allocator, as feature gates."""

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
    """The allocator's feature gates. The default values are the defaults of Kubernetes 1.37.

    There is one search for all combinations. It reads these values.

    Attributes:
        admin_access: requests may ask for devices that are in use (DRAAdminAccess).
        binding_conditions: devices with binding conditions may be allocated (DRADeviceBindingConditions).
        compatibility_groups: KEP-5963 is enforced. Off: if a device of a slice has a compatibility group, the
            whole slice is ignored, so its pool is unusable (DRADeviceCompatibilityGroups).
        consumable_capacity: a device that allows multiple allocations can be allocated to several claims, and
            each claim consumes a part of its capacities (DRAConsumableCapacity, KEP-5075). Off: the device can
            be allocated to one claim only.
        derived_attributes: requests may compute attributes for their constraints (DRADerivedAttributes).
        device_taints: a request does not get a device with a taint that it does not tolerate (DRADeviceTaints).
        extended_resources: devices serve extended resources of pods (DRAExtendedResource, KEP-5004). The search
            itself does not read this field.
        fractional_capacity_range: the steps of a capacity's valid range may be smaller than one
            (DRAFractionalCapacityRange).
        list_type_attributes: constraints compare list-typed attributes as sets. Off: such an attribute counts
            as absent (DRAListTypeAttributes).
        optional_node_operations: a device may be allocated even if its slice tells the kubelet to skip
            operations, but only on nodes that declare the feature (DRAOptionalNodeOperations).
        partitionable_devices: devices may consume counters or select their own nodes (DRAPartitionableDevices,
            KEP-4815). Off: such a device is not allocated.
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
        """Return the features for these feature gates. A gate that is missing in `gates` has its default value.

        Args:
            gates: for each Kubernetes feature gate by name, whether it is on. Gates that the allocator does not
                know are ignored.
        """
        return cls(**{_GATES[gate]: on for gate, on in gates.items() if gate in _GATES})

    def disabled_gates(self) -> list[str]:
        """Return the names of the Kubernetes gates that are off, sorted."""
        return [gate for gate, name in _GATES.items() if not getattr(self, name)]

    def gate(self, feature: str) -> str:
        """Return the name of the Kubernetes gate that controls a feature.

        Args:
            feature: the name of an attribute of this class.
        """
        assert feature in {field.name for field in fields(self)}  # noqa: S101 - a slip of this package
        return next(gate for gate, name in _GATES.items() if name == feature)
