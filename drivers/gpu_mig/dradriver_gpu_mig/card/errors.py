"""Errors of the hardware: one class for each error that callers distinguish."""

from collections.abc import Mapping
from typing import Final

import dradriver as dra

__all__ = [
    "DriverNotLoadedError",
    "FunctionNotFoundError",
    "GpuError",
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
    "TimedOutError",
    "VersionMismatchError",
    "make_error",
]


class GpuError(dra.DraError):
    """The hardware rejected a call or failed. This class itself covers errors that callers do not distinguish.

    Attributes:
        call: NVML's name of the call.
        code: NVML's return code (`nvmlReturn_t`).
    """

    def __init__(self, message: str, call: str = "", code: int = 999) -> None:
        self.call = call
        self.code = code
        super().__init__(f"{call}: {message}" if call else message)


class InvalidArgumentError(GpuError):
    """The GPU, the profile or the placement does not exist."""


class GpuNotFoundError(InvalidArgumentError):
    """NVML does not know, or no longer knows, a GPU with this UUID."""


class NotSupportedError(GpuError):
    """This GPU never supports the call, or does not support it in its present MIG mode."""


class FunctionNotFoundError(NotSupportedError):
    """The driver is too old for the call, so the feature is absent."""


class NoPermissionError(GpuError):
    """The call needs root rights. In a container, it needs the device node of the capability."""


class InstanceNotFoundError(GpuError):
    """The instance, the GPU or the MIG device does not exist, or no longer exists."""


class InsufficientResourcesError(GpuError):
    """Other instances use a resource that the new instance needs: memory slices, compute slices or engines."""


class InUseError(GpuError):
    """A process uses the instance, or it contains another instance. The call can be tried again."""


class GpuLostError(GpuError):
    """The GPU fell off the bus."""


class ResetRequiredError(GpuError):
    """The GPU does not work until it is reset."""


class TimedOutError(GpuError):
    """A call did not return within its time limit. It may still take effect."""


class LibraryNotFoundError(GpuError):
    """libnvidia-ml.so.1 is not found: the driver is not installed, or it is in another folder."""


class DriverNotLoadedError(GpuError):
    """The library exists, but the kernel's driver is not loaded (yet)."""


class VersionMismatchError(GpuError):
    """The driver was replaced. If a process loaded the old library, it must restart."""


_CLASSES: Final[Mapping[int, type[GpuError]]] = {
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
"""Error classes by number of `nvmlReturn_t` (nvml.h). Any other number becomes a `GpuError`."""


def make_error(code: int, call: str, text: str) -> GpuError:
    """Return the error for a return code of NVML.

    Args:
        code: `nvmlReturn_t`.
        call: the call that returned it.
        text: NVML's text for the code.

    Source:
        nvml.h, `nvmlReturn_t`.
    """
    return _CLASSES.get(code, GpuError)(f"NVML returned {text!r} ({code})", call, code)
