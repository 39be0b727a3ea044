"""Failures of a simulated manager. A failure is stored with the state: it survives a restart."""

import enum
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from dradriver_fabric_cxl.fabric.errors import (
    AnswerLostError,
    FabricConflictError,
    FabricError,
    ManagerBusyError,
    ManagerUnreachableError,
    NoCapacityError,
    RequestRefusedError,
)

__all__ = ["FabricCall", "FabricFault", "PlannedFault", "make_fault_error"]


class FabricCall(enum.Enum):
    """A call that can fail."""

    READ = "read"
    CREATE_CHUNK = "create chunk"
    CREATE_CONNECTION = "create connection"
    DELETE = "delete"


class FabricFault(enum.Enum):
    """A failure of a call."""

    UNREACHABLE = "the manager cannot be reached"
    BUSY = "the manager is busy"
    CONFLICT = "another request uses the resource"
    NO_CAPACITY = "no room"
    REFUSED = "the request is invalid"
    REQUEST_LOST = "the connection broke before the request arrived"
    ANSWER_LOST = "the connection broke after the request was executed"
    TASK_FAILS = "the task fails"
    TASK_LOST = "the task disappears and does nothing"
    TASK_HANGS = "the task never ends"
    PORT_FAILS = "the task fails, and the host's port has a warning from then on"
    TAG_DROPPED = "the object is made without its name"


class PlannedFault(msgspec.Struct):
    """A failure of the next calls of a kind."""

    call: FabricCall
    fault: FabricFault
    times: int


_ERRORS: Final[Mapping[FabricFault, Callable[[str], FabricError]]] = {
    FabricFault.UNREACHABLE: ManagerUnreachableError,
    FabricFault.BUSY: ManagerBusyError,
    FabricFault.CONFLICT: FabricConflictError,
    FabricFault.NO_CAPACITY: NoCapacityError,
    FabricFault.REFUSED: RequestRefusedError,
    FabricFault.REQUEST_LOST: AnswerLostError,
    FabricFault.ANSWER_LOST: AnswerLostError,
}


def make_fault_error(fault: FabricFault | None, call: FabricCall) -> FabricError | None:
    """Return the error that a call raises for a failure; None if it raises none.

    Args:
        fault: the failure, if there is one.
        call: the call.
    """
    make = None if fault is None else _ERRORS.get(fault)
    return None if make is None or fault is None else make(f"{call.value}: {fault.value}")
