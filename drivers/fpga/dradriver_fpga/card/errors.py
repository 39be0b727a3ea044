"""Errors of the hardware: one class for each error that callers distinguish."""

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
    """Hardware rejected a call or failed. This class itself covers errors that callers do not distinguish."""


class TargetNotFoundError(CardError):
    """There is no such card or region."""


class CardGoneError(CardError):
    """The card was pulled, or fell off the bus, during a call."""


class NotSupportedError(CardError):
    """This card or this node does not support the call."""


class NoPermissionError(CardError):
    """The kernel denies the call: the process lacks root or a device node."""


class BusyError(CardError):
    """The card's manager is programming. The call can be tried again."""


class UnreadableBitstreamError(CardError):
    """The file cannot be read, or does not have the format that its beginning indicates."""


class TooLargeError(CardError):
    """The file is larger than the allowed size or than the region."""


class WrongDigestError(CardError):
    """The file's digest is not the requested one."""


class IncompatibleError(CardError):
    """The bitstream was made for another interface than the card's present one."""


class ManagerFailedError(CardError):
    """The manager ended in an error state. The card can be programmed again.

    Attributes:
        state: the error state.
    """

    def __init__(self, message: str, state: ManagerState) -> None:
        self.state = state
        super().__init__(message)


class ProgrammingTimedOutError(CardError):
    """Programming did not end in time. The content of the card is unknown."""


class ToolFailedError(CardError):
    """The vendor's program is missing or failed. The message ends with its last output."""
