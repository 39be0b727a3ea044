"""The cards of a node: their properties, their instances and their events.

Law of this package: it knows GPUs, profiles, placements, instances and events, and nothing of claims, pools or
Kubernetes. `hardware.Hardware` is the only interface. NVML (`nvml`) and a simulator (`simulator`) implement it
with the same rules, and one contract suite tests both. Blocking calls run on the threads of `Cards`.

- `hardware`: `Hardware`, the interface.
- `cards`: `Cards`, the interface for asyncio.
- `values`: properties of cards as frozen values.
- `errors`: one class for each error that callers distinguish.
- `nvml`: real cards.
- `simulator`: cards without hardware.
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
