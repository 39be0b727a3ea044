"""Counts the work of one evaluation in steps. The count is deterministic and limited.

CEL's cost (`cost`) must be computed, because Kubernetes rejects an evaluation that costs too much. But the cost
does not limit the work: adding two lists costs 1 for any length, and compiling a pattern costs nothing. Steps
limit the work. Each instruction of the machine is a step. If the work of a function depends on its arguments,
the function's steps are counted before it is called.

One step allocates at most about 160 bytes and takes at most as long as twelve additions in a Python loop. So an
evaluation takes at most 64 MiB, and at most 100 ms on a core that makes 24 million such additions a second.
Steps depend only on the selector and the device, never on time or caches, so every computer gets the same
verdict.
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
    "both_work",
    "check",
    "first_work",
    "fixed_work",
    "search_steps",
    "spend_nothing",
]

LIMIT: Final = 200_000
"""Maximum number of steps of one evaluation."""

CALL: Final = 4
"""Steps of a function call, in addition to the work that depends on its arguments."""

LONG_TEXT: Final = 512
"""Number of characters of a text that one step compares or hashes."""

Spend: TypeAlias = Callable[[int], None]
"""Counts steps before the work is done. Raises `AbortError` if they exceed the limit."""

Work: TypeAlias = Callable[[list[object]], int]
"""Computes the steps of a call from its arguments."""


def check(steps: int) -> None:
    """Raise if an evaluation has made too many steps.

    Raises:
        AbortError: `steps` exceed the limit.
    """
    if steps > LIMIT:
        raise AbortError(
            f"the evaluation takes more than {LIMIT} steps",
            "read fewer elements, or build smaller lists and texts",
        )


def spend_nothing(steps: int) -> None:
    """Count nothing, for work that is already bounded at compile time."""


def fixed_work(steps: int) -> Work:
    """Return a work function with a fixed number of steps, whatever the arguments are."""

    def work(args: list[object]) -> int:  # noqa: ARG001 - the shape of every price
        return steps

    return work


def first_work(elements: int, base: int = 0) -> Work:
    """Return a work function whose steps grow with the elements or characters of the first argument.

    One step processes `elements` of them.
    """

    def work(args: list[object]) -> int:
        return base + size_of(args[0]) // elements

    return work


def both_work(elements: int) -> Work:
    """Return a work function whose steps grow with the elements or characters of both arguments.

    One step processes `elements` of them.
    """

    def work(args: list[object]) -> int:
        return (size_of(args[0]) + size_of(args[1])) // elements

    return work


def search_steps(text: int, part: int) -> int:
    """Return the steps of searching a text for a part: in the worst case, the product of their lengths."""
    return text // 32 + text * min(text, part) // 256
