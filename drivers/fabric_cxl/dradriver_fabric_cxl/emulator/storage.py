"""The state that clients can change, in a file.

The file is replaced in one step, so a process that is killed at any moment leaves the last complete state. The
file is not synced: the emulator survives a kill of its process, not a loss of power.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

__all__ = ["Body", "Operation", "Precondition", "State", "Storage"]

Body: TypeAlias = dict[str, Any]
"""The JSON object of a resource or of a request."""


class Operation(msgspec.Struct, kw_only=True):
    """Work that a client requested; with the same ID as its task, if it has one.

    Attributes:
        outcome: the fault for its task, as in `Fault.task_state`; "": no fault.
        works: whether the work is done.
        location: URI of the connection that is being made; "": not begun.
        ended: whether it is over.
        status: HTTP status of its result.
        error: the reason why it failed.
        message: ID of the error in the Base registry.
    """

    method: str
    path: str
    body: Body
    outcome: str = ""
    works: bool = True
    location: str = ""
    ended: bool = False
    status: int = 0
    error: str = ""
    message: str = ""


class State(msgspec.Struct):
    """Everything that outlives the process.

    Attributes:
        counter: the last number that was used in an ID or a serial number.
        resources: resources that clients made, by URI.
        operations: requested work, by ID.
        tokens: hash of the token of each session, by the session's URI.
        passwords: salt and hash of the password of each account, by user name.
        health: `Status.Health` that differs from "OK", by URI.
    """

    counter: int = 0
    resources: dict[str, Body] = {}
    operations: dict[str, Operation] = {}
    tokens: dict[str, str] = {}
    passwords: dict[str, tuple[str, str]] = {}
    health: dict[str, str] = {}

    def next_number(self) -> int:
        """Return a number that was not used before."""
        self.counter += 1
        return self.counter


Precondition: TypeAlias = Callable[[State], None]
"""Raises `RedfishError` if a request must not change this state."""


class Storage:
    """Holds the state and its file.

    Args:
        path: the file; None: the state is lost with the process.

    Attributes:
        state: the last state that is in the file. Do not change it.
        listeners: called after each change with the state before and after it.
    """

    def __init__(self, path: Path | None) -> None:
        self.state = State()
        self.listeners: list[Callable[[State, State], None]] = []
        self._path = path
        self._written = msgspec.json.encode(self.state)
        self._lock = asyncio.Lock()

    async def load(self) -> None:
        """Read the file, if it exists."""
        if self._path is not None and await asyncio.to_thread(self._path.exists):
            self._written = await asyncio.to_thread(self._path.read_bytes)
            self.state = msgspec.json.decode(self._written, type=State)

    @asynccontextmanager
    async def change(self) -> AsyncIterator[State]:
        """Give a copy of the state to change, then write it; without effect if the block raises an error.

        If the process dies in the block, nothing has changed. Readers see the change only when it is written.
        """
        async with self._lock:
            draft = msgspec.json.decode(self._written, type=State)
            yield draft
            written = msgspec.json.encode(draft)
            if written == self._written:
                return
            if self._path is not None:
                await asyncio.to_thread(self._replace, self._path, written)
            before, self.state, self._written = self.state, draft, written
        for listener in self.listeners:
            listener(before, draft)

    @staticmethod
    def _replace(path: Path, content: bytes) -> None:
        draft = path.with_name(f"{path.name}.new")
        draft.write_bytes(content)
        draft.replace(path)
