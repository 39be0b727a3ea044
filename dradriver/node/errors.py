"""What the node side refuses, and why."""

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
    """A claim can't be prepared as it is: gone, replaced, not allocated, or allocated elsewhere."""


class DeviceInUseError(ClaimError):
    """The claim's devices collide with those of another prepared claim; the message names both claims."""


class InvalidConfigError(InvalidObjectError):
    """The opaque configuration of the claim, or of its class, is not one that the driver takes."""


class InProgressError(DraError):
    """The work goes on in the background; the caller asks again."""


class StateError(DraError):
    """Prepared state, a CDI spec or device metadata can't be read or written: disk full, damaged file."""


class IncompleteStateError(StateError):
    """The state does not know every claim that is prepared here (yet): its file is new."""


class RegistrationError(DraError):
    """The kubelet refused the driver, or never asked for it."""


class StillRunningError(asyncio.CancelledError):
    """The waiting was cancelled, but the driver's method goes on in its thread: nothing can stop it."""
