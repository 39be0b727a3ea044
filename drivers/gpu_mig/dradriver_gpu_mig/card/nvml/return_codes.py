"""Converts NVML's return codes to the errors of `card`."""

import functools
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

import pynvml

from dradriver_gpu_mig.card import errors
from dradriver_gpu_mig.card.errors import GpuError

__all__ = ["call_or_default", "convert_return_code", "translate_nvml_errors"]

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")


def convert_return_code(code: int, call: str) -> GpuError:
    """Return the error for a return code."""
    return errors.make_error(code, call, str(pynvml.NVMLError(code)))


def translate_nvml_errors(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """Decorate a method to raise `GpuError` instead of NVML's errors."""

    def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return method(self, *args, **kwargs)
        except pynvml.NVMLError as error:
            # The first argument of every call for one GPU is its UUID.
            subject = f" of {args[0]}" if args and isinstance(args[0], str) else ""
            raise convert_return_code(error.value, method.__name__ + subject) from error

    functools.update_wrapper(call, method)
    return call


def call_or_default(call: Callable[[], T], default: T) -> T:
    """Return the result of `call`, or `default` if this card or this driver does not support the call."""
    try:
        return call()
    except (pynvml.NVMLError_NotSupported, pynvml.NVMLError_FunctionNotFound):
        return default
