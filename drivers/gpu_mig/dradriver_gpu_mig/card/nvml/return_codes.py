"""NVML's return codes as errors of `card`."""

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
    """The error that a return code means."""
    return errors.error_of(code, call, str(pynvml.NVMLError(code)))


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
