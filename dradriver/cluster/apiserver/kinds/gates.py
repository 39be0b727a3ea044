"""Feature gates: their defaults in Kubernetes 1.37, and the settings of a user.

If a gate is off, the server drops the fields that the gate guards, unless the stored object already uses these
fields. Users can change gates that Kubernetes 1.37 locks, to imitate older and newer clusters. Only
`DynamicResourceAllocation` cannot be changed, because the embedded cluster does not work without it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from dradriver.errors import UsageError

DEFAULTS: Mapping[str, bool] = {
    "DynamicResourceAllocation": True,
    "DRAAdminAccess": True,
    "DRAConsumableCapacity": True,
    "DRADerivedAttributes": False,
    "DRADeviceBindingConditions": True,
    "DRADeviceCompatibilityGroups": False,
    "DRADeviceTaintRules": True,
    "DRADeviceTaints": True,
    "DRAExtendedResource": True,
    "DRAFractionalCapacityRange": True,
    "DRAListTypeAttributes": False,
    "DRANodeAllocatableResources": False,
    "DRAOptionalNodeOperations": False,
    "DRAPartitionableDevices": True,
    "DRAPartitionableDevicesType": False,
    "DRAPrioritizedList": True,
    "DRAResourceClaimDeviceStatus": True,
    "DRAResourceClaimGranularStatusAuthorization": True,
    "DRAResourcePoolStatus": False,
}
REQUIRES: Mapping[str, tuple[str, ...]] = {
    "DRADeviceBindingConditions": ("DRAResourceClaimDeviceStatus",),
    "DRADeviceCompatibilityGroups": ("DRAPartitionableDevices",),
    "DRADeviceTaintRules": ("DRADeviceTaints",),
    "DRAFractionalCapacityRange": ("DRAConsumableCapacity",),
    "DRAPartitionableDevicesType": ("DRAPartitionableDevices", "DRAResourcePoolStatus"),
    "DRAResourceClaimGranularStatusAuthorization": ("DRAResourceClaimDeviceStatus",),
}
ALWAYS_ON: Final = "DynamicResourceAllocation"
_BOOLEANS = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class FeatureGates:
    """The state of all feature gates.

    Attributes:
        settings: the gates that were set; all others have their defaults. A gate that is set to off also turns
            off the gates that require it, unless they were set to on.
    """

    settings: Mapping[str, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for gate in self.settings:
            if gate not in DEFAULTS:
                raise UsageError(
                    f"feature gate {gate!r} is unknown; known gates: {', '.join(sorted(DEFAULTS))}"
                )
        if not self.settings.get(ALWAYS_ON, True):
            raise UsageError(
                f"feature gate {ALWAYS_ON} is always on: Kubernetes 1.37 locks it, it can't be set to false"
            )
        for gate, needs in REQUIRES.items():
            missing = [need for need in needs if not self.enabled(need)]
            if self.settings.get(gate) and missing:
                raise UsageError(f"feature gate {gate} is on but needs {', '.join(missing)}, which is off")

    @classmethod
    def parse(cls, text: str) -> "FeatureGates":
        """Parse the value of a `--feature-gates` option.

        Args:
            text: pairs `NAME=true` or `NAME=false`, separated by commas; empty for the defaults.

        Returns:
            All gates, with the given settings.

        Raises:
            UsageError: a gate is unknown, has no value, requires another gate that is off, or is always on.
        """
        settings: dict[str, bool] = {}
        for entry in filter(None, (part.strip() for part in text.split(","))):
            gate, equals, value = entry.partition("=")
            if not equals or value.lower() not in _BOOLEANS:
                raise UsageError(f"feature gate {entry!r}: write NAME=true or NAME=false")
            settings[gate] = _BOOLEANS[value.lower()]
        return cls(settings)

    def enabled(self, gate: str) -> bool:
        """Return whether a gate is on.

        Args:
            gate: the name of a known gate.
        """
        if gate in self.settings:
            return self.settings[gate]
        return DEFAULTS[gate] and all(self.enabled(need) for need in REQUIRES.get(gate, ()))

    def resolved(self) -> Mapping[str, bool]:
        """Return the state of every gate, for components that know neither defaults nor requirements."""
        return {gate: self.enabled(gate) for gate in DEFAULTS}
