"""Store the state of simulated hardware: in the memory of a process, or in a file that outlives the process.

A driver's simulator stores the state of its cards here. If the state is in a file, several processes can share
the cards.
"""

import contextlib
import fcntl
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import msgspec

__all__ = ["SimulatedState", "StateInFile", "StateInMemory"]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class SimulatedState(Protocol[T_co]):
    """The state of simulated hardware, independent of its storage."""

    def change(self) -> AbstractContextManager[T_co]:
        """Lock the state, return it, and store it at the end of the `with` block.

        Returns:
            A context manager with the state. If the block raises an exception, the changes are dropped.
        """


class StateInMemory(Generic[T]):
    """State of simulated hardware in memory; it is lost when the process ends.

    Args:
        kind: the type of the state, a `msgspec.Struct` with defaults for all fields.
    """

    def __init__(self, kind: type[T]) -> None:
        self._kind = kind
        self._state = kind()
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def change(self) -> Iterator[T]:
        """See `SimulatedState.change`."""
        with self._lock:
            state = msgspec.json.decode(msgspec.json.encode(self._state), type=self._kind)
            yield state
            self._state = state


class StateInFile(Generic[T]):
    """State of simulated hardware in a file; it outlives processes, and several processes share it.

    If a process dies during a change, the old state stays, because the file is replaced in one step.

    Args:
        kind: the type of the state, a `msgspec.Struct` with defaults for all fields.
        path: the file. The folder of the file is created if it is missing.
    """

    def __init__(self, kind: type[T], path: Path) -> None:
        self._kind = kind
        self._path = path

    @contextlib.contextmanager
    def change(self) -> Iterator[T]:
        """See `SimulatedState.change`."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            before = self._path.read_bytes() if self._path.exists() else b"{}"
            state = msgspec.json.decode(before, type=self._kind)
            yield state
            after = msgspec.json.encode(state)
            if after != before:
                temporary = self._path.with_suffix(".new")
                temporary.write_bytes(after)
                temporary.replace(self._path)
