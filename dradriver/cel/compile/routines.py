"""Runs recursive functions without using Python's stack.

A selector may be nested 250 levels deep, and each level would take several Python frames. So each function that
visits the tree or the types of a selector is a generator. Where it would call itself, it yields a generator,
and `run` keeps the stack of generators.
"""

from collections.abc import Generator
from typing import Any, TypeAlias, TypeVar

__all__ = ["Routine", "run"]

T = TypeVar("T")
Routine: TypeAlias = Generator["Routine[Any]", Any, T]


def run(routine: Routine[T]) -> T:
    """Run a generator that yields the generators it calls. The result of each is sent to its caller."""
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
