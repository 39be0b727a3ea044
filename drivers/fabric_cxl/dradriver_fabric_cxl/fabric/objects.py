"""The interface below `Fabric`: objects with tags, one request each. The steps are made of these calls.

Redfish and the simulator implement it; `AttachmentExecutor` does the rest in the same way for both.
"""

import enum
from dataclasses import dataclass
from typing import Protocol

from dradriver_fabric_cxl.fabric.errors import FabricError
from dradriver_fabric_cxl.fabric.tags import AttachmentIdentity
from dradriver_fabric_cxl.fabric.values import AttachRequest, FabricHealth

__all__ = [
    "ChunkObject",
    "ConnectionObject",
    "CreatedObject",
    "FabricObjects",
    "ObjectKind",
    "RunningTask",
    "TaggedObjects",
    "TaskOutcome",
    "TaskProgress",
]


class ObjectKind(enum.Enum):
    """What a request makes."""

    CHUNK = "chunk"
    CONNECTION = "connection"


@dataclass(frozen=True, slots=True)
class ChunkObject:
    """A chunk with a tag.

    Attributes:
        path: where the manager keeps it.
        version: version of the object (ETag); "" if the manager has none.
        enabled: whether it can be connected.
    """

    path: str
    version: str
    identity: AttachmentIdentity
    mebibytes: int
    enabled: bool
    health: FabricHealth
    serial: int | None


@dataclass(frozen=True, slots=True)
class ConnectionObject:
    """A connection with a tag, or somebody else's connection to a chunk with a tag.

    Attributes:
        path: where the manager keeps it.
        version: version of the object (ETag); "" if the manager has none.
        identity: its attachment; None for somebody else's.
        host: ID of the host; "" if unknown.
        chunk: path of the chunk; "" for an accelerator.
        enabled: whether the host can use it.
        serial: serial number of the accelerator; None for a chunk.
    """

    path: str
    version: str
    identity: AttachmentIdentity | None
    host: str
    chunk: str
    enabled: bool
    health: FabricHealth
    serial: int | None = None


@dataclass(frozen=True, slots=True)
class RunningTask:
    """A task that makes an object with a tag, or deletes an object, and has not ended.

    Attributes:
        path: where the manager reports its progress.
        identity: the attachment; None for a deletion.
        makes: kind of the new object; None for a deletion.
    """

    path: str
    identity: AttachmentIdentity | None
    makes: ObjectKind | None


@dataclass(frozen=True, slots=True)
class TaggedObjects:
    """What exists on the manager for one tag, or for all of them. Each tuple is sorted by path."""

    chunks: tuple[ChunkObject, ...] = ()
    connections: tuple[ConnectionObject, ...] = ()
    tasks: tuple[RunningTask, ...] = ()

    @property
    def kinds(self) -> set[ObjectKind]:
        """The kinds of objects with a tag: for these, the manager keeps tags."""
        connected = any(each.identity is not None for each in self.connections)
        return ({ObjectKind.CHUNK} if self.chunks else set()) | (
            {ObjectKind.CONNECTION} if connected else set()
        )


@dataclass(frozen=True, slots=True)
class CreatedObject:
    """The answer to a request that makes or deletes an object.

    Attributes:
        path: the new object; "" if the answer does not name it.
        task: the task that executes the request; "" if the request has been executed.
    """

    path: str = ""
    task: str = ""


class TaskOutcome(enum.Enum):
    """How a task is going."""

    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    LOST = "the manager does not know it"


@dataclass(frozen=True, slots=True)
class TaskProgress:
    """A task as it is now.

    Attributes:
        path: the object that it made; "" if the manager does not report it.
        error: why it failed; None if the manager gives no reason.
        retry_after: seconds until the manager wants to be asked again; None if it does not say.
    """

    outcome: TaskOutcome
    path: str = ""
    error: FabricError | None = None
    retry_after: float | None = None


class FabricObjects(Protocol):
    """Objects on a manager. Every call may raise `FabricError`; no call waits for a task."""

    async def read(self, tag: str | None) -> TaggedObjects:
        """Return all objects with this tag, with somebody else's connections to them; None: with any tag."""

    async def create_chunk(self, request: AttachRequest) -> CreatedObject:
        """Ask for the chunk of a request. If the process dies, the chunk or its task has the tag."""

    async def create_connection(self, request: AttachRequest, chunk: str) -> CreatedObject:
        """Ask for the connection of a request. If the process dies, the connection or its task has the tag.

        Args:
            request: the host and, without a chunk, the accelerator.
            chunk: path of the chunk; "" for an accelerator.
        """

    async def delete(self, path: str, version: str) -> CreatedObject:
        """Ask for the deletion of an object, if it has this version. If the process dies, it may be gone.

        Args:
            path: the object.
            version: version of the object; "" for any.
        """

    async def progress(self, task: str) -> TaskProgress:
        """Return how a task is going."""

    async def keeps_tag(self, path: str, identity: AttachmentIdentity) -> bool:
        """Return whether an object has the tag that it was made with; true if it no longer exists."""
