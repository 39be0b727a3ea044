"""Decides the next step of attach and detach from the objects that exist. Pure.

| attach | already so | then |
|---|---|---|
| 1 no task with the tag runs, except for tasks whose objects are enabled | | follow it |
| 2 connected to no other host | | delete the other connection |
| 3 one chunk, at most one connection | | delete the others; the connected chunk stays |
| 4 chunk | a chunk with the tag | look for it for a while if it was asked for; ask for it, twice at most |
| 5 chunk enabled | | wait |
| 6 connection | a connection with the tag | as the chunk |
| 7 connection enabled | | wait |

| detach | already so | then |
|---|---|---|
| 1 no task with the tag runs | | follow it to its end |
| 2 no connection | 404 | delete it, wait until it is gone |
| 3 nobody else's connection uses the chunk | | stop: it is left alone |
| 4 no chunk | 404 | delete it, wait until it is gone |

A process that dies between two steps loses nothing: the next one reads the same objects.
"""

from dataclasses import dataclass, field
from typing import Final, TypeAlias

from dradriver_fabric_cxl.fabric.objects import (
    ChunkObject,
    ConnectionObject,
    ObjectKind,
    RunningTask,
    TaggedObjects,
)
from dradriver_fabric_cxl.fabric.tags import AttachmentIdentity
from dradriver_fabric_cxl.fabric.values import AttachRequest, FabricAttachment, FabricHealth

__all__ = [
    "AskedRequests",
    "AttachStep",
    "Blocked",
    "CreateObject",
    "DeleteObject",
    "DetachStep",
    "ExpectObject",
    "Finished",
    "FollowTask",
    "GiveUp",
    "WaitForObject",
    "list_attachments",
    "make_attachment",
    "next_attach_step",
    "next_detach_step",
]

_MAX_REQUESTS: Final = 2


@dataclass(slots=True)
class AskedRequests:
    """What one call of attach or detach has asked the manager for.

    Attributes:
        created: number of requests that the manager may have executed, by kind.
        lost: number of those whose answer was lost, by kind.
        expected: kinds of which an object may still appear, because it was asked for a short time ago.
        deleted: paths of objects whose deletion was accepted.
    """

    created: dict[ObjectKind, int] = field(default_factory=dict)
    lost: dict[ObjectKind, int] = field(default_factory=dict)
    expected: set[ObjectKind] = field(default_factory=set)
    deleted: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class FollowTask:
    """Wait until the task ends."""

    task: RunningTask


@dataclass(frozen=True, slots=True)
class DeleteObject:
    """Delete the object."""

    path: str
    version: str


@dataclass(frozen=True, slots=True)
class CreateObject:
    """Make an object; `chunk` is the path of the chunk to connect, "" for an accelerator."""

    kind: ObjectKind
    chunk: str = ""


@dataclass(frozen=True, slots=True)
class WaitForObject:
    """Wait until the object is enabled or gone."""

    path: str


@dataclass(frozen=True, slots=True)
class ExpectObject:
    """Wait until an object appears that was asked for."""

    kind: ObjectKind


@dataclass(frozen=True, slots=True)
class GiveUp:
    """The object was asked for twice and does not exist. `lost`: both answers were lost."""

    kind: ObjectKind
    lost: bool = False


@dataclass(frozen=True, slots=True)
class Blocked:
    """Somebody else's connection uses the chunk."""

    connection: str
    chunk: str


@dataclass(frozen=True, slots=True)
class Finished:
    """Everything is attached; after detach, nothing is left and `attachment` is None."""

    attachment: FabricAttachment | None


AttachStep: TypeAlias = (
    FollowTask | DeleteObject | CreateObject | WaitForObject | ExpectObject | GiveUp | Blocked | Finished
)
DetachStep: TypeAlias = FollowTask | DeleteObject | WaitForObject | Blocked | Finished


def next_attach_step(objects: TaggedObjects, request: AttachRequest, asked: AskedRequests) -> AttachStep:
    """Return the next step of `attach`.

    Args:
        objects: the objects with the tag of the request.
        request: the attachment to make.
        asked: what this call has asked for.
    """
    if unfinished := _find_unfinished(objects, request.host):
        return FollowTask(unfinished[0])
    if blocked := _find_foreign_connection(objects):
        return blocked
    own = [each for each in objects.connections if each.identity is not None]
    chunk = _choose_chunk(objects.chunks, own, request.host)
    connection = _choose_connection(own, request.host, "" if chunk is None else chunk.path)
    existing: tuple[ChunkObject | ConnectionObject, ...] = (*own, *objects.chunks)
    for each in existing:
        if each is not connection and each is not chunk:
            return _delete(each, asked)
    return _complete(request, chunk, connection, asked)


def next_detach_step(objects: TaggedObjects, asked: AskedRequests) -> DetachStep:
    """Return the next step of `detach`.

    Args:
        objects: the objects with the tag.
        asked: what this call has asked for.
    """
    if objects.tasks:
        return FollowTask(objects.tasks[0])
    for connection in objects.connections:
        if connection.identity is not None:
            return _delete(connection, asked)
    if blocked := _find_foreign_connection(objects):
        return blocked
    for chunk in objects.chunks:
        return _delete(chunk, asked)
    return Finished(None)


def make_attachment(
    identity: AttachmentIdentity, chunk: ChunkObject | None, connection: ConnectionObject | None
) -> FabricAttachment:
    """Return the attachment that objects with one tag make up.

    Args:
        identity: the allocation.
        chunk: its chunk, if there is one.
        connection: its connection, if there is one.
    """
    healths = [each.health for each in (chunk, connection) if each is not None]
    order = list(FabricHealth)
    return FabricAttachment(
        identity,
        host=connection.host if connection else None,
        connected=connection is not None and connection.enabled and (chunk is None or chunk.enabled),
        mebibytes=chunk.mebibytes if chunk else 0,
        serial=chunk.serial if chunk else connection.serial if connection else None,
        health=max(healths, key=order.index, default=FabricHealth.OK),
    )


def list_attachments(objects: TaggedObjects) -> tuple[FabricAttachment, ...]:
    """Return the attachments that all objects of a manager make up, by tag.

    Args:
        objects: the objects with any tag.
    """
    found = [each.identity for each in objects.chunks]
    found += [each.identity for each in objects.connections if each.identity is not None]
    found += [each.identity for each in objects.tasks if each.identity is not None]
    identities = {identity.tag: identity for identity in found}
    attachments = []
    for tag in sorted(identities):
        chunks = [each for each in objects.chunks if each.identity.tag == tag]
        connections = [each for each in objects.connections if each.identity and each.identity.tag == tag]
        connection = connections[0] if connections else None
        used = [each for each in chunks if connection is not None and each.path == connection.chunk]
        chunk = used[0] if used else chunks[0] if chunks else None
        attachments.append(make_attachment(identities[tag], chunk, connection))
    return tuple(attachments)


def _complete(
    request: AttachRequest, chunk: ChunkObject | None, connection: ConnectionObject | None, asked: AskedRequests
) -> CreateObject | ExpectObject | GiveUp | WaitForObject | Finished:
    if chunk is None and not isinstance(request.target, str):
        return _create(ObjectKind.CHUNK, "", asked)
    if chunk is not None and not chunk.enabled:
        return WaitForObject(chunk.path)
    if connection is None:
        return _create(ObjectKind.CONNECTION, "" if chunk is None else chunk.path, asked)
    if not connection.enabled:
        return WaitForObject(connection.path)
    return Finished(make_attachment(request.identity, chunk, connection))


def _find_unfinished(objects: TaggedObjects, host: str) -> list[RunningTask]:
    """Return the tasks whose objects are not enabled yet: a manager may forget to end a task."""
    enabled = {
        ObjectKind.CHUNK: sum(each.enabled for each in objects.chunks),
        ObjectKind.CONNECTION: sum(
            each.enabled and each.identity is not None and each.host == host for each in objects.connections
        ),
    }
    makes = [task.makes for task in objects.tasks]
    return [
        task for task in objects.tasks if task.makes is None or makes.count(task.makes) > enabled[task.makes]
    ]


def _find_foreign_connection(objects: TaggedObjects) -> Blocked | None:
    chunks = {chunk.path for chunk in objects.chunks}
    for connection in objects.connections:
        if connection.identity is None and connection.chunk in chunks:
            return Blocked(connection.path, connection.chunk)
    return None


def _choose_chunk(
    chunks: tuple[ChunkObject, ...], connections: list[ConnectionObject], host: str
) -> ChunkObject | None:
    here = {each.chunk for each in connections if each.host == host}
    anywhere = {each.chunk for each in connections}
    ranked = sorted(
        chunks, key=lambda each: (each.path not in here, each.path not in anywhere, not each.enabled, each.path)
    )
    return ranked[0] if ranked else None


def _choose_connection(connections: list[ConnectionObject], host: str, chunk: str) -> ConnectionObject | None:
    here = [each for each in connections if each.host == host and each.chunk == chunk]
    return min(here, key=lambda each: (not each.enabled, each.path), default=None)


def _create(kind: ObjectKind, chunk: str, asked: AskedRequests) -> CreateObject | ExpectObject | GiveUp:
    if kind in asked.expected:
        return ExpectObject(kind)
    created = asked.created.get(kind, 0)
    if created >= _MAX_REQUESTS:
        return GiveUp(kind, lost=asked.lost.get(kind, 0) >= created)
    return CreateObject(kind, chunk)


def _delete(each: ChunkObject | ConnectionObject, asked: AskedRequests) -> DeleteObject | WaitForObject:
    return WaitForObject(each.path) if each.path in asked.deleted else DeleteObject(each.path, each.version)
