"""Kinds of faults of a card, and faults as values."""

import enum
from dataclasses import dataclass

__all__ = ["Fault", "FaultKind"]


class FaultKind(enum.Enum):
    """Kind of a fault, the most severe first."""

    FATAL_ERROR = "the card has detected a catastrophic or fatal error"
    OFFLINE = "the card's driver has taken the card offline"
    OVERHEATED = "a temperature has reached its critical threshold"
    POWERED_DOWN = "the card has switched off a port's logic (AP6)"
    MEMORY_ERROR = "the card's memory has an error that it cannot correct"
    ERROR = "an error register of the card is not zero"
    NO_ANSWER = "the logic of a region does not answer"
    PROGRAMMING_FAILED = "the manager is in an error state"

    @property
    def is_repaired_by_programming(self) -> bool:
        """Whether programming the region ends the fault."""
        return self in {FaultKind.NO_ANSWER, FaultKind.PROGRAMMING_FAILED}


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault, which lasts until the card no longer reports it.

    Attributes:
        kind: kind of the fault.
        region: ID of the region; "" if the whole card is concerned, or if several regions share the manager,
            because the manager does not report which region failed.
        message: text for people.
    """

    kind: FaultKind
    region: str
    message: str
