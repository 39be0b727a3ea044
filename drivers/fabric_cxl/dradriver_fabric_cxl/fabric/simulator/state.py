"""State of a simulated fabric, in memory or in a file."""

from pathlib import Path
from typing import TypeAlias

import msgspec

from dradriver.testing import SimulatedState, StateInFile, StateInMemory
from dradriver_fabric_cxl.fabric.objects import ObjectKind
from dradriver_fabric_cxl.fabric.simulator.faults import FabricCall, FabricFault, PlannedFault
from dradriver_fabric_cxl.fabric.values import FabricHealth

__all__ = [
    "DomainState",
    "FabricFileStore",
    "FabricMemoryStore",
    "FabricState",
    "FabricStore",
    "HostState",
    "ObjectState",
    "TaskState",
    "default_domains",
    "default_hosts",
    "take_fault",
]


class DomainState(msgspec.Struct):
    """A memory domain."""

    id: str
    mebibytes: int
    health: FabricHealth = FabricHealth.OK


class HostState(msgspec.Struct):
    """A host."""

    id: str
    system: str
    max_attachments: int
    health: FabricHealth = FabricHealth.OK


class ObjectState(msgspec.Struct):
    """A chunk or a connection. A field that does not apply is empty."""

    kind: ObjectKind
    name: str
    description: str
    domain: str = ""
    mebibytes: int = 0
    host: str = ""
    chunk: str = ""
    accelerator: str = ""


class TaskState(msgspec.Struct):
    """A task that makes an object, or deletes the object at `path`. It ends after `looks` looks."""

    looks: int
    makes: ObjectState | None = None
    path: str = ""
    fault: FabricFault | None = None
    ended: bool = False


def default_domains() -> list[DomainState]:
    """Return two domains of 64 and 32 GiB."""
    return [DomainState("pool-a", 64 << 10), DomainState("pool-b", 32 << 10)]


def default_hosts() -> list[HostState]:
    """Return four hosts with four attachments each."""
    return [HostState(f"host-{n}", f"00000000-0000-4000-8000-00000000000{n}", 4) for n in range(4)]


class FabricState(msgspec.Struct):
    """A whole fabric.

    Attributes:
        objects: chunks and connections by path.
        tasks: tasks by path, ended ones too.
        faults: failures of the next calls.
        count: number of objects and tasks ever made.
        revision: number of changes.
    """

    domains: list[DomainState] = msgspec.field(default_factory=default_domains)
    hosts: list[HostState] = msgspec.field(default_factory=default_hosts)
    accelerators: list[str] = msgspec.field(default_factory=lambda: ["gpu-0"])
    objects: dict[str, ObjectState] = {}
    tasks: dict[str, TaskState] = {}
    faults: list[PlannedFault] = []
    count: int = 0
    revision: int = 0


def take_fault(state: FabricState, call: FabricCall) -> FabricFault | None:
    """Return the failure of this call, and count it; None if the call does not fail.

    Args:
        state: the fabric.
        call: the call.
    """
    for planned in state.faults:
        if planned.call is call and planned.times > 0:
            planned.times -= 1
            return planned.fault
    return None


FabricStore: TypeAlias = SimulatedState[FabricState]
"""Holds the state of a fabric."""


class FabricMemoryStore(StateInMemory[FabricState]):
    """State that is lost with the process."""

    def __init__(self) -> None:
        super().__init__(FabricState)


class FabricFileStore(StateInFile[FabricState]):
    """State that outlives the process and that several processes share."""

    def __init__(self, path: Path) -> None:
        super().__init__(FabricState, path)
