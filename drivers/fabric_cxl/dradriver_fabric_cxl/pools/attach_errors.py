"""Converts failures of the fabric to reasons in a claim's status, and decides whether the device is bad."""

from typing import Final

import dradriver as dra
from dradriver_fabric_cxl.fabric import (
    AttachTimedOutError,
    FabricConflictError,
    FabricError,
    ManagerBusyError,
    ManagerUnreachableError,
    NoCapacityError,
    ObjectNotFoundError,
    RequestRefusedError,
    TagNotKeptError,
)
from dradriver_fabric_cxl.names import ATTACH_FAILED, TIMED_OUT

__all__ = ["to_attach_error"]

_REASONS_OF_THE_FABRIC: Final = (
    (NoCapacityError, "NoCapacity"),
    (ObjectNotFoundError, "NotFound"),
    (RequestRefusedError, "Refused"),
    (FabricConflictError, "Conflict"),
    (ManagerBusyError, "ManagerBusy"),
    (ManagerUnreachableError, "ManagerUnreachable"),
    (TagNotKeptError, "TagNotKept"),
)
"""Failures of which a taint of the device would help nobody. The first class that fits gives the reason."""


def to_attach_error(error: FabricError) -> dra.AttachError:
    """Return the failure as an error that the SDK expects.

    If the manager worked on the device and failed, the device is tainted. Otherwise only the scheduler's
    backoff delays the next attempt of the pod.

    Args:
        error: the failure.
    """
    if isinstance(error, AttachTimedOutError):
        return dra.AttachError(str(error), reason="TimedOut", condition=TIMED_OUT)
    for kind, reason in _REASONS_OF_THE_FABRIC:
        if isinstance(error, kind):
            return dra.AttachError(str(error), reason=reason, condition=ATTACH_FAILED, device_is_bad=False)
    return dra.AttachError(str(error), reason="AttachFailed", condition=ATTACH_FAILED)
