"""Properties of cards as frozen values. Memory is in bytes; all other amounts are counts."""

import enum
from dataclasses import dataclass

__all__ = [
    "ComputeMode",
    "Engines",
    "Event",
    "EventKind",
    "Fabric",
    "Gpu",
    "GpuInstance",
    "MigDevice",
    "MigMode",
    "Placement",
    "Process",
    "Profile",
    "RecoveryAction",
    "System",
    "TimeSlice",
    "Virtualization",
]


@dataclass(frozen=True, slots=True)
class System:
    """The software that all GPUs of a node share.

    Attributes:
        driver_version: version of the kernel driver in NVIDIA's form: `580.82.07`.
        cuda_version: newest CUDA version that the driver supports: `13.0`; "" if an old driver does not report
            it.
    """

    driver_version: str
    cuda_version: str


@dataclass(frozen=True, slots=True)
class MigMode:
    """Whether MIG is on now, and whether it will be on after the next reset."""

    current: bool
    pending: bool


class Virtualization(enum.Enum):
    """How a GPU reached this machine, or is passed on by it (values of NVML)."""

    NONE = 0
    PASSTHROUGH = 1
    VGPU = 2
    HOST_VGPU = 3
    HOST_VSGA = 4


@dataclass(frozen=True, slots=True)
class Fabric:
    """The NVLink fabric of a GPU.

    Attributes:
        cluster_uuid: UUID of the NVLink domain; "" while the GPU is not registered, or on a single host.
        clique_id: number of the clique in the domain. GPUs of one clique reach each other through NVLink.
    """

    cluster_uuid: str
    clique_id: int


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU.

    Attributes:
        index: NVML's index, which can change at a reboot.
        uuid: `GPU-...`; constant for the life of the board. Every call identifies the GPU by its UUID.
        minor: N of `/dev/nvidiaN`; None if an old driver does not report it.
        pci_address: in the form of sysfs: `0000:07:00.0`.
        name: product name: `NVIDIA A100-SXM4-40GB`.
        brand: `Tesla`, `Nvidia`, ..., as NVIDIA's other tools spell it; "" if unknown.
        architecture: `Ampere`, `Hopper`, ...; "" if unknown.
        compute_capability: CUDA compute capability, major and minor.
        memory: bytes of the whole GPU.
        mig: MIG mode; None if the GPU does not support MIG.
        pcie_root: `pci0000:00`; "" if unknown.
        numa_node: the nearest NUMA node; None if unknown.
        virtualization: whether the GPU is a vGPU, or a GPU that serves vGPUs.
        addressing_mode: `HMM`, `ATS` or `None`, as NVIDIA's tools spell it; "" if the platform has none.
        fabric: the NVLink fabric; None if the GPU has none.
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
    virtualization: Virtualization = Virtualization.NONE
    addressing_mode: str = ""
    fabric: Fabric | None = None


@dataclass(frozen=True, slots=True)
class Engines:
    """Counts of a GPU's engines."""

    multiprocessors: int
    copy_engines: int
    decoders: int
    encoders: int
    jpeg_engines: int
    ofa_engines: int


@dataclass(frozen=True, slots=True, order=True)
class Placement:
    """Position of an instance: memory slices `start` to `start + size - 1`."""

    start: int
    size: int


@dataclass(frozen=True, slots=True)
class Profile:
    """One kind of GPU instance, as the GPU offers it.

    Attributes:
        id: number that a call passes to create an instance. On another GPU, the number can mean another
            profile.
        name: `3g.20gb`, `1g.5gb+me`, ... .
        memory: bytes of an instance.
        slices: compute slices of an instance. A GPU limits their sum over all instances, independently of
            memory.
        engines: engines of an instance.
        max_instances: maximum number of instances of this profile on an empty GPU.
        placements: all possible positions, in use or free, sorted by their start; empty if the GPU does not
            report them.
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
        """Memory slices of an instance; 0 if the GPU offers no placement."""
        return self.placements[0].size if self.placements else 0


@dataclass(frozen=True, slots=True)
class GpuInstance:
    """A part of a GPU with its own memory. After the instance is destroyed, a new instance can get its ID."""

    id: int
    profile_id: int
    placement: Placement


@dataclass(frozen=True, slots=True)
class MigDevice:
    """A compute instance as programs see it. A GPU instance without a compute instance is not a MIG device.

    Attributes:
        uuid: the UUID by which programs select the device.
        gpu_instance: ID of the GPU instance.
        compute_instance: ID of the compute instance, unique in its GPU instance.
    """

    uuid: str
    gpu_instance: int
    compute_instance: int


@dataclass(frozen=True, slots=True)
class Process:
    """A process that uses a GPU or an instance of it.

    Attributes:
        pid: PID in the caller's PID namespace if NVML can report it, else in the host's PID namespace.
        memory: bytes; None if unknown.
        gpu_instance, compute_instance: IDs of the instances; None on a GPU without MIG.
    """

    pid: int
    memory: int | None
    gpu_instance: int | None
    compute_instance: int | None


class ComputeMode(enum.Enum):
    """Which processes may use a GPU (values of NVML)."""

    DEFAULT = 0
    PROHIBITED = 2
    EXCLUSIVE_PROCESS = 3


class TimeSlice(enum.Enum):
    """Time slice of a process (values of `nvidia-smi compute-policy`)."""

    DEFAULT = 0
    SHORT = 1
    MEDIUM = 2
    LONG = 3


class RecoveryAction(enum.Enum):
    """What must be done before a GPU works again (values of NVML's `nvmlDeviceGpuRecoveryAction_t`)."""

    NONE = 0
    GPU_RESET = 1
    NODE_REBOOT = 2
    DRAIN_P2P = 3
    DRAIN_AND_RESET = 4
    RECOVER_IMEX_DOMAIN = 5
    BUS_RESET = 6
    SYSTEM_REBOOT = 7
    UNKNOWN = -1
    """An action that this version does not know."""


class EventKind(enum.Enum):
    """Kind of an event."""

    XID = "an error that the driver reports by number"
    DOUBLE_BIT_ECC = "memory that could not be corrected"
    SINGLE_BIT_ECC = "memory that was corrected"
    GPU_LOST = "it fell off the bus or hangs"
    MIG_CHANGED = "somebody made or destroyed an instance, or switched MIG"
    RECOVERY_ACTION = "the recovery action of the GPU changed"


@dataclass(frozen=True, slots=True)
class Event:
    """An event of a GPU.

    Attributes:
        kind: kind of the event.
        gpu: UUID of the GPU.
        xid: number of the XID; None for other kinds of events.
        gpu_instance, compute_instance: the affected instances; None: the whole GPU.
    """

    kind: EventKind
    gpu: str
    xid: int | None = None
    gpu_instance: int | None = None
    compute_instance: int | None = None
