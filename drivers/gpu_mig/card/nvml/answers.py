"""NVML's return codes as errors of `card`."""

import functools
from collections.abc import Callable, Mapping
from typing import Concatenate, Final, ParamSpec, TypeVar

import pynvml

from drivers.gpu_mig.card.errors import (
    CardError,
    DriverNotLoadedError,
    FunctionNotFoundError,
    GpuLostError,
    InstanceNotFoundError,
    InsufficientResourcesError,
    InUseError,
    InvalidArgumentError,
    LibraryNotFoundError,
    NoPermissionError,
    NotSupportedError,
    ResetRequiredError,
    VersionMismatchError,
)

__all__ = ["answers", "error_of", "known"]

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")

_CLASSES: Final[Mapping[int, type[CardError]]] = {
    pynvml.NVML_ERROR_INVALID_ARGUMENT: InvalidArgumentError,
    pynvml.NVML_ERROR_NOT_SUPPORTED: NotSupportedError,
    pynvml.NVML_ERROR_NO_PERMISSION: NoPermissionError,
    pynvml.NVML_ERROR_NOT_FOUND: InstanceNotFoundError,
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: DriverNotLoadedError,
    pynvml.NVML_ERROR_UNINITIALIZED: DriverNotLoadedError,
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: LibraryNotFoundError,
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND: FunctionNotFoundError,
    pynvml.NVML_ERROR_GPU_IS_LOST: GpuLostError,
    pynvml.NVML_ERROR_GPU_NOT_FOUND: GpuLostError,
    pynvml.NVML_ERROR_RESET_REQUIRED: ResetRequiredError,
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: VersionMismatchError,
    pynvml.NVML_ERROR_IN_USE: InUseError,
    pynvml.NVML_ERROR_INSUFFICIENT_RESOURCES: InsufficientResourcesError,
}


def error_of(code: int, call: str) -> CardError:
    """The error that a return code means."""
    text = str(pynvml.NVMLError(code))
    return _CLASSES.get(code, CardError)(f"NVML answers {text!r} ({code})", call, code)


def answers(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """Makes a method raise `CardError` where NVML answers with an error."""

    def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return method(self, *args, **kwargs)
        except pynvml.NVMLError as error:
            # Every call about a GPU names it first.
            about = f" of {args[0]}" if args and isinstance(args[0], str) else ""
            raise error_of(error.value, method.__name__ + about) from error

    functools.update_wrapper(call, method)
    return call


def known(ask: Callable[[], T], otherwise: T) -> T:
    """What `ask` returns, or `otherwise` where this card or this driver doesn't know."""
    try:
        return ask()
    except (pynvml.NVMLError_NotSupported, pynvml.NVMLError_FunctionNotFound):
        return otherwise
