"""State of simulated hardware, in memory or in a file."""

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
    """A GPU instance, with the slices of each of its compute instances by ID."""

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
        gone: it was removed, and NVML no longer knows it.
        refusal: error of every call for it (`nvmlReturn_t`); 0: calls work.
        placeless: errors for profiles whose placements cannot be read, by profile ID.
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
    """An event with its sequence number on this node."""

    number: int
    kind: EventKind
    gpu: str
    xid: int | None = None
    gpu_instance: int | None = None
    compute_instance: int | None = None


class NodeState(msgspec.Struct):
    """All simulated GPUs of a node, and their last events."""

    gpus: list[GpuState] = []
    events: list[Told] = []
    told: int = 0


Store: TypeAlias = SimulatedState[NodeState]
"""Holds the state of a node's GPUs."""


class MemoryStore(StateInMemory[NodeState]):
    """State that is lost with the process."""

    def __init__(self) -> None:
        super().__init__(NodeState)


class FileStore(StateInFile[NodeState]):
    """State that outlives the process and that several processes share."""

    def __init__(self, path: Path) -> None:
        super().__init__(NodeState, path)
