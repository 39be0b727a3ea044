"""Find the place of an error in an author's code, as `file:line`.

With the place in the message the author needs no traceback. Nothing here raises: the result is empty if no
place is found.
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
    """Return the place as the end of a message, ` (leds.py:12)`; empty if there is none."""
    return f" ({place})" if place else ""


def defined_at(thing: object) -> str:
    """Return the place where a function, method or class is defined.

    Args:
        thing: an object of the author's code. Decorators that keep `__wrapped__` are skipped.

    Returns:
        `file:line`. Empty for other objects and for everything that the SDK defines.
    """
    if isinstance(thing, type):
        if _package(thing.__module__) == _OWN:
            return ""
        with suppress(OSError, TypeError, IndexError):  # for example a class of an interactive session
            return f"{inspect.getfile(thing)}:{inspect.getsourcelines(thing)[1]}"
        return ""
    function = inspect.unwrap(getattr(thing, "func", thing)) if callable(thing) else thing
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType) or _package(getattr(function, "__module__", "")) == _OWN:
        return ""
    return f"{code.co_filename}:{code.co_firstlineno}"


def raised_at(error: BaseException, driver: type | None = None) -> str:
    """Return the last line of the author's code in an exception's traceback.

    Args:
        error: the exception, as it was caught. A `SyntaxError` contains its own place.
        driver: the driver's class; the packages of its hierarchy count as the author's. None: everything except
            the SDK and Python's import system counts as the author's.

    Returns:
        `file:line`. Empty if the exception did not pass through the author's code.
    """
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}" if error.lineno else error.filename
    return _last(((frame, line) for frame, line in walk_tb(error.__traceback__)), driver)


def called_at(driver: type) -> str:
    """Return the line of the author's code that is executed now, at or above the current call."""
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
    """Return the top-level packages that define the driver's class and its bases."""
    return {_package(each.__module__) for each in driver.__mro__} - {_OWN, "abc", "builtins", "typing"}


def _package(module: object) -> str:
    return module.partition(".")[0] if isinstance(module, str) else ""
