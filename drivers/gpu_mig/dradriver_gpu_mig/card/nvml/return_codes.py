"""Converts NVML's return codes to the errors of `card`."""

import functools
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

import pynvml

from dradriver_gpu_mig.card import errors
from dradriver_gpu_mig.card.errors import CardError

__all__ = ["answers", "error_of", "known"]

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")


def error_of(code: int, call: str) -> CardError:
    """Return the error for a return code."""
    return errors.error_of(code, call, str(pynvml.NVMLError(code)))


def answers(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """Decorate a method to raise `CardError` instead of NVML's errors."""

    def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return method(self, *args, **kwargs)
        except pynvml.NVMLError as error:
            # The first argument of every call for one GPU is its UUID.
            about = f" of {args[0]}" if args and isinstance(args[0], str) else ""
            raise error_of(error.value, method.__name__ + about) from error

    functools.update_wrapper(call, method)
    return call


def known(ask: Callable[[], T], otherwise: T) -> T:
    """Return the result of `ask`, or `otherwise` if this card or this driver does not support the call."""
    try:
        return ask()
    except (pynvml.NVMLError_NotSupported, pynvml.NVMLError_FunctionNotFound):
        return otherwise
