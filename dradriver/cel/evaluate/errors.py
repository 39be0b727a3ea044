"""What goes wrong with a selector: it does not compile, or it fails on one device.

Both say where in the expression and what to do. Inside the package a failing operation raises `ErrorValue`;
it becomes a `CelError` only when it leaves the package, because `&&`, `||`, `all` and `exists` may absorb it.
"""

from typing import Final

from dradriver.errors import DraError

__all__ = ["AbortError", "CelError", "CompileError", "ErrorValue", "EvaluationError", "shown"]

_EXCERPT: Final = 60


class CelError(DraError):
    """A selector can't be used.

    Attributes:
        expression: the whole selector.
        position: line and column of the offending part, both from 1; None when it is the whole expression.
        reason: what is wrong, without the place.
        hint: what to write instead; None when there is nothing useful to say.
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
    """A CEL error as the evaluator handles it: it can be absorbed.

    Attributes:
        reason: what is wrong.
        hint: what to write instead, or None.
        offset: where in the expression, in characters from 0; None until the failing step is known.
    """

    __slots__ = ("hint", "offset", "reason")

    def __init__(self, reason: str, hint: str | None = None, offset: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.hint = hint
        self.offset = offset


class AbortError(Exception):
    """The evaluation ends here and nothing absorbs it.

    Attributes:
        reason: why.
        hint: what to write instead.
    """

    def __init__(self, reason: str, hint: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.hint = hint


def shown(value: object) -> str:
    """A text or a key as messages show it: quoted, and cut where it is long."""
    if isinstance(value, str | bytes) and len(value) > _EXCERPT:
        return f"{value[:_EXCERPT]!r}…"
    return repr(value)


def _position(expression: str, offset: int) -> tuple[int, int]:
    before = expression[:offset]
    return before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1


def _excerpt(expression: str, offset: int | None) -> str:
    """The expression on one line, cut to the neighborhood of `offset` when it is long."""
    if len(expression) > 2 * _EXCERPT:
        middle = offset or 0
        start, end = max(0, middle - _EXCERPT), middle + _EXCERPT
        head, tail = "…" if start else "", "…" if end < len(expression) else ""
        expression = head + expression[start:end] + tail
    return " ".join(expression.split())
