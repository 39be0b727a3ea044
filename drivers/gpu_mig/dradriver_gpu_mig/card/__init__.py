"""The cards of a node: what they are, what they are divided into, and what becomes of them.

Law of this package: hardware's words only. It knows GPUs, profiles, placements, instances and events, and
nothing of claims, pools or Kubernetes. `hardware.Hardware` is the one door; behind it stand NVML (`nvml`) and
a simulator (`simulator`) that obeys the same rules, and one contract suite holds both to them. Whatever blocks
runs on threads of `Cards`.
"""

from dradriver_gpu_mig.card.cards import Cards
from dradriver_gpu_mig.card.errors import (
    CardError,
    DriverNotLoadedError,
    FunctionNotFoundError,
    GpuLostError,
    GpuNotFoundError,
    InstanceNotFoundError,
    InsufficientResourcesError,
    InUseError,
    InvalidArgumentError,
    LibraryNotFoundError,
    NoPermissionError,
    NotSupportedError,
    ResetRequiredError,
    VersionMismatchError,
)
from dradriver_gpu_mig.card.hardware import Hardware
from dradriver_gpu_mig.card.values import (
    ComputeInstance,
    ComputeMode,
    Engines,
    Event,
    EventKind,
    Gpu,
    GpuInstance,
    MigDevice,
    MigMode,
    Placement,
    Process,
    Profile,
    System,
    TimeSlice,
)

__all__ = [
    "CardError",
    "Cards",
    "ComputeInstance",
    "ComputeMode",
    "DriverNotLoadedError",
    "Engines",
    "Event",
    "EventKind",
    "FunctionNotFoundError",
    "Gpu",
    "GpuInstance",
    "GpuLostError",
    "GpuNotFoundError",
    "Hardware",
    "InUseError",
    "InstanceNotFoundError",
    "InsufficientResourcesError",
    "InvalidArgumentError",
    "LibraryNotFoundError",
    "MigDevice",
    "MigMode",
    "NoPermissionError",
    "NotSupportedError",
    "Placement",
    "Process",
    "Profile",
    "ResetRequiredError",
    "System",
    "TimeSlice",
    "VersionMismatchError",
]
