"""Objects and tasks of a simulated manager."""

import asyncio
from collections.abc import Callable
from typing import TypeAlias, TypeVar

from dradriver_fabric_cxl.fabric.errors import FabricError, RequestRefusedError
from dradriver_fabric_cxl.fabric.objects import (
    ChunkObject,
    ConnectionObject,
    CreatedObject,
    FabricObjects,
    ObjectKind,
    RunningTask,
    TaggedObjects,
    TaskOutcome,
    TaskProgress,
)
from dradriver_fabric_cxl.fabric.simulator.faults import FabricCall, FabricFault, make_fault_error
from dradriver_fabric_cxl.fabric.simulator.rules import execute_task, fail_task, find_obstacle
from dradriver_fabric_cxl.fabric.simulator.state import (
    FabricState,
    FabricStore,
    ObjectState,
    TaskState,
    take_fault,
)
from dradriver_fabric_cxl.fabric.tags import AttachmentIdentity, parse_identity
from dradriver_fabric_cxl.fabric.values import AttachRequest, FabricHealth

__all__ = ["FabricHook", "SimulatedObjects"]

_T = TypeVar("_T")

FabricHook: TypeAlias = Callable[[str, str], None]
"""Called with a call's name, and with `before` or `after`: before and after the call takes effect."""


class SimulatedObjects(FabricObjects):
    """Objects of a simulated fabric. See `FabricObjects`.

    Args:
        store: the state.
        hook: called around each change, on a thread; it can raise, or end the process.
        task_looks: number of looks after which a task ends; 0: requests are executed at once.
    """

    def __init__(self, store: FabricStore, hook: FabricHook, task_looks: int) -> None:
        self._store = store
        self._hook = hook
        self._task_looks = task_looks

    async def read(self, tag: str | None) -> TaggedObjects:
        """See `FabricObjects`."""
        return await asyncio.to_thread(self._read, tag)

    async def create_chunk(self, request: AttachRequest) -> CreatedObject:
        """See `FabricObjects`."""
        if isinstance(request.target, str):
            raise RequestRefusedError(f"{request.target}: an accelerator has no chunks")
        identity, target = request.identity, request.target
        new = ObjectState(
            ObjectKind.CHUNK,
            identity.tag,
            identity.description,
            domain=target.domain,
            mebibytes=target.mebibytes,
        )
        return await asyncio.to_thread(self._start, FabricCall.CREATE_CHUNK, TaskState(self._task_looks, new))

    async def create_connection(self, request: AttachRequest, chunk: str) -> CreatedObject:
        """See `FabricObjects`."""
        identity = request.identity
        accelerator = request.target if isinstance(request.target, str) else ""
        new = ObjectState(
            ObjectKind.CONNECTION,
            identity.tag,
            identity.description,
            host=request.host,
            chunk=chunk,
            accelerator=accelerator,
        )
        task = TaskState(self._task_looks, new)
        return await asyncio.to_thread(self._start, FabricCall.CREATE_CONNECTION, task)

    async def delete(self, path: str, version: str) -> CreatedObject:  # noqa: ARG002 - objects do not change
        """See `FabricObjects`."""
        return await asyncio.to_thread(self._start, FabricCall.DELETE, TaskState(self._task_looks, path=path))

    async def progress(self, task: str) -> TaskProgress:
        """See `FabricObjects`."""
        return await asyncio.to_thread(self._progress, task)

    async def keeps_tag(self, path: str, identity: AttachmentIdentity) -> bool:
        """See `FabricObjects`."""
        return await asyncio.to_thread(self._keeps_tag, path, identity)

    def _read(self, tag: str | None) -> TaggedObjects:
        with self._store.change() as state:
            fault = take_fault(state, FabricCall.READ)
            objects = _find_objects(state, tag)
        return _raise_fault(fault, FabricCall.READ, objects)

    def _start(self, call: FabricCall, task: TaskState) -> CreatedObject:
        self._hook(call.value, "before")
        with self._store.change() as state:
            fault = take_fault(state, call)
            refused = make_fault_error(fault, call) is not None and fault is not FabricFault.ANSWER_LOST
            created = CreatedObject()
            if not refused:
                if obstacle := find_obstacle(state, task):
                    raise obstacle
                task.fault = fault
                created = _add_task(state, task)
        self._hook(call.value, "after")
        return _raise_fault(fault, call, created)

    def _progress(self, path: str) -> TaskProgress:
        with self._store.change() as state:
            task = state.tasks.get(path)
            if task is None or task.fault is FabricFault.TASK_LOST:
                state.tasks.pop(path, None)
                return TaskProgress(TaskOutcome.LOST)
            if task.fault is FabricFault.TASK_HANGS:
                return TaskProgress(TaskOutcome.RUNNING)
            task.looks -= 1
            if task.looks > 0:
                return TaskProgress(TaskOutcome.RUNNING)
            if task.fault in {FabricFault.TASK_FAILS, FabricFault.PORT_FAILS}:
                fail_task(state, task)
                return TaskProgress(TaskOutcome.FAILED, error=FabricError(f"{path}: the task failed"))
            if not task.ended:
                execute_task(state, task)
            return TaskProgress(TaskOutcome.COMPLETED, path=task.path)

    def _keeps_tag(self, path: str, identity: AttachmentIdentity) -> bool:
        with self._store.change() as state:
            found = state.objects.get(path)
            return found is None or parse_identity(found.name, found.description) == identity


def _raise_fault(fault: FabricFault | None, call: FabricCall, result: _T) -> _T:
    if error := make_fault_error(fault, call):
        raise error
    return result


def _add_task(state: FabricState, task: TaskState) -> CreatedObject:
    needs_task = task.fault in {
        FabricFault.TASK_FAILS,
        FabricFault.TASK_LOST,
        FabricFault.TASK_HANGS,
        FabricFault.PORT_FAILS,
    }
    if task.looks == 0 and not needs_task:
        execute_task(state, task)
        return CreatedObject(path=task.path)
    state.count += 1
    path = f"/tasks/{state.count}"
    state.tasks[path] = task
    return CreatedObject(task=path)


def _find_objects(state: FabricState, tag: str | None) -> TaggedObjects:
    chunks, connections, tasks = [], [], []
    health = {domain.id: domain.health for domain in state.domains}
    tagged = set()
    for path, each in sorted(state.objects.items(), key=lambda item: item[1].kind is ObjectKind.CONNECTION):
        identity = parse_identity(each.name, each.description)
        if identity is not None and tag not in {None, identity.tag}:
            identity = None
        if each.kind is ObjectKind.CHUNK and identity is not None:
            tagged.add(path)
            serial = int(path.rpartition("/")[2])
            chunks.append(
                ChunkObject(
                    path, "", identity, each.mebibytes, enabled=True, health=health[each.domain], serial=serial
                )
            )
        elif each.kind is ObjectKind.CONNECTION and (identity is not None or each.chunk in tagged):
            serial_of_accelerator = state.accelerators.index(each.accelerator) if each.accelerator else None
            connections.append(
                ConnectionObject(
                    path,
                    "",
                    identity,
                    each.host,
                    each.chunk,
                    enabled=True,
                    health=FabricHealth.OK,
                    serial=serial_of_accelerator,
                )
            )
    for path, task in state.tasks.items():
        identity = parse_identity(task.makes.name, task.makes.description) if task.makes else None
        if task.makes and identity and not task.ended and tag in {None, identity.tag}:
            tasks.append(RunningTask(path, identity, task.makes.kind))
    return TaggedObjects(tuple(chunks), tuple(connections), tuple(tasks))
