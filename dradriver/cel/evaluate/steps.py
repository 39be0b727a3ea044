"""Steps: a deterministic count of the work of one evaluation, with a limit that no selector can pass.

CEL's cost (`cost`) is part of the verdict that Kubernetes gives, but it does not bound work: adding two lists
costs 1 whatever their length, and a pattern is compiled for nothing. Steps do. Each instruction of the
machine is a step, and a function whose work depends on its arguments spends steps before it works. One step
stands for at most about 160 bytes of new memory and a sixth of a microsecond on a slow core, so an evaluation
ends within 100 ms and 64 MiB. Steps depend on the selector and the device alone, never on time or on what is
cached, so a verdict is the same on every machine.
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
"""Steps of one evaluation."""

CALL: Final = 4
"""Steps of a function call, besides the work that depends on its arguments."""

LONG_TEXT: Final = 512
"""Characters of a text that one step compares or hashes."""

Spend: TypeAlias = Callable[[int], None]
"""Counts steps that are about to be made; raises `AbortError` where they exceed the limit."""

Work: TypeAlias = Callable[[list[object]], int]
"""The steps of a call, from its arguments."""


def check(steps: int) -> None:
    """Ends an evaluation that has made too many steps.

    Raises:
        AbortError: `steps` exceed the limit.
    """
    if steps > LIMIT:
        raise AbortError(
            f"it takes more than {LIMIT} steps", "look at fewer elements, or build smaller lists and texts"
        )


def free(steps: int) -> None:
    """Counts nothing: for work that was bounded when the selector was compiled."""


def fixed(steps: int) -> Work:
    """Work that does not depend on the arguments."""

    def work(args: list[object]) -> int:  # noqa: ARG001 - the shape of every price
        return steps

    return work


def of_first(elements: int, base: int = 0) -> Work:
    """Work for each element or character of the first argument; one step does `elements` of them."""

    def work(args: list[object]) -> int:
        return base + size_of(args[0]) // elements

    return work


def of_both(elements: int) -> Work:
    """Work for each element or character of two arguments; one step does `elements` of them."""

    def work(args: list[object]) -> int:
        return (size_of(args[0]) + size_of(args[1])) // elements

    return work


def searching(text: int, part: int) -> int:
    """The steps of searching a text of one length for a part of another: at worst their product."""
    return text // 32 + text * min(text, part) // 256
