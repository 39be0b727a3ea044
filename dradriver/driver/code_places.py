"""Where in an author's code a mistake was made, as `file:line`.

A message that names the place spares the author the traceback. Nothing here fails: where no place can be
found, the answer is empty.
"""

import inspect
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from traceback import walk_tb
from types import CodeType, FrameType
from typing import Final

__all__ = ["at", "called_at", "defined_at", "raised_at"]

_OWN: Final = __name__.partition(".")[0]
"""The SDK's own package."""


def at(place: str) -> str:
    """The place as the end of a message: ` (leds.py:12)`; empty without one."""
    return f" ({place})" if place else ""


def defined_at(thing: object) -> str:
    """Where a function, method or class is defined.

    Args:
        thing: of the author's code; decorators that keep `__wrapped__` are looked through.

    Returns:
        `file:line`, empty for anything else and for what the SDK itself defines.
    """
    if isinstance(thing, type):
        if _package(thing.__module__) == _OWN:
            return ""
        with suppress(OSError, TypeError, IndexError):  # such as a class of an interactive session
            return f"{inspect.getfile(thing)}:{inspect.getsourcelines(thing)[1]}"
        return ""
    function = inspect.unwrap(getattr(thing, "func", thing)) if callable(thing) else thing
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType) or _package(getattr(function, "__module__", "")) == _OWN:
        return ""
    return f"{code.co_filename}:{code.co_firstlineno}"


def raised_at(error: BaseException, driver: type | None = None) -> str:
    """The last line of the author's code on the way to an exception.

    Args:
        error: the exception, as it was caught. A `SyntaxError` names its own place.
        driver: the driver's class. The packages of its hierarchy are the author's; without one, everything but
            the SDK and Python's import system is.

    Returns:
        `file:line`, empty if the exception did not come through the author's code.
    """
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}" if error.lineno else error.filename
    return _last(((frame, line) for frame, line in walk_tb(error.__traceback__)), driver)


def called_at(driver: type) -> str:
    """The line of the author's code that is being executed, called from something that the author called."""
    return _last(reversed(list(_callers(sys._getframe(1)))), driver)  # noqa: SLF001 - inspect's way, without reading files


def _last(frames: Iterable[tuple[FrameType, int]], driver: type | None) -> str:
    packages = None if driver is None else _packages(driver)
    found = ""
    for frame, line in frames:
        package = _package(frame.f_globals.get("__name__", ""))
        theirs = package not in {_OWN, "importlib", "_frozen_importlib", "_frozen_importlib_external"}
        if theirs if packages is None else package in packages:
            found = f"{frame.f_code.co_filename}:{line}"
    return found


def _callers(frame: FrameType | None) -> Iterator[tuple[FrameType, int]]:
    while frame is not None:
        yield frame, frame.f_lineno
        frame = frame.f_back


def _packages(driver: type) -> set[str]:
    """The top-level packages in which the driver's class and its bases are written."""
    return {_package(each.__module__) for each in driver.__mro__} - {_OWN, "abc", "builtins", "typing"}


def _package(module: object) -> str:
    return module.partition(".")[0] if isinstance(module, str) else ""
