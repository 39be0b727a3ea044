"""Errors of the hardware: one class for each answer that callers distinguish."""

from collections.abc import Mapping
from typing import Final

import dradriver as dra

__all__ = [
    "CardError",
    "DriverNotLoadedError",
    "FunctionNotFoundError",
    "GpuLostError",
    "GpuNotFoundError",
    "InUseError",
    "InstanceNotFoundError",
    "InsufficientResourcesError",
    "InvalidArgumentError",
    "LibraryNotFoundError",
    "NoPermissionError",
    "NotSupportedError",
    "ResetRequiredError",
    "VersionMismatchError",
    "error_of",
]


class CardError(dra.DraError):
    """Hardware rejected a call or failed. This class itself covers answers that callers do not distinguish.

    Attributes:
        call: NVML's name of the call.
        code: NVML's number of the answer (`nvmlReturn_t`).
    """

    def __init__(self, message: str, call: str = "", code: int = 999) -> None:
        self.call = call
        self.code = code
        super().__init__(f"{call}: {message}" if call else message)


class InvalidArgumentError(CardError):
    """There is no such GPU, profile or placement."""


class GpuNotFoundError(InvalidArgumentError):
    """NVML does not know, or no longer knows, a GPU with this UUID."""


class NotSupportedError(CardError):
    """This GPU does not support the call, or not in its present MIG mode."""


class FunctionNotFoundError(NotSupportedError):
    """The driver is too old for the call, so the feature is absent."""


class NoPermissionError(CardError):
    """The call needs root; in a container it needs the capability's device node."""


class InstanceNotFoundError(CardError):
    """There is no such instance, GPU or MIG device, or it no longer exists."""


class InsufficientResourcesError(CardError):
    """Other instances have a resource of the new one: its place, its compute slices or its engines."""


class InUseError(CardError):
    """A process uses the instance, or it contains another instance. The call can be tried again."""


class GpuLostError(CardError):
    """The GPU fell off the bus."""


class ResetRequiredError(CardError):
    """The GPU does not work until it is reset."""


class LibraryNotFoundError(CardError):
    """There is no libnvidia-ml.so.1: the driver is not installed, or it is in another place."""


class DriverNotLoadedError(CardError):
    """The library exists, but the kernel's driver is not loaded, or not yet."""


class VersionMismatchError(CardError):
    """The driver was replaced. A process that loaded the old library has to restart."""


_CLASSES: Final[Mapping[int, type[CardError]]] = {
    1: DriverNotLoadedError,
    2: InvalidArgumentError,
    3: NotSupportedError,
    4: NoPermissionError,
    6: InstanceNotFoundError,
    9: DriverNotLoadedError,
    12: LibraryNotFoundError,
    13: FunctionNotFoundError,
    15: GpuLostError,
    16: ResetRequiredError,
    18: VersionMismatchError,
    19: InUseError,
    23: InsufficientResourcesError,
}
"""Classes by the numbers of `nvmlReturn_t` (nvml.h). Every other number is a `CardError`."""


def error_of(code: int, call: str, text: str) -> CardError:
    """Return the error for a return code of NVML.

    Args:
        code: `nvmlReturn_t`.
        call: the call that returned it.
        text: NVML's text for the code.
    """
    return _CLASSES.get(code, CardError)(f"NVML answers {text!r} ({code})", call, code)
