"""The states of a claim on the node, and a table of the allowed changes of state.

A claim is `absent` until its devices are recorded. It is `preparing` until the driver has prepared it and the
CDI spec is written. It is `prepared` until its unprepare begins, and `unpreparing` until its record is deleted.
The claim holds its devices in every state except `absent`, so no other claim gets devices of a partly prepared
claim.
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
    """The event is not allowed in this state, which is a defect of the caller."""


_S, _E = ClaimState, ClaimEvent

MOVES: Final[Mapping[tuple[ClaimState, ClaimEvent], ClaimState]] = MappingProxyType(
    {
        (_S.ABSENT, _E.BEGIN_PREPARE): _S.PREPARING,
        (_S.PREPARING, _E.BEGIN_PREPARE): _S.PREPARING,  # the driver is called again after a crash or an error
        (_S.PREPARING, _E.FINISH_PREPARE): _S.PREPARED,
        (_S.PREPARING, _E.BEGIN_UNPREPARE): _S.UNPREPARING,
        (_S.PREPARED, _E.BEGIN_UNPREPARE): _S.UNPREPARING,
        (_S.UNPREPARING, _E.BEGIN_UNPREPARE): _S.UNPREPARING,  # continued after a crash or an error
        (_S.UNPREPARING, _E.FINISH_UNPREPARE): _S.ABSENT,
        # A reboot reverts changes of the hardware. The records of which claim holds which device stay valid.
        (_S.PREPARED, _E.REBOOT): _S.PREPARING,
        (_S.PREPARING, _E.REBOOT): _S.PREPARING,
        (_S.UNPREPARING, _E.REBOOT): _S.UNPREPARING,
    }
)


def move(state: ClaimState, event: ClaimEvent) -> ClaimState:
    """Return the state after an event.

    Raises:
        IllegalMoveError: the event is not allowed in this state.
    """
    try:
        return MOVES[state, event]
    except KeyError:
        raise IllegalMoveError(f'claim state {state}: event "{event}" is not allowed') from None


class NextStep(Enum):
    """The first step of a prepare, which depends on the claim's record."""

    RECORD = "check the devices and record the claim"
    ADOPT = "call the driver again for the record"
    ANSWER = "answer from the record"
    UNPREPARE = "revert the recorded prepare, then begin"


def next_step(state: ClaimState, *, same_devices: bool, same_boot: bool) -> NextStep:
    """Return the first step of a prepare.

    Args:
        state: the recorded state of the claim.
        same_devices: whether the record has the devices of the present allocation.
        same_boot: whether the record was written since the machine started.
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
