"""The errors of a selector: the selector does not compile, or it fails on one device.

Both errors name the wrong part of the expression and, if possible, a remedy. Inside the package, a failing
operation raises `ErrorValue`. An `ErrorValue` becomes a `CelError` only when it leaves the package, because
`&&`, `||`, `all` and `exists` may absorb it.
"""

from collections.abc import Callable
from typing import Final

from dradriver.errors import DraError

__all__ = ["AbortError", "CelError", "CompileError", "ErrorValue", "EvaluationError", "excerpt", "succeeds"]

_EXCERPT: Final = 60


class CelError(DraError):
    """A selector can't be used.

    Attributes:
        expression: the whole selector.
        position: line and column of the wrong part, both counted from 1; None if the whole expression is wrong.
        reason: the problem, without the position.
        hint: the text to write instead; None if there is no useful hint.
    """

    def __init__(self, expression: str, offset: int | None, reason: str, hint: str | None = None) -> None:
        self.expression = expression
        self.position = None if offset is None else _position(expression, offset)
        self.reason = reason
        self.hint = hint
        place = "in" if self.position is None else "at line {}, column {} of".format(*self.position)
        advice = f"; {hint}" if hint else ""
        super().__init__(f"{self._label}: {reason} {place} `{_excerpt(expression, offset)}`{advice}")

    _label = "selector"


class CompileError(CelError):
    """The selector is not valid CEL for devices. It can't match any device."""

    _label = "selector does not compile"


class EvaluationError(CelError):
    """The selector failed on one device. It may work on other devices.

    Attributes:
        steps: the steps until the selector failed.
    """

    _label = "selector failed"
    steps = 0


class ErrorValue(Exception):  # noqa: N818 - a value of the evaluator more than an exception
    """A CEL error inside the evaluator. An operator can absorb it.

    Attributes:
        reason: the problem.
        hint: the text to write instead, or None.
        offset: the position of the failing step in the expression, in characters from 0; None until it is
            known.
    """

    __slots__ = ("hint", "offset", "reason")

    def __init__(self, reason: str, hint: str | None = None, offset: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.hint = hint
        self.offset = offset


class AbortError(Exception):
    """An error that ends the evaluation. No operator can absorb it.

    Attributes:
        reason: the cause.
        hint: the text to write instead.
        steps: the steps of the evaluation before it ended.
    """

    steps = 0

    def __init__(self, reason: str, hint: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.hint = hint


def succeeds(call: Callable[..., object], *args: object) -> bool:
    """Return whether a call raises no `ErrorValue`."""
    try:
        call(*args)
    except ErrorValue:
        return False
    return True


def excerpt(value: object) -> str:
    """Return a text or a key in the form for messages: quoted, and shortened if it is long."""
    if isinstance(value, str | bytes) and len(value) > _EXCERPT:
        return f"{value[:_EXCERPT]!r}…"
    return repr(value)


def _position(expression: str, offset: int) -> tuple[int, int]:
    before = expression[:offset]
    return before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1


def _excerpt(expression: str, offset: int | None) -> str:
    """Return the expression on one line. If it is long, return only the part around `offset`."""
    if len(expression) > 2 * _EXCERPT:
        middle = offset or 0
        start, end = max(0, middle - _EXCERPT), middle + _EXCERPT
        head, tail = "…" if start else "", "…" if end < len(expression) else ""
        expression = head + expression[start:end] + tail
    return " ".join(expression.split())
