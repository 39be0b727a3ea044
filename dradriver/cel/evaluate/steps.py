"""Steps: a deterministic count of the work of one evaluation, with a limit for every selector.

CEL's cost (`cost`) is part of the verdict of Kubernetes, but it does not bound work. Adding two lists costs 1
for any length, and compiling a pattern costs nothing. Steps bound the work. Each instruction of the machine is
a step. A function whose work depends on its arguments spends steps before it works.

One step represents at most about 160 bytes of new memory and a sixth of a microsecond on a slow core. So an
evaluation ends within 100 ms and 64 MiB. Steps depend only on the selector and the device, never on time or on
caches, so a verdict is the same on every machine.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

from dradriver.cel.evaluate.errors import AbortError
from dradriver.cel.evaluate.values import size_of

__all__ = [
    "CALL",
    "LIMIT",
    "LONG_TEXT",
    "Spend",
    "Work",
    "check",
    "fixed",
    "free",
    "of_both",
    "of_first",
    "searching",
]

LIMIT: Final = 200_000
"""Maximum number of steps of one evaluation."""

CALL: Final = 4
"""Steps of a function call, in addition to the work that depends on its arguments."""

LONG_TEXT: Final = 512
"""Number of characters of a text that one step compares or hashes."""

Spend: TypeAlias = Callable[[int], None]
"""Counts steps before they are made; raises `AbortError` if they exceed the limit."""

Work: TypeAlias = Callable[[list[object]], int]
"""Returns the steps of a call from its arguments."""


def check(steps: int) -> None:
    """End an evaluation that has made too many steps.

    Raises:
        AbortError: `steps` exceed the limit.
    """
    if steps > LIMIT:
        raise AbortError(
            f"it takes more than {LIMIT} steps", "look at fewer elements, or build smaller lists and texts"
        )


def free(steps: int) -> None:
    """Count nothing, for work that is already bounded at compile time."""


def fixed(steps: int) -> Work:
    """Return a work function for work that does not depend on the arguments."""

    def work(args: list[object]) -> int:  # noqa: ARG001 - the shape of every price
        return steps

    return work


def of_first(elements: int, base: int = 0) -> Work:
    """Return a work function: each element or character of the first argument is work.

    One step processes `elements` of them.
    """

    def work(args: list[object]) -> int:
        return base + size_of(args[0]) // elements

    return work


def of_both(elements: int) -> Work:
    """Return a work function: each element or character of two arguments is work.

    One step processes `elements` of them.
    """

    def work(args: list[object]) -> int:
        return (size_of(args[0]) + size_of(args[1])) // elements

    return work


def searching(text: int, part: int) -> int:
    """Return the steps of searching a text for a part: in the worst case, the product of their lengths."""
    return text // 32 + text * min(text, part) // 256
