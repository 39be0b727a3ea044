"""Patterns in RE2, which is the dialect of Go and runs in linear time.

The time of RE2 is linear in the length of the text, with the size of the compiled pattern as factor. Compiling
is linear in that size. So a pattern's size is estimated from its text. The estimate determines the steps and
the memory limit of RE2. The memory limit enforces the estimate: a pattern that needs more is rejected.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Final

import re2

from dradriver.cel.compile.functions import Overload, function, method
from dradriver.cel.evaluate.cost import regex
from dradriver.cel.evaluate.errors import AbortError, ErrorValue, shown
from dradriver.cel.evaluate.steps import LIMIT, Spend, free

__all__ = [
    "LARGEST",
    "OVERLOADS",
    "PATTERN_ARGUMENT",
    "Pattern",
    "pattern_size",
    "searching_steps",
    "too_large",
    "with_pattern",
]

PATTERN_ARGUMENT: Final = frozenset({"matches", "find", "findAll"})
"""Functions whose second argument is a pattern. A literal pattern is compiled with the selector."""

LARGEST: Final = 10_000
"""Maximum total size of the literal patterns of one selector."""

_COMPILING: Final = 5
"""Steps of compiling one instruction of RE2."""

_CALLING: Final = 40
"""Steps of one search, even in a very short text."""

# --- sizes --------------------------------------------------------------------------------

_PIECE: Final = re.compile(
    r"""
    (?P<unicode>\\[pP](?:\{[^}]*\}?|.)?)
  | (?P<quoted>\\Q(?:(?!\\E).)*(?:\\E)?)
  | (?P<others>\\[WDSC]|\.)
  | (?P<words>\\[wds])
  | (?P<escape>\\x\{[^}]*\}?|\\.)
  | (?P<class>\[\^?\]?(?:\[:[^:\]]*:\]|\\[pP](?:\{[^}]*\}?|.)?|\\.|[^\]\\])*\]?)
  | (?P<repeat>\{[0-9]+(?:,[0-9]*)?\})
  | (?P<open>\((?:\?P?<[^>]*>|\?[a-zA-Z-]*[:)]?)?)
  | (?P<close>\))
  | (?P<many>[*+?])
  | (?P<literal>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_CATEGORY: Final = 1500
"""Number of instructions of the largest Unicode category, read as UTF-8."""

_ANY: Final = 16
"""Number of instructions of "any character but"."""

_SPREAD: Final = 14
"""Number of instructions of one range of non-ASCII characters."""

_MOST_REPEATS: Final = 1000


@lru_cache(maxsize=64)
def pattern_size(pattern: str) -> int:
    """Return an upper bound of the number of instructions to which RE2 compiles the pattern.

    It is at least the length of the pattern.
    """
    folds = re.search(r"\(\?[a-zA-Z]*i", pattern) is not None
    open_groups: list[int] = []
    total, last = 4, 0
    for piece in _PIECE.finditer(pattern):
        kind = piece.lastgroup or ""
        if kind == "open":
            open_groups.append(total)
            size = 2
        elif kind == "close":
            start = open_groups.pop() if open_groups else 0
            last = total - start + 2
            total += 2
            continue
        elif kind == "repeat":
            size = last * min(_MOST_REPEATS, max(map(int, re.findall("[0-9]{1,5}", piece.group()))))
        elif kind == "many":
            size = last + 2
        else:
            size = _atom_size(kind, piece.group(), folds=folds)
        total += size
        last = last + size if kind in {"repeat", "many"} else size
        if total > 100 * LIMIT:
            break
    return max(total, len(pattern))


def _atom_size(kind: str, text: str, *, folds: bool) -> int:
    if kind == "unicode":
        return _CATEGORY
    if kind in {"others", "words"}:
        return _ANY
    if kind == "class":
        return _class_size(text, folds=folds)
    wide = not text.isascii() or kind == "escape"
    each = (4 if wide else 1) * (4 if folds else 1)
    return each * (len(text) if kind == "quoted" else 1)


def _class_size(text: str, *, folds: bool) -> int:
    categories = text.count("\\p") + text.count("\\P")
    beyond_ascii = not text.isascii() or _BY_CODE.search(text) is not None
    if categories or (beyond_ascii and folds):
        return _CATEGORY * max(1, categories)
    inverted = text.startswith("[^") or _INVERTED.search(text) is not None
    ranges = _SPREAD * len(text) if beyond_ascii else len(text) * (3 if folds else 1)
    return ranges + (_ANY if inverted else 0)


_BY_CODE: Final = re.compile(r"\\[x0-7]")
_INVERTED: Final = re.compile(r"\\[WDS]|\[:\^")


def searching_steps(size: int, text: int) -> int:
    """Return the steps of one search through a text with a compiled pattern of this size."""
    return _CALLING + text * (8 + size) // 8


# --- patterns -----------------------------------------------------------------------------


class Pattern:
    """A compiled pattern.

    Attributes:
        size: its estimated number of instructions.
    """

    __slots__ = ("_regexp", "size")

    def __init__(self, pattern: str, size: int) -> None:
        """Compile a pattern.

        Raises:
            ErrorValue: it is not a pattern of RE2.
            AbortError: it is too large.
        """
        options = re2.Options()
        options.log_errors = False
        options.never_capture = True
        options.max_mem = _LEAST_MEMORY + _MEMORY * min(size, LARGEST)
        self.size = size
        try:
            # `re2.compile` is not used, because it caches compiled patterns.
            self._regexp = re2._Regexp(pattern, options)  # noqa: SLF001
        except re2.error as error:
            message = error.args[0] if error.args else error
            reason = message.decode(errors="replace") if isinstance(message, bytes) else str(message)
            if reason.startswith("pattern too large"):
                raise too_large() from None
            raise ErrorValue(
                f"{shown(pattern)} is not a pattern: {reason[:200]}", "patterns are RE2, as in Go"
            ) from error

    def matches(self, text: str, *, spend: Spend) -> bool:
        """Return whether the pattern matches a part of the text."""
        spend(searching_steps(self.size, len(text)))
        data = text.encode()
        # This calls RE2 directly: the positions in characters that the module computes are not needed.
        spans = self._regexp._regexp.Match(_UNANCHORED, data, 0, len(data))  # noqa: SLF001
        return bool(spans[0][0] >= 0)

    def find(self, text: str, *, spend: Spend) -> str:
        """Return the first part that matches; empty if there is none."""
        spend(searching_steps(self.size, len(text)))
        found = self._regexp.search(text)
        return "" if found is None else found.group()

    def find_all(self, text: str, limit: int = -1, *, spend: Spend) -> tuple[str, ...]:
        """Return the parts that match, at most `limit`.

        Each search may read all of the remaining text.
        """
        if limit == 0:
            return ()
        found: list[str] = []
        spend(searching_steps(self.size, len(text)))
        for match in self._regexp.finditer(text):
            found.append(match.group())
            if len(found) == limit:
                break
            spend(_CALLING + searching_steps(self.size, len(text) - match.end()))
        return tuple(found)


_UNANCHORED: Final = re2._re2.RE2.Anchor.UNANCHORED  # noqa: SLF001
_LEAST_MEMORY: Final = 1 << 14
_MEMORY: Final = 1 << 9
"""Bytes of memory that RE2 gets for a pattern, and for each of its instructions."""

_kept = lru_cache(maxsize=16)(Pattern)


def too_large() -> AbortError:
    """Return the error for a pattern that is too large."""
    return AbortError("a pattern is too large", "repeat less, or match a smaller part")


def _dynamic(spend: Spend, pattern: str) -> Pattern:
    """Return the compiled form of a pattern that is known only at evaluation.

    The steps of compiling are counted each time, even if the pattern is cached.
    """
    spend(3 * len(pattern))
    size = pattern_size(pattern)
    spend(_COMPILING * size)
    return _kept(pattern, size)


def _matches(text: str, pattern: str, *, spend: Spend) -> bool:
    return _dynamic(spend, pattern).matches(text, spend=spend)


def _find(text: str, pattern: str, *, spend: Spend) -> str:
    return _dynamic(spend, pattern).find(text, spend=spend)


def _find_all(text: str, pattern: str, limit: int = -1, *, spend: Spend) -> tuple[str, ...]:
    return () if limit == 0 else _dynamic(spend, pattern).find_all(text, limit, spend=spend)


_SEARCHES: Final[Mapping[str, Callable[..., object]]] = {
    "matches": Pattern.matches,
    "find": Pattern.find,
    "findAll": Pattern.find_all,
}


def with_pattern(overload: Overload, pattern: Pattern) -> Overload:
    """Return the overload of a function that takes a pattern, with the pattern already compiled."""
    search = _SEARCHES[overload.name]

    def call(text: str, _: str, *rest: int, spend: Spend = free) -> object:
        return search(pattern, text, *rest, spend=spend)

    return replace(overload, call=call)


OVERLOADS: Final[tuple[Overload, ...]] = (
    function("matches(string, string): bool", _matches, regex, metered=True),
    method("matches(string, string): bool", _matches, regex, metered=True),
    method("find(string, string): string", _find, regex, metered=True),
    method("findAll(string, string): list(string)", _find_all, regex, metered=True),
    method("findAll(string, string, int): list(string)", _find_all, regex, metered=True),
)
"""All functions of this module, for the registry."""
