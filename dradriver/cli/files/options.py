"""The option that names files."""

from collections.abc import Callable
from typing import TypeVar

import click

__all__ = ["file_options"]

F = TypeVar("F", bound=Callable[..., object])


def file_options(*, required: bool = True) -> Callable[[F], F]:
    """Return a decorator that adds the option `-f/--filename`. Its values arrive as `files`."""
    help_text = "File or folder, - for stdin; may be repeated."
    if not required:
        help_text += "  [default: ask the cluster]"
    return click.option("-f", "--filename", "files", multiple=True, required=required, help=help_text)
