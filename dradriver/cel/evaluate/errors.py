"""The errors of a selector: it does not compile, or it fails on one device.

Both name the place in the expression and a remedy. Inside the package, a failing operation raises `ErrorValue`.
It becomes a `CelError` only when it leaves the package, because `&&`, `||`, `all` and `exists` may absorb it.
"""

from typing import Final

from dradriver.errors import DraError

__all__ = ["AbortError", "CelError", "CompileError", "ErrorValue", "EvaluationError", "shown"]

_EXCERPT: Final = 60


class CelError(DraError):
    """A selector can't be used.

    Attributes:
        expression: the whole selector.
        position: line and column of the wrong part, both from 1; None if it is the whole expression.
        reason: the problem, without its place.
        hint: the text to write instead; None if there is no useful hint.
    """

    def __init__(self, expression: str, offset: int | None, reason: str, hint: str | None = None) -> None:
        self.expression = expression
        self.position = None if offset is None else _position(expression, offset)
        self.reason = reason
        self.hint = hint
        place = "" if self.position is None else f" at line {self.position[0]}, column {self.position[1]}"
        advice = f"; {hint}" if hint else ""
        super().__init__(f"{self._label}: {reason}{place} of `{_excerpt(expression, offset)}`{advice}")

    _label = "selector"


class CompileError(CelError):
    """The selector is not valid CEL for devices; it can never match anything."""

    _label = "selector does not compile"


class EvaluationError(CelError):
    """The selector failed on this one device; it may work on others."""

    _label = "selector failed"


class ErrorValue(Exception):  # noqa: N818 - a value of the evaluator more than an exception
    """A CEL error inside the evaluator. An operator can absorb it.

    Attributes:
        reason: the problem.
        hint: the text to write instead, or None.
        offset: its place in the expression, in characters from 0; None until the failing step is known.
    """

    __slots__ = ("hint", "offset", "reason")

    def __init__(self, reason: str, hint: str | None = None, offset: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.hint = hint
        self.offset = offset


class AbortError(Exception):
    """The evaluation ends here, and no operator absorbs this error.

    Attributes:
        reason: the cause.
        hint: the text to write instead.
    """

    def __init__(self, reason: str, hint: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.hint = hint


def shown(value: object) -> str:
    """Return a text or a key for a message: quoted, and shortened if it is long."""
    if isinstance(value, str | bytes) and len(value) > _EXCERPT:
        return f"{value[:_EXCERPT]!r}…"
    return repr(value)


def _position(expression: str, offset: int) -> tuple[int, int]:
    before = expression[:offset]
    return before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1


def _excerpt(expression: str, offset: int | None) -> str:
    """Return the expression on one line; a long one is shortened to the neighborhood of `offset`."""
    if len(expression) > 2 * _EXCERPT:
        middle = offset or 0
        start, end = max(0, middle - _EXCERPT), middle + _EXCERPT
        head, tail = "…" if start else "", "…" if end < len(expression) else ""
        expression = head + expression[start:end] + tail
    return " ".join(expression.split())
