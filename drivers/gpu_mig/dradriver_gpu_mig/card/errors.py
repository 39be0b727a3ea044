"""What hardware answers instead of doing what it was asked. A class for each answer that callers tell apart."""

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
    """Hardware refused or failed; this very class for answers that nobody tells apart.

    Attributes:
        call: what was asked, in NVML's name for it.
        code: NVML's number for the answer (`nvmlReturn_t`).
    """

    def __init__(self, message: str, call: str = "", code: int = 999) -> None:
        self.call = call
        self.code = code
        super().__init__(f"{call}: {message}" if call else message)


class InvalidArgumentError(CardError):
    """There is no such GPU, profile or placement."""


class GpuNotFoundError(InvalidArgumentError):
    """NVML knows no GPU with this UUID, or no longer."""


class NotSupportedError(CardError):
    """This GPU can't do that, or not in its present MIG mode."""


class FunctionNotFoundError(NotSupportedError):
    """The driver is too old to know the call: the feature is absent."""


class NoPermissionError(CardError):
    """Only root may do that; in a container, only with the capability's device node."""


class InstanceNotFoundError(CardError):
    """There is no such instance, GPU or MIG device, or no longer."""


class InsufficientResourcesError(CardError):
    """Other instances have what the new one needs: its place, its compute slices, or its engines."""


class InUseError(CardError):
    """A process uses it, or an instance still lives in it: to be tried again."""


class GpuLostError(CardError):
    """The GPU fell off the bus."""


class ResetRequiredError(CardError):
    """The GPU does nothing before it is reset."""


class LibraryNotFoundError(CardError):
    """There is no libnvidia-ml.so.1: the driver is not installed, or not where it was looked for."""


class DriverNotLoadedError(CardError):
    """The library is there, the kernel's driver is not, or not yet."""


class VersionMismatchError(CardError):
    """The driver was replaced: a process that loaded the old library has to start again."""


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
"""By the numbers of `nvmlReturn_t` (nvml.h); every other number is a `CardError`."""


def error_of(code: int, call: str, text: str) -> CardError:
    """The error that a return code of NVML means.

    Args:
        code: `nvmlReturn_t`.
        call: the call that answered with it.
        text: NVML's words for the code.
    """
    return _CLASSES.get(code, CardError)(f"NVML answers {text!r} ({code})", call, code)
