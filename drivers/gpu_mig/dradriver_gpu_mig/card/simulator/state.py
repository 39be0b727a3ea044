"""State of simulated hardware, in memory or in a file."""

from pathlib import Path
from typing import TypeAlias

import msgspec

from dradriver.testing import SimulatedState, StateInFile, StateInMemory
from dradriver_gpu_mig.card.values import EventKind

__all__ = [
    "GpuFileStore",
    "GpuMemoryStore",
    "GpuNodeState",
    "GpuState",
    "GpuStore",
    "InstanceState",
    "NumberedEvent",
    "ProcessState",
]


class InstanceState(msgspec.Struct):
    """A GPU instance, and the slices of each of its compute instances by compute instance ID."""

    profile: int
    start: int
    compute: dict[int, int] = {}


class ProcessState(msgspec.Struct, frozen=True):
    """A process that uses a GPU."""

    pid: int
    memory: int | None = None
    gpu_instance: int | None = None
    compute_instance: int | None = None


class GpuState(
    msgspec.Struct, rename={"removed": "gone", "error_code": "refusal", "placement_errors": "placeless"}
):
    """One simulated GPU.

    Attributes:
        lost: whether the GPU fell off the bus.
        removed: whether the GPU was removed, so that NVML no longer knows it.
        error_code: error of every call for the GPU (`nvmlReturn_t`); 0: calls work.
        virtualization: `nvmlGpuVirtualizationMode_t`.
        addressing_mode: as `Gpu.addressing_mode`.
        cluster_uuid, clique_id: the NVLink fabric; clique_id None: the GPU has no fabric.
        placement_errors: by profile ID, the error for each profile whose placements cannot be read.
    """

    model: str
    uuid: str
    mig: bool = False
    pending: bool = False
    lost: bool = False
    removed: bool = False
    error_code: int = 0
    virtualization: int = 0
    addressing_mode: str = ""
    cluster_uuid: str = ""
    clique_id: int | None = None
    placement_errors: dict[int, int] = {}
    recovery_action: int | None = 0
    compute_mode: int = 0
    time_slice: int = 0
    instances: dict[int, InstanceState] = {}
    processes: list[ProcessState] = []


class NumberedEvent(msgspec.Struct, frozen=True):
    """An event with its sequence number on this node."""

    number: int
    kind: EventKind
    gpu: str
    xid: int | None = None
    gpu_instance: int | None = None
    compute_instance: int | None = None


class GpuNodeState(msgspec.Struct, rename={"event_count": "told"}):
    """All simulated GPUs of a node, their last events, and the number of events so far."""

    gpus: list[GpuState] = []
    events: list[NumberedEvent] = []
    event_count: int = 0


GpuStore: TypeAlias = SimulatedState[GpuNodeState]
"""Holds the state of a node's GPUs."""


class GpuMemoryStore(StateInMemory[GpuNodeState]):
    """State in memory, which is lost when the process ends."""

    def __init__(self) -> None:
        super().__init__(GpuNodeState)


class GpuFileStore(StateInFile[GpuNodeState]):
    """State in a file, which outlives the process and which several processes can share."""

    def __init__(self, path: Path) -> None:
        super().__init__(GpuNodeState, path)
