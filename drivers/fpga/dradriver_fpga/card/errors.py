"""Errors of the hardware: one class for each error that callers distinguish."""

import dradriver as dra
from dradriver_fpga.card.values import ManagerState

__all__ = [
    "BusyError",
    "CardGoneError",
    "FpgaError",
    "FpgaNotSupportedError",
    "FpgaPermissionError",
    "IncompatibleError",
    "ManagerFailedError",
    "ProgrammingTimedOutError",
    "TargetNotFoundError",
    "TooLargeError",
    "ToolFailedError",
    "UnreadableBitstreamError",
    "WrongDigestError",
]


class FpgaError(dra.DraError):
    """Hardware rejected a call or failed. This class itself covers errors that callers do not distinguish."""


class TargetNotFoundError(FpgaError):
    """The card or region does not exist."""


class CardGoneError(FpgaError):
    """The card was pulled, or fell off the bus, during a call."""


class FpgaNotSupportedError(FpgaError):
    """This card or this node does not support the call."""


class FpgaPermissionError(FpgaError):
    """The kernel denies the call: the process lacks root rights or a device node."""


class BusyError(FpgaError):
    """The card's manager is programming. The call can be tried again."""


class UnreadableBitstreamError(FpgaError):
    """The file cannot be read, or its content does not have the format that its first bytes indicate."""


class TooLargeError(FpgaError):
    """The file is larger than the allowed size or than the region."""


class WrongDigestError(FpgaError):
    """The file's digest is not the requested one."""


class IncompatibleError(FpgaError):
    """The bitstream was made for another interface than the card's present interface."""


class ManagerFailedError(FpgaError):
    """The manager ended in an error state. The card can be programmed again.

    Attributes:
        state: the error state.
    """

    def __init__(self, message: str, state: ManagerState) -> None:
        self.state = state
        super().__init__(message)


class ProgrammingTimedOutError(FpgaError):
    """Programming did not end in time. The content of the card is unknown."""


class ToolFailedError(FpgaError):
    """The vendor's program is missing or failed. The message ends with its last output."""
