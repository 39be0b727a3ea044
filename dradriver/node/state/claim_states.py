"""The life of one claim on the node, as a table.

A claim is `absent` until its devices are recorded, `preparing` from then until the driver and the CDI spec
are done, `prepared` until its unprepare begins, and `unpreparing` until nothing is left of it. Devices are
held in every state but `absent`: a half made claim keeps others away.
"""

from collections.abc import Mapping
from enum import Enum, StrEnum
from types import MappingProxyType
from typing import Final

__all__ = ["MOVES", "ClaimEvent", "ClaimState", "IllegalMoveError", "NextStep", "move", "next_step"]


class ClaimState(StrEnum):
    """Where a claim stands on this node."""

    ABSENT = "absent"
    PREPARING = "preparing"
    PREPARED = "prepared"
    UNPREPARING = "unpreparing"


class ClaimEvent(StrEnum):
    """What happens to a claim on this node."""

    BEGIN_PREPARE = "begin prepare"
    FINISH_PREPARE = "finish prepare"
    BEGIN_UNPREPARE = "begin unprepare"
    FINISH_UNPREPARE = "finish unprepare"
    REBOOT = "reboot"


class IllegalMoveError(AssertionError):
    """An event that can't happen in this state: a defect of the caller."""


_S, _E = ClaimState, ClaimEvent

MOVES: Final[Mapping[tuple[ClaimState, ClaimEvent], ClaimState]] = MappingProxyType(
    {
        (_S.ABSENT, _E.BEGIN_PREPARE): _S.PREPARING,
        (_S.PREPARING, _E.BEGIN_PREPARE): _S.PREPARING,  # a half made claim is adopted
        (_S.PREPARING, _E.FINISH_PREPARE): _S.PREPARED,
        (_S.PREPARING, _E.BEGIN_UNPREPARE): _S.UNPREPARING,
        (_S.PREPARED, _E.BEGIN_UNPREPARE): _S.UNPREPARING,
        (_S.UNPREPARING, _E.BEGIN_UNPREPARE): _S.UNPREPARING,  # continued after a crash or an error
        (_S.UNPREPARING, _E.FINISH_UNPREPARE): _S.ABSENT,
        # The hardware forgot what was done to it; the record of who holds which device is still true.
        (_S.PREPARED, _E.REBOOT): _S.PREPARING,
        (_S.PREPARING, _E.REBOOT): _S.PREPARING,
        (_S.UNPREPARING, _E.REBOOT): _S.UNPREPARING,
    }
)


def move(state: ClaimState, event: ClaimEvent) -> ClaimState:
    """The state after an event.

    Raises:
        IllegalMoveError: the event can't happen in this state; nothing has changed.
    """
    try:
        return MOVES[state, event]
    except KeyError:
        raise IllegalMoveError(f"a claim that is {state} can't {event}") from None


class NextStep(Enum):
    """What a prepare has to do first, given what is recorded."""

    RECORD = "check the devices and record the claim"
    ADOPT = "let the driver prepare again what is recorded"
    ANSWER = "answer from the record"
    UNPREPARE = "take back what is recorded, then begin"


def next_step(state: ClaimState, *, same_devices: bool, same_boot: bool) -> NextStep:
    """What a prepare has to do first.

    Args:
        state: what is recorded of the claim.
        same_devices: the record is about the devices that the claim is allocated now.
        same_boot: the record was made since the machine started.
    """
    match state:
        case ClaimState.ABSENT:
            return NextStep.RECORD
        case ClaimState.UNPREPARING:
            return NextStep.UNPREPARE
        case _ if not same_devices:
            # Allocated anew without an unprepare in between: the old devices must not stay behind.
            return NextStep.UNPREPARE
        case ClaimState.PREPARED if same_boot:
            return NextStep.ANSWER
        case _:
            return NextStep.ADOPT
