"""The errors of the node side."""

import asyncio

from dradriver.errors import DraError, InvalidObjectError

__all__ = [
    "ClaimError",
    "DeviceInUseError",
    "InProgressError",
    "IncompleteStateError",
    "InvalidConfigError",
    "RegistrationError",
    "StateError",
    "StillRunningError",
]


class ClaimError(DraError):
    """The claim cannot be prepared as it is: gone, replaced, not allocated, or allocated elsewhere."""


class DeviceInUseError(ClaimError):
    """The claim's devices conflict with those of another prepared claim; the message names both claims."""


class InvalidConfigError(InvalidObjectError):
    """The driver rejects the opaque configuration of the claim or of its class."""


class InProgressError(DraError):
    """The work continues in the background; the caller retries."""


class StateError(DraError):
    """Prepared state, a CDI spec or device metadata cannot be read or written: disk full, damaged file."""


class IncompleteStateError(StateError):
    """The state does not have every prepared claim of this node (yet), because its file is new."""


class RegistrationError(DraError):
    """The kubelet rejected the driver, or never asked for it."""


class StillRunningError(asyncio.CancelledError):
    """The caller was canceled, but the driver's method continues in its thread and cannot be stopped."""
