"""Collects the outputs of several lists, as in `kubectl get pods,services -o json`."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import click

__all__ = ["add_part", "collect_parts", "is_collecting"]

_KEY: Final = "dradriver.cli.listing.parts"


@contextmanager
def collect_parts(ctx: click.Context) -> Iterator[list[Any]]:
    """Collect what the lists of nested commands add, while the context manager is open.

    Args:
        ctx: the context of the outer command.

    Returns:
        A context manager with the collected parts, in the order of the command line.
    """
    parts: list[Any] = []
    ctx.meta[_KEY] = parts
    try:
        yield parts
    finally:
        del ctx.meta[_KEY]


def is_collecting() -> bool:
    """Return whether the current command is one of several."""
    return _KEY in click.get_current_context().meta


def add_part(part: object) -> None:
    """Add the output of the current command.

    Args:
        part: what the outer command prints.
    """
    click.get_current_context().meta[_KEY].append(part)
