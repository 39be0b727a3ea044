"""Tables for people, and JSON and YAML for programs."""

import json
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, TypeVar

import click

from dradriver.cli.terminal.color import has_color, paint_state
from dradriver.cli.terminal.layout import table_lines, wrap

if TYPE_CHECKING:
    from rich.console import Console

__all__ = [
    "age",
    "console",
    "document",
    "drawing_output_option",
    "html_output_option",
    "output_option",
    "progress_console",
    "prose",
    "table",
    "terminal_width",
]

F = TypeVar("F", bound=Callable[..., object])

_UNITS: Final = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))
_PIPE_WIDTH: Final = 1_000_000


def output_option(command: F) -> F:
    """Add the option `-o/--output`.

    Args:
        command: the command. It gets the argument `output`: `table`, `json` or `yaml`.

    Returns:
        The command with the option.
    """
    return _output(command, ["table", "json", "yaml"], "json and yaml are for programs.")


def drawing_output_option(command: F) -> F:
    """Add the option `-o/--output` with formats for drawings.

    Args:
        command: the command. It gets the argument `output`: `table`, `json`, `yaml`, `svg` or `html`.

    Returns:
        The command with the option.
    """
    forms = ["table", "json", "yaml", "svg", "html"]
    return _output(command, forms, "json and yaml are for programs; svg and html are drawings for a file.")


def html_output_option(command: F) -> F:
    """Add the option `-o/--output` with the format `html`.

    Args:
        command: the command. It gets the argument `output`: `table`, `json`, `yaml` or `html`.

    Returns:
        The command with the option.
    """
    forms = ["table", "json", "yaml", "html"]
    return _output(command, forms, "json and yaml are for programs; html is a drawing for a file.")


def _output(command: F, forms: Sequence[str], help_text: str) -> F:
    option = click.option(
        "-o",
        "--output",
        type=click.Choice(forms),
        default="table",
        show_default=True,
        help=f"Output format; {help_text}",
    )
    return option(command)


def terminal_width() -> int:
    """Return the number of characters in a line of the terminal. Output to a pipe or file is not wrapped."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else _PIPE_WIDTH


def console() -> "Console":
    """Return a console on stdout for commands of the extra `cluster`.

    Output to a pipe is neither wrapped nor cut.
    """
    from rich.console import Console  # noqa: PLC0415 - an extra

    return Console(width=None if sys.stdout.isatty() else _PIPE_WIDTH, soft_wrap=not sys.stdout.isatty())


def progress_console() -> "Console":
    """Return a console on stderr for progress and remarks, for commands of the extra `cluster`."""
    from rich.console import Console  # noqa: PLC0415 - an extra

    return Console(stderr=True)


def table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    empty: str,
    head: bool = True,
    aligned_with: Sequence[Sequence[str]] = (),
) -> None:
    """Print a table. On a terminal, states have a color.

    Args:
        columns: names in lower case.
        rows: one cell for each column; `-` for an empty cell.
        empty: message if there are no rows.
        head: whether to print the names of the columns.
        aligned_with: other rows of the same table; the columns are as wide as these rows need.
    """
    rows = list(rows)
    if not rows:
        if empty:
            click.echo(empty, err=True)
        return
    width, painted = terminal_width(), has_color()
    first, *lines = (
        table_lines(columns, rows, width, aligned_with=aligned_with, paint=paint_state)
        if painted
        else table_lines(columns, rows, width, aligned_with=aligned_with)
    )
    if head:
        click.echo(click.style(first, bold=True) if painted else first)
    for line in lines:
        click.echo(line)


def prose(lines: Iterable[str]) -> None:
    """Print lines of text. If a line is wider than the terminal, it is broken between words.

    Args:
        lines: the lines.
    """
    width = terminal_width()
    for line in lines:
        for part in wrap(line, width):
            click.echo(part)


def document(value: object, form: str) -> None:
    """Print a value as a JSON or YAML document.

    Args:
        value: dictionaries, lists and scalars.
        form: `json` or `yaml`.
    """
    if form == "json":
        click.echo(json.dumps(value, indent=2, ensure_ascii=False))
    else:
        import yaml  # noqa: PLC0415 - most outputs are tables

        click.echo(yaml.safe_dump(value, sort_keys=False, allow_unicode=True).rstrip("\n"))


def age(moment: datetime | None, now: datetime | None = None) -> str:
    """Return the time since a moment, in the units that kubectl chooses: `5m`, `2d`.

    Args:
        moment: the moment; None gives `-`.
        now: the present time; None: the time of the clock.
    """
    if moment is None:
        return "-"
    seconds = max(0, int(((now or datetime.now(UTC)) - moment).total_seconds()))
    return next((f"{seconds // size}{unit}" for size, unit in _UNITS if seconds >= size), "0s")
