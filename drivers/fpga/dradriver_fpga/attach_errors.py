"""Maps failures to reasons in a claim's status, and decides whether the card is at fault."""

from typing import Final

import dradriver as dra
from dradriver_fpga.bitstreams import BitstreamError
from dradriver_fpga.card import (
    BusyError,
    CardError,
    CardGoneError,
    IncompatibleError,
    ManagerFailedError,
    NoPermissionError,
    NotSupportedError,
    ProgrammingTimedOutError,
    TargetNotFoundError,
    TooLargeError,
    ToolFailedError,
    UnreadableBitstreamError,
    WrongDigestError,
)
from dradriver_fpga.offer import FAILED

__all__ = ["attach_error"]

_OF_THE_CLAIM: Final = {
    IncompatibleError: "Incompatible",
    NotSupportedError: "NotSupported",
    TooLargeError: "TooLarge",
    UnreadableBitstreamError: "Unreadable",
    WrongDigestError: "WrongDigest",
}
_OF_THE_CARD: Final = {
    BusyError: "Busy",
    CardGoneError: "CardGone",
    NoPermissionError: "NoPermission",
    ProgrammingTimedOutError: "TimedOut",
    TargetNotFoundError: "CardGone",
    ToolFailedError: "ToolFailed",
}


def attach_error(error: CardError | BitstreamError) -> dra.AttachError:
    """Return the failure in the form that the SDK expects.

    A failure of the card taints the device. A faulty bitstream of the claim does not, so other claims can use
    the device. The scheduler's backoff then delays the next attempt of the pod.
    """
    if isinstance(error, BitstreamError):
        return dra.AttachError(str(error), reason=error.reason, condition=FAILED, device_is_bad=False)
    if isinstance(error, ManagerFailedError):
        state = "".join(word.capitalize() for word in error.state.value.split())
        return dra.AttachError(str(error), reason=state, condition=FAILED)
    if reason := _OF_THE_CLAIM.get(type(error)):
        return dra.AttachError(str(error), reason=reason, condition=FAILED, device_is_bad=False)
    reason = _OF_THE_CARD.get(type(error), "ProgrammingFailed")
    return dra.AttachError(str(error), reason=reason, condition=FAILED)
