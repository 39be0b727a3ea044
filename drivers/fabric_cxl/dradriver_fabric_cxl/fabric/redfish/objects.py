"""Objects with tags on a Redfish manager."""

from dataclasses import replace

from dradriver_fabric_cxl.fabric.errors import (
    FabricError,
    ManagerUnreachableError,
    ObjectNotFoundError,
    RequestRefusedError,
)
from dradriver_fabric_cxl.fabric.objects import (
    ChunkObject,
    CreatedObject,
    FabricObjects,
    ObjectKind,
    RunningTask,
    TaggedObjects,
    TaskProgress,
)
from dradriver_fabric_cxl.fabric.redfish.answers import RedfishAnswer, to_path
from dradriver_fabric_cxl.fabric.redfish.endpoints import find_device, parse_accelerator_serial
from dradriver_fabric_cxl.fabric.redfish.resources import (
    describe_chunk,
    describe_connection,
    links_of,
    parse_chunk,
    parse_connection,
    parse_serial,
)
from dradriver_fabric_cxl.fabric.redfish.service import RedfishResource, RedfishService, gather_all
from dradriver_fabric_cxl.fabric.redfish.tasks import has_ended, parse_progress, parse_running_task
from dradriver_fabric_cxl.fabric.redfish.tree import FabricPaths, RedfishTree
from dradriver_fabric_cxl.fabric.tags import AttachmentIdentity, parse_identity
from dradriver_fabric_cxl.fabric.values import AttachRequest

__all__ = ["RedfishObjects"]


class RedfishObjects(FabricObjects):
    """Objects on a Redfish manager. See `FabricObjects`.

    Args:
        service: the manager.
        tree: the resources of the fabric.
    """

    def __init__(self, service: RedfishService, tree: RedfishTree) -> None:
        self._service = service
        self._tree = tree
        self._ended: set[str] = set()
        self._breaks = 0

    async def read(self, tag: str | None) -> TaggedObjects:
        """See `FabricObjects`.

        Tasks are read first: an object that a task makes meanwhile is then read, as the task's or by itself.
        """
        paths = await self._tree.paths()
        tasks = await self._read_tasks(paths, tag)
        chunks = await self._read_chunks(paths, tag)
        of_tag = {each.path for each in chunks}
        resources = await self._service.members(paths.connections)
        serials = await gather_all(self._find_serial(each) for each in resources)
        connections = []
        for resource, serial in zip(resources, serials, strict=True):
            connection = parse_connection(resource, serial)
            if not _matches(connection.identity, tag):
                connection = replace(connection, identity=None)
            if connection.identity is not None or connection.chunk in of_tag:
                connections.append(connection)
        return TaggedObjects(tuple(chunks), tuple(connections), tuple(tasks))

    async def create_chunk(self, request: AttachRequest) -> CreatedObject:
        """See `FabricObjects`."""
        if isinstance(request.target, str):
            raise RequestRefusedError(f"{request.target}: an accelerator has no chunks")
        paths = await self._find_paths("memory domain", request.target.domain)
        path = paths.chunks[request.target.domain]
        return await self._service.post(path, describe_chunk(request, request.target.mebibytes))

    async def create_connection(self, request: AttachRequest, chunk: str) -> CreatedObject:
        """See `FabricObjects`."""
        paths = await self._find_paths("host", request.host)
        accelerator = ""
        if isinstance(request.target, str):
            paths = await self._find_paths("accelerator", request.target)
            accelerator = paths.accelerators[request.target]
        body = describe_connection(request, paths.hosts[request.host], chunk, accelerator)
        return await self._service.post(paths.connections, body)

    async def delete(self, path: str, version: str) -> CreatedObject:
        """See `FabricObjects`."""
        return await self._service.delete(path, version)

    async def progress(self, task: str) -> TaskProgress:
        """See `FabricObjects`."""
        answer = await self._service.ask(task)
        try:
            return self._parse_progress(answer)
        except ManagerUnreachableError:
            if (ended := await self._find_ended(task)) is None:
                raise
            return self._parse_progress(ended)

    async def keeps_tag(self, path: str, identity: AttachmentIdentity) -> bool:
        """See `FabricObjects`."""
        found = await self._service.find(path)
        return (
            found is None or parse_identity(found.body.get("Name"), found.body.get("Description")) == identity
        )

    def _parse_progress(self, answer: RedfishAnswer) -> TaskProgress:
        """Return how a task is going, without secrets that the manager repeats."""
        try:
            progress = parse_progress(answer)
        except FabricError as error:
            self._service.session.redact(error)
            raise
        if progress.error is not None:
            self._service.session.redact(progress.error)
        return progress

    async def _find_ended(self, monitor: str) -> RedfishAnswer | None:
        """Return the task of a monitor that fails, if the task has ended; None if that is not known."""
        paths = await self._tree.paths()
        for each in await self._service.members(paths.tasks):
            if monitor in {each.path, to_path(each.body.get("TaskMonitor"))} and has_ended(each.body):
                return RedfishAnswer(each.path, "GET", 200, each.body)
        return None

    async def _find_paths(self, kind: str, name: str) -> FabricPaths:
        """Return the paths, read anew if a resource is missing in them."""
        for _ in range(2):
            paths = await self._tree.paths()
            known = {"memory domain": paths.chunks, "host": paths.hosts, "accelerator": paths.accelerators}
            if name in known[kind]:
                return paths
            await self._tree.read()
        raise ObjectNotFoundError(f"{kind} {name} does not exist")

    async def _read_tasks(self, paths: FabricPaths, tag: str | None) -> list[RunningTask]:
        kinds = {path.rstrip("/"): ObjectKind.CHUNK for path in paths.chunks.values()}
        kinds[paths.connections.rstrip("/")] = ObjectKind.CONNECTION
        existing = await self._service.list_paths(paths.tasks)
        tasks = await self._service.find_all(existing - self._recall_ended(existing))
        self._ended |= {each.path for each in tasks if has_ended(each.body)}
        found = [parse_running_task(each.path, each.body, kinds) for each in tasks]
        return [each for each in found if each is not None and _matches(each.identity, tag)]

    def _recall_ended(self, existing: set[str]) -> set[str]:
        """Return the tasks that are known to have ended: managers keep hundreds of them.

        A manager that was away may have restarted, and may give their paths to new tasks.
        """
        breaks = self._service.session.breaks
        if breaks != self._breaks:
            self._breaks = breaks
            self._ended.clear()
        self._ended &= existing
        return self._ended

    async def _read_chunks(self, paths: FabricPaths, tag: str | None) -> list[ChunkObject]:
        collections = await gather_all(self._service.members(each) for each in paths.chunks.values())
        mine = [
            each
            for members in collections
            for each in members
            if _matches(parse_identity(each.body.get("Name"), each.body.get("Description")), tag)
        ]
        found = await gather_all(self._make_chunk(each) for each in mine)
        return [each for each in found if each is not None]

    async def _make_chunk(self, resource: RedfishResource) -> ChunkObject | None:
        devices = links_of(resource.body, "CXLLogicalDevices")
        device = await self._service.find(devices[0]) if devices else None
        return parse_chunk(resource, parse_serial(device.body) if device else None)

    async def _find_serial(self, connection: RedfishResource) -> int | None:
        """Return the serial number of the accelerator that a connection connects; None for a chunk."""
        targets = [] if connection.body.get("MemoryChunkInfo") else links_of(connection.body, "TargetEndpoints")
        endpoint = await self._service.find(targets[0]) if targets else None
        device = await self._service.find(find_device(endpoint.body)) if endpoint else None
        return parse_accelerator_serial(device.body) if device else None


def _matches(identity: AttachmentIdentity | None, tag: str | None) -> bool:
    return identity is not None and tag in {None, identity.tag}
