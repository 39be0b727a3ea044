"""Opaque parameters of claims and device classes.

The API version, kinds and field names are those of NVIDIA's own driver, so claims that were written for
NVIDIA's driver also work with this driver. `computeMode` is an additional field of this driver.
"""

from collections.abc import Mapping
from typing import Annotated, Final, Literal

import msgspec

import dradriver as dra

__all__ = [
    "GpuConfig",
    "GpuSharing",
    "IommuConfig",
    "MigDeviceConfig",
    "MigSharing",
    "MpsConfig",
    "TimeSlicingConfig",
    "VfioDeviceConfig",
]

API_VERSION = "resource.nvidia.com/v1beta1"

_MIB: Final = 1 << 20


class TimeSlicingConfig(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Length of the time slice after which the next process runs."""

    interval: Literal["Default", "Short", "Medium", "Long"] = "Default"


class MpsConfig(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The MPS control daemon of a claim, and upper limits for each of its clients.

    Attributes:
        default_active_thread_percentage: percentage of the device's threads, 1 to 100.
        default_pinned_device_memory_limit: memory of each device as a quantity, for example `10Gi`; at least
            `1Mi`, because MPS counts in MiB.
        default_per_device_pinned_memory_limit: the same for single devices, by UUID or by index among the
            devices of the claim that have this configuration.
        multi_user: whether clients with different user IDs run at the same time; otherwise, those of the next
            user wait until those of the last one have ended.
    """

    default_active_thread_percentage: Annotated[int, msgspec.Meta(ge=1, le=100)] | None = None
    default_pinned_device_memory_limit: str | int | None = None
    default_per_device_pinned_memory_limit: Mapping[str, str | int] | None = None
    multi_user: bool | None = None

    def __post_init__(self) -> None:
        limit = self.default_pinned_device_memory_limit
        if limit is not None and int(dra.Quantity(limit)) < _MIB:
            raise ValueError("defaultPinnedDeviceMemoryLimit: must be at least 1Mi")
        for key, limit in (self.default_per_device_pinned_memory_limit or {}).items():
            if int(dra.Quantity(limit)) < _MIB:
                raise ValueError(f"defaultPerDevicePinnedMemoryLimit: {key}: must be at least 1Mi")


class GpuSharing(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How the processes of a claim share a whole GPU."""

    strategy: Literal["TimeSlicing", "MPS"]
    time_slicing_config: TimeSlicingConfig | None = None
    mps_config: MpsConfig | None = None

    def __post_init__(self) -> None:
        if self.strategy == "MPS" and self.time_slicing_config is not None:
            raise ValueError("timeSlicingConfig: must not be set with the strategy MPS")
        if self.strategy == "TimeSlicing" and self.mps_config is not None:
            raise ValueError("mpsConfig: must not be set with the strategy TimeSlicing")


class MigSharing(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How the processes of a claim share a MIG device. The time slice of a MIG device cannot be set."""

    strategy: Literal["TimeSlicing", "MPS"]
    mps_config: MpsConfig | None = None

    def __post_init__(self) -> None:
        if self.strategy == "TimeSlicing" and self.mps_config is not None:
            raise ValueError("mpsConfig: must not be set with the strategy TimeSlicing")


class GpuConfig(dra.Config):
    """Configuration of a whole GPU."""

    api_version = API_VERSION
    kind = "GpuConfig"
    sharing: GpuSharing | None = None
    compute_mode: Literal["Default", "ExclusiveProcess", "Prohibited"] | None = None

    def __post_init__(self) -> None:
        if self.compute_mode == "Prohibited" and self.sharing is not None and self.sharing.strategy == "MPS":
            raise ValueError("computeMode: must not be Prohibited with the strategy MPS")


class MigDeviceConfig(dra.Config):
    """Configuration of a MIG device."""

    api_version = API_VERSION
    kind = "MigDeviceConfig"
    sharing: MigSharing | None = None


class IommuConfig(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    rename={"backend_policy": "backendPolicy", "enable_api_device": "enableAPIDevice"},
):
    """Interface through which a virtual machine monitor uses a GPU.

    Attributes:
        backend_policy: `LegacyOnly`: the GPU's IOMMU group; `PreferIommuFD`: `/dev/iommu`, if the node has it.
        enable_api_device: whether the container also gets `/dev/vfio/vfio` or `/dev/iommu`.
    """

    backend_policy: Literal["LegacyOnly", "PreferIommuFD"] = "LegacyOnly"
    enable_api_device: bool = False


class VfioDeviceConfig(dra.Config):
    """Configuration of a GPU that is passed to a virtual machine."""

    api_version = API_VERSION
    kind = "VfioDeviceConfig"
    iommu: IommuConfig = IommuConfig()
