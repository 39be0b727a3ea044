"""Carries out what clients request, as tasks of the TaskService.

A request is in the state before it is answered, and its task continues after a restart:

| the process dies | then |
|---|---|
| before the request is written | nothing happened, and there is no task |
| after that, before the answer | the task runs after the restart; `Payload` has the request |
| after a connection is made, before the hook returns | the hook is called again with the same call |
| after the hook, before the task ends | the hook is called again with the same call |
"""

import asyncio
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

import msgspec

from dradriver_fabric_cxl.emulator.faults import Fault
from dradriver_fabric_cxl.emulator.hooks import HardwareError, HardwareHook
from dradriver_fabric_cxl.emulator.resources.messages import RedfishError, describe_error
from dradriver_fabric_cxl.emulator.resources.paths import CONNECTIONS, MONITORS, TASKS, parent_of
from dradriver_fabric_cxl.emulator.resources.tree import ResourceTree
from dradriver_fabric_cxl.emulator.settings import EmulatorSettings
from dradriver_fabric_cxl.emulator.storage import Body, Operation, Precondition, State, Storage
from dradriver_fabric_cxl.emulator.work.connections import Connections
from dradriver_fabric_cxl.emulator.work.memory import MemoryChunks

__all__ = ["TaskService"]

_KEPT_TASKS: Final = 200


class TaskService:
    """Runs operations one after another; their latencies overlap."""

    def __init__(
        self, settings: EmulatorSettings, storage: Storage, tree: ResourceTree, hook: HardwareHook
    ) -> None:
        self._settings, self._storage, self._tree, self._hook = settings, storage, tree, hook
        self._chunks = MemoryChunks(settings, tree)
        self._connections = Connections(settings, tree, self._chunks)
        self._turn = asyncio.Lock()
        self._running: dict[str, asyncio.Task[None]] = {}

    def accepts(self, method: str, path: str) -> bool:
        """Check whether a request creates or deletes a chunk or a connection."""
        if method == "POST":
            return path == CONNECTIONS or self._chunks.is_collection(path)
        return method == "DELETE" and self.accepts("POST", parent_of(path))

    async def resume(self) -> None:
        """Continue the operations that were interrupted."""
        for number, operation in self._storage.state.operations.items():
            if not operation.ended:
                self._start(number)

    async def stop(self) -> None:
        """End all operations. They continue after the next start."""
        running = list(self._running.values())
        for task in running:
            task.cancel()
        for task in running:
            with suppress(asyncio.CancelledError):
                await task

    async def request(
        self, method: str, path: str, body: Body, fault: Fault | None, precondition: Precondition, *, task: bool
    ) -> str:
        """Accept a request.

        Args:
            method: POST or DELETE.
            path: the collection, or the resource that is deleted.
            body: the new resource.
            fault: the failure of its task.
            precondition: called before the change.
            task: whether clients see a task.

        Returns:
            ID of the operation.

        Raises:
            RedfishError: the request cannot be carried out.
        """
        outcome = fault.task_state if fault and task else ""
        async with self._storage.change() as state:
            precondition(state)
            self._check(state, method, path, body)
            number = str(state.next_number())
            operation = Operation(method=method, path=path, body=body, outcome=outcome)
            operation.works = not outcome or (fault is not None and fault.work)
            state.operations[number] = operation
            if task and outcome != "lost":
                state.resources[f"{TASKS}/{number}"] = _task(number, operation)
        self._start(number)
        return number

    async def result(self, number: str) -> Operation:
        """Wait for the end of an operation without a task, and return it."""
        running = self._running.get(number)
        if running is not None:
            await asyncio.shield(running)
        async with self._storage.change() as state:
            return state.operations.pop(number)

    def _start(self, number: str) -> None:
        running = asyncio.create_task(self._run(number), name=f"operation-{number}")
        self._running[number] = running
        running.add_done_callback(lambda _: self._running.pop(number, None))

    async def _run(self, number: str) -> None:
        await asyncio.sleep(self._settings.latency)
        operation = self._storage.state.operations[number]
        try:
            async with self._turn:
                if operation.works:
                    await self._carry_out(number, operation)
                elif operation.outcome not in {"never ends", "lost"}:
                    async with self._storage.change() as state:
                        self._end(state, number)
        except (RedfishError, HardwareError) as error:
            async with self._storage.change() as state:
                self._end(state, number, error)

    def _check(self, state: State, method: str, path: str, body: Body) -> None:
        if method == "DELETE":
            if self._chunks.is_collection(parent_of(path)):
                self._chunks.check_removal(state, path)
        elif path == CONNECTIONS:
            self._connections.check(state, body)
        else:
            self._chunks.check(state, path, body)

    async def _carry_out(self, number: str, operation: Operation) -> None:
        path = operation.path
        if operation.method == "POST" and path == CONNECTIONS:
            await self._connect(number)
        elif operation.method == "DELETE" and parent_of(path) == CONNECTIONS:
            await self._disconnect(number, path)
        else:
            async with self._storage.change() as state:
                if operation.method == "POST":
                    self._chunks.check(state, path, operation.body)
                    state.operations[number].location = self._chunks.make(state, path, operation.body)
                else:
                    self._chunks.remove(state, path)
                self._end(state, number)

    async def _connect(self, number: str) -> None:
        if not self._storage.state.operations[number].location:
            async with self._storage.change() as state:
                operation = state.operations[number]
                self._connections.check(state, operation.body)
                operation.location = self._connections.make(state, operation.body)
        path = self._storage.state.operations[number].location
        try:
            await self._hook(self._connections.connect_call(self._storage.state, path))
        except HardwareError as error:
            async with self._storage.change() as state:
                self._connections.remove(state, path)
                self._end(state, number, error)
            return
        async with self._storage.change() as state:
            self._connections.set_state(state, path, "Enabled")
            self._end(state, number)

    async def _disconnect(self, number: str, path: str) -> None:
        async with self._storage.change() as state:
            self._connections.set_state(state, path, "Disabled")
        try:
            await self._hook(self._connections.disconnect_call(self._storage.state, path))
        except HardwareError as error:
            async with self._storage.change() as state:
                self._connections.set_state(state, path, "Enabled")
                self._end(state, number, error)
            return
        async with self._storage.change() as state:
            self._connections.remove(state, path)
            self._end(state, number)

    def _end(self, state: State, number: str, error: RedfishError | HardwareError | None = None) -> None:
        operation = state.operations[number]
        operation.works = False
        if operation.outcome == "never ends":
            return
        task_state = operation.outcome if operation.outcome not in {"", "lost"} else "Completed"
        operation.status = 201 if operation.method == "POST" else 204
        if task_state != "Completed":
            error = RedfishError(500, "OperationFailed", f"The task ended in the state {task_state}.")
        if error is not None:
            task_state = "Exception" if task_state == "Completed" else task_state
            operation.error = str(error)
            operation.status = error.status if isinstance(error, RedfishError) else 500
            operation.message = error.message_id if isinstance(error, RedfishError) else "InternalError"
        operation.ended = True
        task = state.resources.get(f"{TASKS}/{number}")
        if task is not None:
            _end_task(task, operation, task_state)
        _forget_old_tasks(state)


def _task(number: str, operation: Operation) -> Body:
    path = f"{TASKS}/{number}"
    return {
        "@odata.id": path,
        "@odata.type": "#Task.v1_7_4.Task",
        "Id": number,
        "Name": f"Task {number}",
        "TaskState": "Running",
        "TaskStatus": "OK",
        "StartTime": _now(),
        "TaskMonitor": f"{MONITORS}/{number}",
        "Payload": {
            "HttpOperation": operation.method,
            "TargetUri": operation.path,
            "HttpHeaders": [],
            "JsonBody": msgspec.json.encode(operation.body).decode(),
        },
        "Messages": [],
    }


def _end_task(task: Body, operation: Operation, task_state: str) -> None:
    task |= {"TaskState": task_state, "EndTime": _now()}
    if operation.error:
        details = describe_error(operation.message, operation.error)["error"]["@Message.ExtendedInfo"]
        task |= {"TaskStatus": "Critical", "Messages": details}
    elif operation.location:
        task["Links"] = {"CreatedResources": [{"@odata.id": operation.location}]}


def _forget_old_tasks(state: State) -> None:
    ended = [number for number, operation in state.operations.items() if operation.ended]
    for number in ended[:-_KEPT_TASKS]:
        del state.operations[number]
        state.resources.pop(f"{TASKS}/{number}", None)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
