"""What a simulated manager accepts, and the effect of its tasks. Pure."""

from typing import Final

from dradriver_fabric_cxl.fabric.errors import (
    FabricConflictError,
    FabricError,
    NoCapacityError,
    ObjectNotFoundError,
    RequestRefusedError,
)
from dradriver_fabric_cxl.fabric.objects import ObjectKind
from dradriver_fabric_cxl.fabric.simulator.faults import FabricFault
from dradriver_fabric_cxl.fabric.simulator.state import FabricState, ObjectState, TaskState
from dradriver_fabric_cxl.fabric.tags import parse_identity
from dradriver_fabric_cxl.fabric.values import (
    Accelerator,
    FabricHealth,
    FabricInventory,
    Host,
    MemoryChunk,
    MemoryDomain,
)

__all__ = ["execute_task", "fail_task", "find_obstacle", "make_inventory"]

_MINIMUM: Final = 256


def find_obstacle(state: FabricState, task: TaskState) -> FabricError | None:
    """Return why a request cannot be executed; None if it can.

    Args:
        state: the fabric.
        task: the task of the request.
    """
    new = task.makes
    if new is None:
        if task.path not in state.objects:
            return ObjectNotFoundError(f"{task.path} does not exist")
        used = any(each.chunk == task.path for each in state.objects.values())
        return FabricConflictError(f"{task.path} is connected") if used else None
    existing = [*state.objects.values(), *(each.makes for each in state.tasks.values() if _is_running(each))]
    present = [each for each in existing if each is not None]
    return (
        _find_chunk_obstacle(state, new, present)
        if new.kind is ObjectKind.CHUNK
        else _find_connection_obstacle(state, new, present)
    )


def execute_task(state: FabricState, task: TaskState) -> None:
    """Make or delete the object of a task, and record its path in the task.

    Args:
        state: the fabric.
        task: the task.
    """
    if task.makes is None:
        state.objects.pop(task.path, None)
    else:
        state.count += 1
        task.path = f"/{task.makes.kind.value}s/{state.count}"
        if task.fault is FabricFault.TAG_DROPPED:
            task.makes.name, task.makes.description = task.makes.kind.value, ""
        state.objects[task.path] = task.makes
    task.ended = True
    state.revision += 1


def fail_task(state: FabricState, task: TaskState) -> None:
    """End a task as failed. If the port of its host fails, the host gets a warning.

    Args:
        state: the fabric.
        task: the task.
    """
    task.ended = True
    if task.fault is FabricFault.PORT_FAILS and task.makes is not None:
        for host in state.hosts:
            if host.id == task.makes.host:
                host.health = FabricHealth.WARNING
        state.revision += 1


def make_inventory(state: FabricState) -> FabricInventory:
    """Return the resources of the fabric.

    Args:
        state: the fabric.
    """
    domains = []
    for domain in state.domains:
        chunks = tuple(
            MemoryChunk(each.mebibytes, parse_identity(each.name, each.description))
            for each in state.objects.values()
            if each.kind is ObjectKind.CHUNK and each.domain == domain.id
        )
        domains.append(
            MemoryDomain(
                domain.id,
                domain.mebibytes,
                minimum=_MINIMUM,
                increment=_MINIMUM,
                makes_chunks=True,
                health=domain.health,
                chunks=chunks,
                switch="switch-0",
            )
        )
    hosts = (Host(each.id, each.system, each.max_attachments, each.health) for each in state.hosts)
    accelerators = (Accelerator(each, "0x10de", "0x2331", FabricHealth.OK) for each in state.accelerators)
    return FabricInventory("simulated", tuple(domains), tuple(hosts), tuple(accelerators))


def _is_running(task: TaskState) -> bool:
    return not task.ended and task.fault not in {
        FabricFault.TASK_FAILS,
        FabricFault.TASK_LOST,
        FabricFault.PORT_FAILS,
    }


def _find_chunk_obstacle(
    state: FabricState, new: ObjectState, present: list[ObjectState]
) -> FabricError | None:
    domain = next((each for each in state.domains if each.id == new.domain), None)
    if domain is None:
        return ObjectNotFoundError(f"memory domain {new.domain} does not exist")
    if new.mebibytes < _MINIMUM or new.mebibytes % _MINIMUM:
        return RequestRefusedError(f"MemoryChunkSizeMiB {new.mebibytes}: must be a multiple of {_MINIMUM}")
    used = sum(each.mebibytes for each in present if each.domain == new.domain)
    if used + new.mebibytes > domain.mebibytes:
        return NoCapacityError(f"memory domain {new.domain} has {domain.mebibytes - used} MiB left")
    return None


def _find_connection_obstacle(
    state: FabricState, new: ObjectState, present: list[ObjectState]
) -> FabricError | None:
    host = next((each for each in state.hosts if each.id == new.host), None)
    if host is None:
        return ObjectNotFoundError(f"host {new.host} does not exist")
    if new.accelerator and new.accelerator not in state.accelerators:
        return ObjectNotFoundError(f"accelerator {new.accelerator} does not exist")
    if new.chunk and new.chunk not in state.objects:
        return ObjectNotFoundError(f"{new.chunk} does not exist")
    if new.chunk and any(each.chunk == new.chunk for each in present):
        return FabricConflictError(f"{new.chunk} is connected")
    if new.accelerator and any(each.accelerator == new.accelerator for each in present):
        return FabricConflictError(f"accelerator {new.accelerator} is connected")
    if sum(each.host == new.host for each in present) >= host.max_attachments:
        return NoCapacityError(f"host {new.host} has its maximum of {host.max_attachments} attachments")
    return None
