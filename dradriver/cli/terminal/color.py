"""Colors of states on a terminal. A color repeats what a word says, and never replaces the word."""

import os
import sys
from collections.abc import Mapping
from typing import Final

import click

__all__ = ["has_color", "paint_state"]

_GOOD: Final = frozenset({"running", "allocated", "reserved", "healthy", "succeeded", "completed", "ready"})
_WAITING: Final = frozenset({"pending", "unknown", "allocating", "deallocating", "deleted", "terminating"})
_WAITING_STARTS: Final = ("containercreating", "init:", "podinitializing", "scheduling", "not ready")
_STATE_COLUMNS: Final = frozenset({"state", "status", "health"})
_PROBLEM_COLUMNS: Final = frozenset({"problem", "taints"})
_CODES: Final[Mapping[str, str]] = {"good": "green", "waiting": "yellow", "bad": "red"}


def has_color() -> bool:
    """Return whether stdout is a terminal that may have colors. `NO_COLOR` and `TERM=dumb` turn colors off."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint_state(column: str, text: str) -> str:
    """Return the text of a cell, with a color if the cell has a state.

    Args:
        column: name of the column in lower case.
        text: text of the cell.
    """
    color = _CODES.get(_judge(column, text), "")
    return click.style(text, fg=color) if color else text


def _judge(column: str, text: str) -> str:
    if text in {"", "-", "?"}:
        return ""
    if column in _PROBLEM_COLUMNS:
        return "bad"
    if column not in _STATE_COLUMNS:
        return ""
    words = text.lower().split(",")
    if any(word in _WAITING or word.startswith(_WAITING_STARTS) for word in words):
        return "waiting"
    return "good" if all(word in _GOOD for word in words) else "bad"
