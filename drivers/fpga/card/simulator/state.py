"""What simulated hardware is like now, and where that is kept."""

import contextlib
import fcntl
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

import msgspec

from drivers.fpga.card.values import ManagerState

__all__ = ["CardState", "FileStore", "Load", "MemoryStore", "NodeState", "RegionState", "Store"]


class Load(msgspec.Struct, frozen=True):
    """A bitstream on its way into a card; it goes on while no process looks.

    Attributes:
        target: the region, or the whole card.
        began: Unix time.
        seconds: how long it takes; None when it never ends.
        afu_id: what the region holds in the end.
        shell: what the card runs in the end; None of a region's bitstream.
        fails: where the manager ends instead.
    """

    target: str
    began: float
    seconds: float | None
    afu_id: str = ""
    shell: int | None = None
    fails: ManagerState | None = None


class RegionState(msgspec.Struct):
    """One region: what it holds, and whether its logic answers."""

    afu_id: str = ""
    bitstream: str = ""
    silent: bool = False


class CardState(msgspec.Struct):
    """One simulated card.

    Attributes:
        place: the so-and-so-many-th of its model.
        present: plugged in.
        pulls: how often it was pulled.
        shell: which of the model's.
        manager: where the last programming ended.
        load: programming that is under way, or whose end nobody has seen yet.
        faults: what becomes of the next programming of a target: the state where it ends, None: it hangs.
    """

    model: str
    place: int
    regions: list[RegionState]
    present: bool = True
    pulls: int = 0
    shell: int = 0
    bitstream: str = ""
    manager: ManagerState = ManagerState.OPERATING
    load: Load | None = None
    faults: dict[str, ManagerState | None] = {}


class NodeState(msgspec.Struct):
    """All simulated cards of a node, those that were pulled too, and how often one came or went."""

    cards: list[CardState] = []
    changes: int = 0


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
