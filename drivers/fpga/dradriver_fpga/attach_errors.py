"""Converts failures to reasons in a claim's status, and decides whether the card is at fault."""

from typing import Final

import dradriver as dra
from dradriver_fpga.bitstreams import BitstreamError
from dradriver_fpga.card import (
    BusyError,
    CardGoneError,
    FpgaError,
    FpgaNotSupportedError,
    FpgaPermissionError,
    IncompatibleError,
    ManagerFailedError,
    ProgrammingTimedOutError,
    TargetNotFoundError,
    TooLargeError,
    ToolFailedError,
    UnreadableBitstreamError,
    WrongDigestError,
)
from dradriver_fpga.offer import FAILED

__all__ = ["to_attach_error"]

_REASONS_OF_THE_CLAIM: Final = {
    IncompatibleError: "Incompatible",
    FpgaNotSupportedError: "NotSupported",
    TooLargeError: "TooLarge",
    UnreadableBitstreamError: "Unreadable",
    WrongDigestError: "WrongDigest",
}
_REASONS_OF_THE_CARD: Final = {
    BusyError: "Busy",
    CardGoneError: "CardGone",
    FpgaPermissionError: "NoPermission",
    ProgrammingTimedOutError: "TimedOut",
    TargetNotFoundError: "CardGone",
    ToolFailedError: "ToolFailed",
}


def to_attach_error(error: FpgaError | BitstreamError) -> dra.AttachError:
    """Return the failure as an error that the SDK expects.

    A failure of the card taints the device. If the claim's bitstream is at fault, the device is not tainted, so
    other claims can use it. In this case, only the scheduler's backoff delays the next attempt of the pod.
    """
    if isinstance(error, BitstreamError):
        return dra.AttachError(str(error), reason=error.reason, condition=FAILED, device_is_bad=False)
    if isinstance(error, ManagerFailedError):
        state = "".join(word.capitalize() for word in error.state.value.split())
        return dra.AttachError(str(error), reason=state, condition=FAILED)
    if reason := _REASONS_OF_THE_CLAIM.get(type(error)):
        return dra.AttachError(str(error), reason=reason, condition=FAILED, device_is_bad=False)
    reason = _REASONS_OF_THE_CARD.get(type(error), "ProgrammingFailed")
    return dra.AttachError(str(error), reason=reason, condition=FAILED)
