"""Where the state of simulated hardware is kept: with its process, or in a file that outlives it."""

import contextlib
import fcntl
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import msgspec

__all__ = ["FileStore", "MemoryStore", "Store"]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Store(Protocol[T_co]):
    """Where the state of simulated hardware is."""

    def change(self) -> AbstractContextManager[T_co]:
        """The state, nobody else's for the moment; kept as it is at the end, unless that ends in an error."""


class MemoryStore(Generic[T]):
    """Hardware that is gone with its process.

    Args:
        kind: what its state is, a msgspec struct with defaults for all fields.
    """

    def __init__(self, kind: type[T]) -> None:
        self._kind = kind
        self._state = kind()
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def change(self) -> Iterator[T]:
        """See `Store`."""
        with self._lock:
            state = msgspec.json.decode(msgspec.json.encode(self._state), type=self._kind)
            yield state
            self._state = state


class FileStore(Generic[T]):
    """Hardware that outlives processes, and that several of them share.

    A process that dies within a change has not made it: the file is replaced in one step.

    Args:
        kind: what its state is, a msgspec struct with defaults for all fields.
        path: the file; its folder is made when it is missing.
    """

    def __init__(self, kind: type[T], path: Path) -> None:
        self._kind = kind
        self._path = path

    @contextlib.contextmanager
    def change(self) -> Iterator[T]:
        """See `Store`."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            before = self._path.read_bytes() if self._path.exists() else b"{}"
            state = msgspec.json.decode(before, type=self._kind)
            yield state
            after = msgspec.json.encode(state)
            if after != before:
                unfinished = self._path.with_suffix(".new")
                unfinished.write_bytes(after)
                unfinished.replace(self._path)
