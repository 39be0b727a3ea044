"""The cards of a node: their properties, their instances and their events.

Law of this package: it knows GPUs, profiles, placements, instances and events. It must not know claims, pools
or Kubernetes. `hardware.GpuHardware` is the only interface. NVML (`nvml`) and a simulator (`simulator`)
implement this interface, and one contract suite tests both implementations. Blocking calls run on the threads
of `GpuCards`.

- `hardware`: `GpuHardware`, the interface.
- `cards`: `GpuCards`, the interface for asyncio.
- `lane`: a thread for blocking calls with a time limit.
- `values`: properties of cards as frozen values.
- `errors`: one class for each error that callers distinguish.
- `nvml`: real cards.
- `simulator`: cards without hardware.
"""

from dradriver_gpu_mig.card.cards import GpuCards
from dradriver_gpu_mig.card.errors import (
    DriverNotLoadedError,
    FunctionNotFoundError,
    GpuError,
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
    TimedOutError,
    VersionMismatchError,
)
from dradriver_gpu_mig.card.hardware import GpuHardware
from dradriver_gpu_mig.card.values import (
    ComputeMode,
    Engines,
    Event,
    EventKind,
    Fabric,
    Gpu,
    GpuInstance,
    MigDevice,
    MigMode,
    Placement,
    Process,
    Profile,
    RecoveryAction,
    System,
    TimeSlice,
    Virtualization,
)

__all__ = [
    "ComputeMode",
    "DriverNotLoadedError",
    "Engines",
    "Event",
    "EventKind",
    "Fabric",
    "FunctionNotFoundError",
    "Gpu",
    "GpuCards",
    "GpuError",
    "GpuHardware",
    "GpuInstance",
    "GpuLostError",
    "GpuNotFoundError",
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
    "RecoveryAction",
    "ResetRequiredError",
    "System",
    "TimeSlice",
    "TimedOutError",
    "VersionMismatchError",
    "Virtualization",
]
