"""Find the location of an error in an author's code, as `file:line`.

With the location in the message the author needs no traceback. Nothing here raises: the result is empty if no
location is found.
"""

import inspect
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from traceback import walk_tb
from types import CodeType, FrameType
from typing import Final

__all__ = ["find_caller", "find_definition", "find_raise", "format_location"]

_SDK_PACKAGE: Final = __name__.partition(".")[0]
"""The SDK's own package."""


def format_location(location: str) -> str:
    """Return the location as the end of a message, ` (leds.py:12)`; empty if there is none."""
    return f" ({location})" if location else ""


def find_definition(target: object) -> str:
    """Return the location where a function, method or class is defined.

    Args:
        target: an object of the author's code. Decorators that keep `__wrapped__` are skipped.

    Returns:
        `file:line`. Empty for other objects and for everything that the SDK defines.
    """
    if isinstance(target, type):
        if _top_package(target.__module__) == _SDK_PACKAGE:
            return ""
        with suppress(OSError, TypeError, IndexError):  # for example a class of an interactive session
            return f"{inspect.getfile(target)}:{inspect.getsourcelines(target)[1]}"
        return ""
    function = inspect.unwrap(getattr(target, "func", target)) if callable(target) else target
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType) or _top_package(getattr(function, "__module__", "")) == _SDK_PACKAGE:
        return ""
    return f"{code.co_filename}:{code.co_firstlineno}"


def find_raise(error: BaseException, driver: type | None = None) -> str:
    """Return the location of the last line of the author's code in an exception's traceback.

    Args:
        error: the exception, as it was caught. A `SyntaxError` contains its own location.
        driver: the driver's class; the packages of its hierarchy count as the author's. None: everything except
            the SDK and Python's import system counts as the author's.

    Returns:
        `file:line`. Empty if the exception did not pass through the author's code.
    """
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}" if error.lineno else error.filename
    return _find_last_line(((frame, line) for frame, line in walk_tb(error.__traceback__)), driver)


def find_caller(driver: type) -> str:
    """Return the location of the innermost call in the current stack that is in the author's code."""
    return _find_last_line(reversed(list(_walk_callers(sys._getframe(1)))), driver)  # noqa: SLF001 - inspect's way, without reading files


def _find_last_line(frames: Iterable[tuple[FrameType, int]], driver: type | None) -> str:
    packages = None if driver is None else _author_packages(driver)
    location = ""
    for frame, line in frames:
        package = _top_package(frame.f_globals.get("__name__", ""))
        is_authors = package not in {
            _SDK_PACKAGE,
            "importlib",
            "_frozen_importlib",
            "_frozen_importlib_external",
        }
        if is_authors if packages is None else package in packages:
            location = f"{frame.f_code.co_filename}:{line}"
    return location


def _walk_callers(frame: FrameType | None) -> Iterator[tuple[FrameType, int]]:
    while frame is not None:
        yield frame, frame.f_lineno
        frame = frame.f_back


def _author_packages(driver: type) -> set[str]:
    """Return the top-level packages that define the driver's class and its bases."""
    return {_top_package(each.__module__) for each in driver.__mro__} - {
        _SDK_PACKAGE,
        "abc",
        "builtins",
        "typing",
    }


def _top_package(module: object) -> str:
    return module.partition(".")[0] if isinstance(module, str) else ""
