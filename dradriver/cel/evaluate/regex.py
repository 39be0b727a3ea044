"""Compiles and matches patterns of RE2. RE2 accepts the patterns of Go and runs in linear time.

The time of a search is proportional to the length of the text multiplied by the size of the compiled pattern.
The time of compiling is proportional to this size. So the size is estimated from the text of the pattern. The
estimate determines the steps that are counted, and the memory limit that RE2 gets. If a pattern needs more
memory than its estimate allows, RE2 rejects the pattern.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Final

import re2

from dradriver.cel.compile.functions import Overload, function, method
from dradriver.cel.evaluate.cost import regex_cost
from dradriver.cel.evaluate.errors import AbortError, ErrorValue, excerpt
from dradriver.cel.evaluate.steps import LIMIT, Spend, spend_nothing

__all__ = [
    "MAX_TOTAL_SIZE",
    "OVERLOADS",
    "PATTERN_ARGUMENT",
    "Pattern",
    "pattern_size",
    "pattern_steps",
    "too_large_error",
    "with_pattern",
]

PATTERN_ARGUMENT: Final = frozenset({"matches", "find", "findAll"})
"""Functions whose second argument is a pattern. A literal pattern is compiled together with the selector."""

MAX_TOTAL_SIZE: Final = 10_000
"""Maximum total size of the literal patterns of one selector."""

_COMPILE_STEPS: Final = 5
"""Steps of compiling one instruction of RE2."""

_CALL_STEPS: Final = 40
"""Minimum steps of one search, for a very short text."""

# --- sizes --------------------------------------------------------------------------------

_PART: Final = re.compile(
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
_CATEGORY_SIZE: Final = 1500
"""Number of RE2's instructions for the largest Unicode category in UTF-8."""

_ANY_SIZE: Final = 16
"""Number of RE2's instructions for "any character except ..."."""

_RANGE_SIZE: Final = 14
"""Number of RE2's instructions for one range of non-ASCII characters."""

_MAX_REPEATS: Final = 1000


@lru_cache(maxsize=64)
def pattern_size(pattern: str) -> int:
    """Return an upper bound on the number of instructions to which RE2 compiles the pattern.

    The bound is at least the length of the pattern.
    """
    ignores_case = re.search(r"\(\?[a-zA-Z]*i", pattern) is not None
    open_groups: list[int] = []
    total, last = 4, 0
    for part in _PART.finditer(pattern):
        kind = part.lastgroup or ""
        if kind == "open":
            open_groups.append(total)
            size = 2
        elif kind == "close":
            start = open_groups.pop() if open_groups else 0
            last = total - start + 2
            total += 2
            continue
        elif kind == "repeat":
            size = last * min(_MAX_REPEATS, max(map(int, re.findall("[0-9]{1,5}", part.group()))))
        elif kind == "many":
            size = last + 2
        else:
            size = _atom_size(kind, part.group(), ignores_case=ignores_case)
        total += size
        last = last + size if kind in {"repeat", "many"} else size
        if total > 100 * LIMIT:
            break
    return max(total, len(pattern))


def _atom_size(kind: str, text: str, *, ignores_case: bool) -> int:
    if kind == "unicode":
        return _CATEGORY_SIZE
    if kind in {"others", "words"}:
        return _ANY_SIZE
    if kind == "class":
        return _class_size(text, ignores_case=ignores_case)
    wide = not text.isascii() or kind == "escape"
    each = (4 if wide else 1) * (4 if ignores_case else 1)
    return each * (len(text) if kind == "quoted" else 1)


def _class_size(text: str, *, ignores_case: bool) -> int:
    categories = text.count("\\p") + text.count("\\P")
    beyond_ascii = not text.isascii() or _BY_CODE.search(text) is not None
    if categories or (beyond_ascii and ignores_case):
        return _CATEGORY_SIZE * max(1, categories)
    inverted = text.startswith("[^") or _INVERTED.search(text) is not None
    ranges = _RANGE_SIZE * len(text) if beyond_ascii else len(text) * (3 if ignores_case else 1)
    return ranges + (_ANY_SIZE if inverted else 0)


_BY_CODE: Final = re.compile(r"\\[x0-7]")
_INVERTED: Final = re.compile(r"\\[WDS]|\[:\^")


def pattern_steps(size: int, text: int) -> int:
    """Return the steps of one search through a text with a compiled pattern of this size."""
    return _CALL_STEPS + text * (8 + size) // 8


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
            ErrorValue: RE2 does not accept the pattern.
            AbortError: the pattern is too large.
        """
        options = re2.Options()
        options.log_errors = False
        options.never_capture = True
        options.max_mem = _BASE_MEMORY + _MEMORY_PER_INSTRUCTION * min(size, MAX_TOTAL_SIZE)
        self.size = size
        try:
            # `re2.compile` is not used, because it caches compiled patterns.
            self._regexp = re2._Regexp(pattern, options)  # noqa: SLF001
        except re2.error as error:
            message = error.args[0] if error.args else error
            reason = message.decode(errors="replace") if isinstance(message, bytes) else str(message)
            if reason.startswith("pattern too large"):
                raise too_large_error() from None
            raise ErrorValue(
                f"{excerpt(pattern)} is not a pattern: {reason[:200]}", "patterns are RE2, as in Go"
            ) from error

    def matches(self, text: str, *, spend: Spend) -> bool:
        """Return whether the pattern matches a part of the text."""
        spend(pattern_steps(self.size, len(text)))
        data = text.encode()
        # This calls RE2 directly, because the `re2` module would also convert positions to characters.
        spans = self._regexp._regexp.Match(_UNANCHORED, data, 0, len(data))  # noqa: SLF001
        return bool(spans[0][0] >= 0)

    def find(self, text: str, *, spend: Spend) -> str:
        """Return the first part of the text that matches; empty if there is none."""
        spend(pattern_steps(self.size, len(text)))
        match = self._regexp.search(text)
        return "" if match is None else match.group()

    def find_all(self, text: str, limit: int = -1, *, spend: Spend) -> tuple[str, ...]:
        """Return the parts of the text that match, at most `limit` of them; all if `limit` is negative.

        Each search may read all of the remaining text.
        """
        if limit == 0:
            return ()
        parts: list[str] = []
        spend(pattern_steps(self.size, len(text)))
        for match in self._regexp.finditer(text):
            parts.append(match.group())
            if len(parts) == limit:
                break
            spend(_CALL_STEPS + pattern_steps(self.size, len(text) - match.end()))
        return tuple(parts)


_UNANCHORED: Final = re2._re2.RE2.Anchor.UNANCHORED  # noqa: SLF001
_BASE_MEMORY: Final = 1 << 14
_MEMORY_PER_INSTRUCTION: Final = 1 << 9
"""The memory limit of RE2 in bytes: a base amount, and an amount for each instruction of the pattern."""

_compile_cached = lru_cache(maxsize=16)(Pattern)


def too_large_error() -> AbortError:
    """Return the error for a pattern that is too large."""
    return AbortError("the pattern is too large", "use fewer repetitions, or match a smaller part")


def _compile_dynamic(spend: Spend, pattern: str) -> Pattern:
    """Compile a pattern that is known only at evaluation.

    The steps of compiling are counted at each call, even if the pattern is cached.
    """
    spend(3 * len(pattern))
    size = pattern_size(pattern)
    spend(_COMPILE_STEPS * size)
    return _compile_cached(pattern, size)


def _matches(text: str, pattern: str, *, spend: Spend) -> bool:
    return _compile_dynamic(spend, pattern).matches(text, spend=spend)


def _find(text: str, pattern: str, *, spend: Spend) -> str:
    return _compile_dynamic(spend, pattern).find(text, spend=spend)


def _find_all(text: str, pattern: str, limit: int = -1, *, spend: Spend) -> tuple[str, ...]:
    return () if limit == 0 else _compile_dynamic(spend, pattern).find_all(text, limit, spend=spend)


_SEARCHES: Final[Mapping[str, Callable[..., object]]] = {
    "matches": Pattern.matches,
    "find": Pattern.find,
    "findAll": Pattern.find_all,
}


def with_pattern(overload: Overload, pattern: Pattern) -> Overload:
    """Return a variant of the overload that uses this compiled pattern and ignores its pattern argument."""
    search = _SEARCHES[overload.name]

    def call(text: str, _: str, *rest: int, spend: Spend = spend_nothing) -> object:
        return search(pattern, text, *rest, spend=spend)

    return replace(overload, call=call)


OVERLOADS: Final[tuple[Overload, ...]] = (
    function("matches(string, string): bool", _matches, regex_cost, metered=True),
    method("matches(string, string): bool", _matches, regex_cost, metered=True),
    method("find(string, string): string", _find, regex_cost, metered=True),
    method("findAll(string, string): list(string)", _find_all, regex_cost, metered=True),
    method("findAll(string, string, int): list(string)", _find_all, regex_cost, metered=True),
)
"""All functions of this module; `compile.environment` collects them."""
