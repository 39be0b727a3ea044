"""The states of one claim on the node, as a table.

A claim is `absent` until its devices are recorded. It is `preparing` until the driver and the CDI spec are
done, `prepared` until its unprepare begins, and `unpreparing` until nothing is left of it. Devices are held in
every state except `absent`: a partly prepared claim keeps other claims away.
"""

from collections.abc import Mapping
from enum import Enum, StrEnum
from types import MappingProxyType
from typing import Final

__all__ = ["MOVES", "ClaimEvent", "ClaimState", "IllegalMoveError", "NextStep", "move", "next_step"]


class ClaimState(StrEnum):
    """State of a claim on this node."""

    ABSENT = "absent"
    PREPARING = "preparing"
    PREPARED = "prepared"
    UNPREPARING = "unpreparing"


class ClaimEvent(StrEnum):
    """Event of a claim on this node."""

    BEGIN_PREPARE = "begin prepare"
    FINISH_PREPARE = "finish prepare"
    BEGIN_UNPREPARE = "begin unprepare"
    FINISH_UNPREPARE = "finish unprepare"
    REBOOT = "reboot"


class IllegalMoveError(AssertionError):
    """An event that cannot happen in this state: a defect of the caller."""


_S, _E = ClaimState, ClaimEvent

MOVES: Final[Mapping[tuple[ClaimState, ClaimEvent], ClaimState]] = MappingProxyType(
    {
        (_S.ABSENT, _E.BEGIN_PREPARE): _S.PREPARING,
        (_S.PREPARING, _E.BEGIN_PREPARE): _S.PREPARING,  # a partly prepared claim is adopted
        (_S.PREPARING, _E.FINISH_PREPARE): _S.PREPARED,
        (_S.PREPARING, _E.BEGIN_UNPREPARE): _S.UNPREPARING,
        (_S.PREPARED, _E.BEGIN_UNPREPARE): _S.UNPREPARING,
        (_S.UNPREPARING, _E.BEGIN_UNPREPARE): _S.UNPREPARING,  # continued after a crash or an error
        (_S.UNPREPARING, _E.FINISH_UNPREPARE): _S.ABSENT,
        # The hardware lost its changes. The record of the claim that holds each device is still valid.
        (_S.PREPARED, _E.REBOOT): _S.PREPARING,
        (_S.PREPARING, _E.REBOOT): _S.PREPARING,
        (_S.UNPREPARING, _E.REBOOT): _S.UNPREPARING,
    }
)


def move(state: ClaimState, event: ClaimEvent) -> ClaimState:
    """Return the state after an event.

    Raises:
        IllegalMoveError: the event cannot happen in this state. Nothing has changed.
    """
    try:
        return MOVES[state, event]
    except KeyError:
        raise IllegalMoveError(f"a claim that is {state} can't {event}") from None


class NextStep(Enum):
    """The first step of a prepare, for a given record."""

    RECORD = "check the devices and record the claim"
    ADOPT = "let the driver prepare again what is recorded"
    ANSWER = "answer from the record"
    UNPREPARE = "take back what is recorded, then begin"


def next_step(state: ClaimState, *, same_devices: bool, same_boot: bool) -> NextStep:
    """Return the first step of a prepare.

    Args:
        state: the recorded state of the claim.
        same_devices: the record has the devices of the present allocation.
        same_boot: the record was written since the machine started.
    """
    match state:
        case ClaimState.ABSENT:
            return NextStep.RECORD
        case ClaimState.UNPREPARING:
            return NextStep.UNPREPARE
        case _ if not same_devices:
            # The claim was allocated again without an unprepare in between. The old devices must be released.
            return NextStep.UNPREPARE
        case ClaimState.PREPARED if same_boot:
            return NextStep.ANSWER
        case _:
            return NextStep.ADOPT
