"""What users may ask of a device: opaque parameters of claims and device classes.

API version, kinds and names of the fields are those of NVIDIA's own driver, so that claims written for it work;
`computeMode` is an addition.
"""

from typing import Annotated, Literal

import msgspec

import dradriver as dra

__all__ = ["GpuConfig", "GpuSharing", "MigDeviceConfig", "MigSharing", "MpsConfig", "TimeSlicingConfig"]

API_VERSION = "resource.nvidia.com/v1beta1"


class TimeSlicingConfig(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How long a process runs before the next one's turn."""

    interval: Literal["Default", "Short", "Medium", "Long"] = "Default"


class MpsConfig(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What each client of MPS gets of the device at most.

    Attributes:
        default_active_thread_percentage: of the device's threads.
        default_pinned_device_memory_limit: of the device's memory, as a quantity: `10Gi`.
    """

    default_active_thread_percentage: Annotated[int, msgspec.Meta(ge=1, le=100)] | None = None
    default_pinned_device_memory_limit: str | None = None

    def __post_init__(self) -> None:
        if self.default_pinned_device_memory_limit is not None:
            dra.Quantity(self.default_pinned_device_memory_limit)


class GpuSharing(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How the processes of a claim share a GPU."""

    strategy: Literal["TimeSlicing", "MPS"]
    time_slicing_config: TimeSlicingConfig | None = None
    mps_config: MpsConfig | None = None

    def __post_init__(self) -> None:
        if self.strategy == "MPS" and self.time_slicing_config is not None:
            raise ValueError("timeSlicingConfig is not for the strategy MPS")
        if self.strategy == "TimeSlicing" and self.mps_config is not None:
            raise ValueError("mpsConfig is not for the strategy TimeSlicing")


class MigSharing(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How the processes of a claim share a MIG device, whose time slices can't be set."""

    strategy: Literal["TimeSlicing", "MPS"]
    mps_config: MpsConfig | None = None

    def __post_init__(self) -> None:
        if self.strategy == "TimeSlicing" and self.mps_config is not None:
            raise ValueError("mpsConfig is not for the strategy TimeSlicing")


class GpuConfig(dra.Config):
    """For whole GPUs."""

    api_version = API_VERSION
    kind = "GpuConfig"
    sharing: GpuSharing | None = None
    compute_mode: Literal["Default", "ExclusiveProcess", "Prohibited"] | None = None


class MigDeviceConfig(dra.Config):
    """For MIG devices."""

    api_version = API_VERSION
    kind = "MigDeviceConfig"
    sharing: MigSharing | None = None
