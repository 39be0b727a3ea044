"""Checks selectors for the API server with dradriver's CEL, with errors in Kubernetes' words."""

import re
from typing import Final

from dradriver.cel import CompileError, compile_selector

__all__ = ["cel_problem"]

# Reasons for which Kubernetes has its own words. Every other one stays unchanged.
_WORDS: Final = (
    (re.compile(r"undeclared name '(.*)'"), r"undeclared reference to '\1' (in container '')"),
    (re.compile(r"there is no function '(.*)'"), r"undeclared reference to '\1' (in container '')"),
    (re.compile(r"a device has no field '(.*)'"), r"undefined field '\1'"),
)
_NOT_BOOL: Final = re.compile(r"a selector gives a bool, this gives (.*)")


def cel_problem(expression: str) -> str | None:
    """Return why a selector is rejected, or None."""
    try:
        compile_selector(expression)
    except CompileError as error:
        return _said(expression, error)
    return None


def _said(expression: str, error: CompileError) -> str:
    if wrong := _NOT_BOOL.fullmatch(error.reason):
        return f"must evaluate to bool or the unknown type, not {wrong[1]}"
    reason = error.reason
    for pattern, words in _WORDS:
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
