"""What a card says of itself, as frozen values. Memory is in bytes, everything else is counted."""

import enum
from dataclasses import dataclass

__all__ = [
    "ComputeInstance",
    "ComputeMode",
    "Engines",
    "Event",
    "EventKind",
    "Gpu",
    "GpuInstance",
    "MigDevice",
    "MigMode",
    "Placement",
    "Process",
    "Profile",
    "System",
    "TimeSlice",
]


@dataclass(frozen=True, slots=True)
class System:
    """The software that all GPUs of a node share.

    Attributes:
        driver_version: of the kernel driver, as NVIDIA writes it: `580.82.07`.
        cuda_version: the newest CUDA that the driver runs: `13.0`; "" when an old driver doesn't say.
    """

    driver_version: str
    cuda_version: str


@dataclass(frozen=True, slots=True)
class MigMode:
    """Whether a GPU is divided into instances now, and after its next reset."""

    current: bool
    pending: bool


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU.

    Attributes:
        index: NVML's; it may be another one after a reboot.
        uuid: `GPU-...`; the same for the life of the board, and how every call names the GPU.
        minor: N of `/dev/nvidiaN`; None when an old driver doesn't say.
        pci_address: as sysfs writes it: `0000:07:00.0`.
        name: the product: `NVIDIA A100-SXM4-40GB`.
        brand: `Tesla`, `Nvidia`, ..., as the other tools of NVIDIA spell it; "" when unknown.
        architecture: `Ampere`, `Hopper`, ...; "" when unknown.
        compute_capability: of CUDA, major and minor.
        memory: bytes of the whole GPU.
        mig: None when the GPU can't be divided.
        pcie_root: `pci0000:00`; "" when unknown.
        numa_node: the memory that is near; None when unknown.
    """

    index: int
    uuid: str
    minor: int | None
    pci_address: str
    name: str
    brand: str
    architecture: str
    compute_capability: tuple[int, int]
    memory: int
    mig: MigMode | None
    pcie_root: str
    numa_node: int | None


@dataclass(frozen=True, slots=True)
class Engines:
    """The parts of a GPU that are counted."""

    multiprocessors: int
    copy_engines: int
    decoders: int
    encoders: int
    jpeg_engines: int
    ofa_engines: int


@dataclass(frozen=True, slots=True, order=True)
class Placement:
    """Where an instance lies: memory slices `start` to `start + size - 1`."""

    start: int
    size: int


@dataclass(frozen=True, slots=True)
class Profile:
    """One way to cut an instance out of a GPU, as the GPU offers it.

    Attributes:
        id: what creation asks for; other GPUs may use the number for something else.
        name: `3g.20gb`, `1g.5gb+me`, ... .
        memory: bytes that the instance gets.
        slices: compute slices; those of all instances are limited apart from memory.
        engines: what the instance gets.
        max_instances: of this profile, on an empty GPU.
        placements: where an instance of it may lie, whatever lies there now; in order of their start. Empty
            where the GPU refuses to tell.
    """

    id: int
    name: str
    memory: int
    slices: int
    engines: Engines
    max_instances: int
    placements: tuple[Placement, ...]

    @property
    def memory_slices(self) -> int:
        """How many memory slices an instance takes; 0 where the GPU offers no placement."""
        return self.placements[0].size if self.placements else 0


@dataclass(frozen=True, slots=True)
class GpuInstance:
    """A part of a GPU with memory of its own. The ID may be used again after it is destroyed."""

    id: int
    profile_id: int
    placement: Placement


@dataclass(frozen=True, slots=True)
class ComputeInstance:
    """What runs programs in a GPU instance.

    Attributes:
        id: unique in its GPU instance.
        slices: compute slices of the GPU instance that it has; fewer than the profile's where somebody else
            divided the instance further.
    """

    id: int
    slices: int


@dataclass(frozen=True, slots=True)
class MigDevice:
    """A compute instance as programs see it; there is none for a GPU instance that has no compute instance."""

    uuid: str
    gpu_instance: int
    compute_instance: int


@dataclass(frozen=True, slots=True)
class Process:
    """A process that uses a GPU, or an instance of it.

    Attributes:
        pid: in the PID namespace of the asker where NVML can tell, of the host else.
        memory: bytes; None when it can't be told.
        gpu_instance, compute_instance: None on a GPU that is not divided.
    """

    pid: int
    memory: int | None
    gpu_instance: int | None
    compute_instance: int | None


class ComputeMode(enum.Enum):
    """Who may use a GPU (values of NVML)."""

    DEFAULT = 0
    PROHIBITED = 2
    EXCLUSIVE_PROCESS = 3


class TimeSlice(enum.Enum):
    """How long a process runs before the next one's turn (values of `nvidia-smi compute-policy`)."""

    DEFAULT = 0
    SHORT = 1
    MEDIUM = 2
    LONG = 3


class EventKind(enum.Enum):
    """What may become of a GPU."""

    XID = "an error that the driver reports by number"
    DOUBLE_BIT_ECC = "memory that could not be corrected"
    SINGLE_BIT_ECC = "memory that was corrected"
    GPU_LOST = "it fell off the bus or hangs"
    MIG_CHANGED = "somebody made or destroyed an instance, or switched MIG"


@dataclass(frozen=True, slots=True)
class Event:
    """Something that became of a GPU.

    Attributes:
        kind: what.
        gpu: its UUID.
        xid: the number, of an XID.
        gpu_instance, compute_instance: where in the GPU; None for all of it.
    """

    kind: EventKind
    gpu: str
    xid: int | None = None
    gpu_instance: int | None = None
    compute_instance: int | None = None
