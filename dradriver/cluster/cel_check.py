"""Checks selectors for the API server with dradriver's CEL, with Kubernetes' error messages."""

import re
from typing import Final

from dradriver.cel import CompileError, compile_selector

__all__ = ["check_selector"]

# For these reasons, Kubernetes has other messages. All other reasons stay unchanged.
_KUBERNETES_WORDS: Final = (
    (re.compile(r"undeclared name '(.*)'"), r"undeclared reference to '\1' (in container '')"),
    (re.compile(r"there is no function '(.*)'"), r"undeclared reference to '\1' (in container '')"),
    (re.compile(r"a device has no field '(.*)'"), r"undefined field '\1'"),
)
_NOT_BOOL: Final = re.compile(r"a selector must return a bool, not (.*)")


def check_selector(expression: str) -> str | None:
    """Check a selector.

    Args:
        expression: the CEL expression.

    Returns:
        Why the selector is invalid, in Kubernetes' words; None if it is valid.
    """
    try:
        compile_selector(expression)
    except CompileError as error:
        return _format_error(expression, error)
    return None


def _format_error(expression: str, error: CompileError) -> str:
    if mismatch := _NOT_BOOL.fullmatch(error.reason):
        return f"must evaluate to bool or the unknown type, not {mismatch[1]}"
    reason = error.reason
    for pattern, words in _KUBERNETES_WORDS:
        reason = pattern.sub(words, reason)
    if error.hint:
        reason = f"{reason}; {error.hint}"
    if error.position is None:
        return f"compilation failed: {reason}"
    line, column = error.position
    source = expression.split("\n")[line - 1]
    return (
        f"compilation failed: ERROR: <input>:{line}:{column}: {reason}\n | {source}\n | {'.' * (column - 1)}^"
    )
