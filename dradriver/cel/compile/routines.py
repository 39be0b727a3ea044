"""Recursion without Python's stack.

A selector may nest 250 levels deep, and each level takes several Python frames. So each function that walks its
tree or its types is a generator: it yields where it would recurse, and `run` keeps the stack.
"""

from collections.abc import Generator
from typing import Any, TypeAlias, TypeVar

__all__ = ["Routine", "run"]

T = TypeVar("T")
Routine: TypeAlias = Generator["Routine[Any]", Any, T]


def run(routine: Routine[T]) -> T:
    """Run a routine that yields the routines it calls. The result of each is sent to its caller."""
    stack = [routine]
    value: T | None = None
    while True:
        try:
            called = stack[-1].send(value)
        except StopIteration as done:
            stack.pop()
            value = done.value
            if not stack:
                return done.value  # type: ignore[no-any-return]
        else:
            stack.append(called)
            value = None
