"""The errors of the node side."""

import asyncio

from dradriver.errors import DraError, InvalidObjectError

__all__ = [
    "AllocationEndedError",
    "ClaimError",
    "DeviceInUseError",
    "InProgressError",
    "IncompleteStateError",
    "InvalidConfigError",
    "NotAttachedError",
    "RegistrationError",
    "StateError",
    "StillRunningError",
]


class ClaimError(DraError):
    """The claim cannot be prepared: it is gone, replaced, not allocated, or allocated for another node."""


class AllocationEndedError(ClaimError):
    """The allocation for which a device was to be used does not exist any more."""


class DeviceInUseError(ClaimError):
    """The claim's devices conflict with those of another prepared claim; the message names both claims."""


class InvalidConfigError(InvalidObjectError):
    """The driver rejects the opaque configuration of the claim or of its DeviceClass."""


class InProgressError(DraError):
    """The work continues in the background; the caller must retry."""


class NotAttachedError(InProgressError):
    """The pool driver has not attached a device of the claim yet; nothing was recorded or prepared."""


class StateError(DraError):
    """Prepared state, a CDI spec or device metadata cannot be read or written (disk full, damaged file)."""


class IncompleteStateError(StateError):
    """The state may lack prepared claims of this node, because its file is new or was replaced."""


class RegistrationError(DraError):
    """The kubelet rejected the driver's registration, or never called the registration socket."""


class StillRunningError(asyncio.CancelledError):
    """The caller was canceled, but the driver's method continues in its thread and cannot be stopped."""
