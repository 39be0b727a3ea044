"""Semantic versions in CEL: version attributes and `semver("1.2.3")`. Source: semver.org 2.0.0."""

import re
from functools import lru_cache
from typing import Final

from dradriver.cel.compile.functions import Overload, function, method
from dradriver.cel.evaluate.cost import first_cost
from dradriver.cel.evaluate.digits import parse_digits
from dradriver.cel.evaluate.errors import ErrorValue, excerpt, succeeds
from dradriver.cel.evaluate.steps import first_work
from dradriver.cel.evaluate.values import Opaque

__all__ = ["OVERLOADS", "Semver", "parse_semver"]

_NUMBER: Final = r"(?:0|[1-9][0-9]*)"
_SYNTAX: Final = re.compile(
    rf"({_NUMBER})\.({_NUMBER})\.({_NUMBER})"
    rf"(?:-((?:{_NUMBER}|[0-9]*[A-Za-z-][0-9A-Za-z-]*)(?:\.(?:{_NUMBER}|[0-9]*[A-Za-z-][0-9A-Za-z-]*))*))?"
    r"(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
)
_UINT64: Final = 2**64
_MAX_CACHED_LENGTH: Final = 64
_PARSE_WORK: Final = first_work(1, base=50)


class Semver(Opaque):
    """A version. Build metadata does not affect order or equality.

    Attributes:
        order: a sort key.
        numbers: major, minor and patch.
    """

    __slots__ = ("numbers", "order")

    cel_type = "kubernetes.Semver"
    hashable = False

    def __init__(self, numbers: tuple[int, int, int], prerelease: str | None) -> None:
        self.numbers = numbers
        released = prerelease is None
        identifiers = () if prerelease is None else tuple(map(_identifier, prerelease.split(".")))
        self.order = (numbers, released, identifiers)
        super().__init__(self.order, weight=0 if prerelease is None else len(prerelease) // 4)


def _identifier(text: str) -> tuple[bool, int, str]:
    """Return a sort key of an identifier: numbers come before texts and are sorted by value."""
    return (False, int(text), "") if text.isdigit() else (True, 0, text)


def parse_semver(text: str) -> Semver:
    """Return the version in a text.

    Raises:
        ErrorValue: the text is not a semantic version.
    """
    return _parse_cached(text) if len(text) <= _MAX_CACHED_LENGTH else _parse(text)


@lru_cache(maxsize=4096)
def _parse_cached(text: str) -> Semver:
    return _parse(text)


def _parse(text: str) -> Semver:
    match = _SYNTAX.fullmatch(text)
    if match is None:
        raise ErrorValue(
            f"{excerpt(text)} is not a semantic version",
            "write MAJOR.MINOR.PATCH, or semver(text, true) for 1.2 or v1",
        )
    numbers = (parse_digits(match[1]), parse_digits(match[2]), parse_digits(match[3]))
    pieces = (match[4] or "").split(".")
    if any(number >= _UINT64 for number in numbers) or any(
        p.isdigit() and parse_digits(p) >= _UINT64 for p in pieces
    ):
        raise ErrorValue(f"{excerpt(text)} has a number beyond 64 bits")
    return Semver(numbers, match[4])


def _normalize(text: str) -> str:
    """Return a loosely written version in semver.org's form: `v1.02` becomes `1.2.0`."""
    parts = [_strip_zeros(part) for part in text.removeprefix("v").split(".", 2)]
    if len(parts) < 3:
        if "+" in parts[-1] or "-" in parts[-1]:
            raise ErrorValue(f"{excerpt(text)}: a short version can't have a prerelease or build")
        parts += ["0"] * (3 - len(parts))
    return ".".join(parts)


def _strip_zeros(part: str) -> str:
    if len(part) < 2:
        return part
    trimmed = part.lstrip("0")
    return trimmed if trimmed[:1].isdigit() and trimmed[:1].isascii() else "0" + trimmed


def _semver(text: str, normalize: bool = False) -> Semver:  # noqa: FBT001, FBT002 - the shape in CEL
    return parse_semver(_normalize(text) if normalize else text)


def _is_semver(*args: object) -> bool:
    return succeeds(_semver, *args)


def _to_signed(number: int) -> int:
    """Convert an unsigned 64-bit number to a signed number, as Kubernetes does."""
    return number if number < _UINT64 // 2 else number - _UINT64


def _compare_work(args: list[object]) -> int:
    return sum(arg.weight for arg in args if isinstance(arg, Semver))


OVERLOADS: Final[tuple[Overload, ...]] = (
    function("semver(string): semver", _semver, first_cost, work=_PARSE_WORK),
    function("semver(string, bool): semver", _semver, first_cost, work=_PARSE_WORK),
    function("isSemver(string): bool", _is_semver, first_cost, work=_PARSE_WORK),
    function("isSemver(string, bool): bool", _is_semver, first_cost, work=_PARSE_WORK),
    method("isGreaterThan(semver, semver): bool", lambda a, b: a.order > b.order, work=_compare_work),
    method("isLessThan(semver, semver): bool", lambda a, b: a.order < b.order, work=_compare_work),
    method(
        "compareTo(semver, semver): int",
        lambda a, b: (a.order > b.order) - (a.order < b.order),
        work=_compare_work,
    ),
    method("major(semver): int", lambda version: _to_signed(version.numbers[0])),
    method("minor(semver): int", lambda version: _to_signed(version.numbers[1])),
    method("patch(semver): int", lambda version: _to_signed(version.numbers[2])),
)
"""All functions of this module; `compile.environment` collects them."""
