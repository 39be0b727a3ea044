"""What simulated hardware is like now, and where that is kept."""

from pathlib import Path
from typing import TypeAlias

import msgspec

from dradriver.testing import SimulatedState, StateInFile, StateInMemory
from dradriver_gpu_mig.card.values import EventKind

__all__ = [
    "FileStore",
    "GpuState",
    "InstanceState",
    "MemoryStore",
    "NodeState",
    "ProcessState",
    "Store",
    "Told",
]


class InstanceState(msgspec.Struct):
    """A GPU instance, and the slices of each compute instance in it by ID."""

    profile: int
    start: int
    compute: dict[int, int] = {}


class ProcessState(msgspec.Struct, frozen=True):
    """A process that uses a GPU."""

    pid: int
    memory: int | None = None
    gpu_instance: int | None = None
    compute_instance: int | None = None


class GpuState(msgspec.Struct):
    """One simulated GPU.

    Attributes:
        lost: it fell off the bus.
        gone: it was taken away; NVML does not know it any more.
        refusal: what every call about it answers (`nvmlReturn_t`); 0: calls are answered.
        placeless: profiles whose placements can't be asked for, by ID, and what the question is answered with.
    """

    model: str
    uuid: str
    mig: bool = False
    pending: bool = False
    lost: bool = False
    gone: bool = False
    refusal: int = 0
    placeless: dict[int, int] = {}
    needs_reset: bool = False
    compute_mode: int = 0
    time_slice: int = 0
    instances: dict[int, InstanceState] = {}
    processes: list[ProcessState] = []


class Told(msgspec.Struct, frozen=True):
    """An event: it happened, and it is the so-and-so-many-th of this node."""

    number: int
    kind: EventKind
    gpu: str
    xid: int | None = None
    gpu_instance: int | None = None
    compute_instance: int | None = None


class NodeState(msgspec.Struct):
    """All simulated GPUs of a node, and the last events of them."""

    gpus: list[GpuState] = []
    events: list[Told] = []
    told: int = 0


Store: TypeAlias = SimulatedState[NodeState]
"""Where the state of a node's GPUs is."""


class MemoryStore(StateInMemory[NodeState]):
    """GPUs that are gone with their process."""

    def __init__(self) -> None:
        super().__init__(NodeState)


class FileStore(StateInFile[NodeState]):
    """GPUs that outlive processes, and that several of them share."""

    def __init__(self, path: Path) -> None:
        super().__init__(NodeState, path)
