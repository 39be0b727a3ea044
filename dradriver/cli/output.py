"""Tables for people, JSON and YAML for programs."""

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Final, TypeVar

import click
import yaml
from rich.console import Console
from rich.table import Table
from rich.text import Text

__all__ = ["age", "console", "document", "output_option", "progress_console", "table"]

F = TypeVar("F", bound=Callable[..., object])

_UNITS: Final = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))
_PIPE_WIDTH: Final = 1_000_000


def output_option(command: F) -> F:
    """The option `-o/--output`."""
    choice = click.Choice(["table", "json", "yaml"])
    help_text = "Form of the answer; json and yaml are documents for programs."
    return click.option("-o", "--output", type=choice, default="table", show_default=True, help=help_text)(
        command
    )


def console() -> Console:
    """What is answered, on stdout. Into a pipe nothing is wrapped or cut."""
    return Console(width=None if sys.stdout.isatty() else _PIPE_WIDTH, soft_wrap=not sys.stdout.isatty())


def progress_console() -> Console:
    """Progress and remarks, on stderr."""
    return Console(stderr=True)


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, empty: str) -> None:
    """Prints rows under upper-case column names, or the sentence `empty` when there are none."""
    rows = list(rows)
    if not rows:
        click.echo(empty, err=True)
        return
    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_edge=False, header_style="bold")
    for column in columns:
        grid.add_column(column.upper(), overflow="fold")
    for row in rows:
        # Text: names may hold what rich would take for markup.
        grid.add_row(*(Text(cell) for cell in row))
    console().print(grid)


def document(value: object, form: str) -> None:
    """Prints a value as a JSON or YAML document."""
    if form == "json":
        click.echo(json.dumps(value, indent=2, ensure_ascii=False))
    else:
        click.echo(yaml.safe_dump(value, sort_keys=False, allow_unicode=True).rstrip("\n"))


def age(moment: datetime | None, now: datetime | None = None) -> str:
    """How long ago a moment was, in its largest unit, as kubectl shows it."""
    if moment is None:
        return "-"
    seconds = max(0, int(((now or datetime.now(UTC)) - moment).total_seconds()))
    return next((f"{seconds // size}{unit}" for size, unit in _UNITS if seconds >= size), "0s")
