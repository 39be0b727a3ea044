"""What hardware answers instead of doing what it was asked. A class for each answer that callers tell apart."""

import dradriver as dra
from dradriver_fpga.card.values import ManagerState

__all__ = [
    "BusyError",
    "CardError",
    "CardGoneError",
    "IncompatibleError",
    "ManagerFailedError",
    "NoPermissionError",
    "NotSupportedError",
    "ProgrammingTimedOutError",
    "TargetNotFoundError",
    "TooLargeError",
    "ToolFailedError",
    "UnreadableBitstreamError",
    "WrongDigestError",
]


class CardError(dra.DraError):
    """Hardware refused or failed; this very class for answers that nobody tells apart."""


class TargetNotFoundError(CardError):
    """There is no such card or region."""


class CardGoneError(CardError):
    """The card was pulled, or fell off the bus, while something was done with it."""


class NotSupportedError(CardError):
    """This card, or this node, can't do that."""


class NoPermissionError(CardError):
    """The kernel lets only others do that: the process lacks root or a device node."""


class BusyError(CardError):
    """Its manager programs something else: to be tried again."""


class UnreadableBitstreamError(CardError):
    """The file can't be read, or is not what its format promises."""


class TooLargeError(CardError):
    """The file is larger than what may be programmed, or than the region."""


class WrongDigestError(CardError):
    """The file's content is not what was asked for."""


class IncompatibleError(CardError):
    """The bitstream was made for another interface than the one that the card has now."""


class ManagerFailedError(CardError):
    """The manager ended in an error state; the card can be programmed again.

    Attributes:
        state: where it ended.
    """

    def __init__(self, message: str, state: ManagerState) -> None:
        self.state = state
        super().__init__(message)


class ProgrammingTimedOutError(CardError):
    """Programming did not end in time; what the card holds is unknown."""


class ToolFailedError(CardError):
    """The vendor's program is missing, or ended with an error; its last words are in the message."""
