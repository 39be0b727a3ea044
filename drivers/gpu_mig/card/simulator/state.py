"""What simulated hardware is like now, and where that is kept."""

import contextlib
import fcntl
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

import msgspec

from drivers.gpu_mig.card.values import EventKind

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
    """One simulated GPU."""

    model: str
    uuid: str
    mig: bool = False
    pending: bool = False
    lost: bool = False
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


class Store(Protocol):
    """Where the state of simulated hardware is."""

    def change(self) -> AbstractContextManager[NodeState]:
        """The state, nobody else's for the moment; kept as it is at the end, unless that ends in an error."""


class MemoryStore:
    """Hardware that is gone with its process."""

    def __init__(self) -> None:
        self._state = NodeState()
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def change(self) -> Iterator[NodeState]:
        """See `Store`."""
        with self._lock:
            state = msgspec.json.decode(msgspec.json.encode(self._state), type=NodeState)
            yield state
            self._state = state


class FileStore:
    """Hardware that outlives processes, and that several of them share.

    A process that dies within a change has not made it: the file is replaced in one step.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    @contextlib.contextmanager
    def change(self) -> Iterator[NodeState]:
        """See `Store`."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            before = self._path.read_bytes() if self._path.exists() else b"{}"
            state = msgspec.json.decode(before, type=NodeState)
            yield state
            after = msgspec.json.encode(state)
            if after != before:
                unfinished = self._path.with_suffix(".new")
                unfinished.write_bytes(after)
                unfinished.replace(self._path)
