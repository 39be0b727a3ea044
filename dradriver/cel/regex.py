"""Patterns: RE2, which is the dialect that Go has and can't be made to run for ever."""

from functools import lru_cache
from typing import Final

import re2

from dradriver.cel.cost import regex
from dradriver.cel.errors import Fault
from dradriver.cel.functions import Overload, function, method

__all__ = ["OVERLOADS", "PATTERN_ARGUMENT", "compiled"]

PATTERN_ARGUMENT: Final = frozenset({"matches", "find", "findAll"})
"""Functions whose second argument is a pattern; a literal one is checked when the selector compiles."""

_OPTIONS: Final = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.max_mem = 8 << 20


@lru_cache(maxsize=256)
def compiled(pattern: str) -> "re2._Regexp[str]":
    """The compiled pattern.

    Raises:
        Fault: it is no pattern of RE2.
    """
    try:
        return re2.compile(pattern, _OPTIONS)
    except re2.error as error:
        message = error.args[0] if error.args else error
        reason = message.decode(errors="replace") if isinstance(message, bytes) else str(message)
        raise Fault(f"{pattern!r} is not a pattern: {reason}", "patterns are RE2, as in Go") from error


def _matches(text: str, pattern: str) -> bool:
    return compiled(pattern).search(text) is not None


def _find(text: str, pattern: str) -> str:
    found = compiled(pattern).search(text)
    return "" if found is None else found.group()


def _find_all(text: str, pattern: str, limit: int = -1) -> tuple[str, ...]:
    if limit == 0:
        return ()
    found: list[str] = []
    for match in compiled(pattern).finditer(text):
        found.append(match.group())
        if len(found) == limit:
            break
    return tuple(found)


OVERLOADS: Final[tuple[Overload, ...]] = (
    function("matches(string, string): bool", _matches, regex),
    method("matches(string, string): bool", _matches, regex),
    method("find(string, string): string", _find, regex),
    method("findAll(string, string): list(string)", _find_all, regex),
    method("findAll(string, string, int): list(string)", _find_all, regex),
)
"""Everything here, for the registry."""
