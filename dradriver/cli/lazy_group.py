"""Groups whose commands are imported when they are called. A help text or a version imports no command."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple

import click

from dradriver.extras import require

__all__ = ["CommandPlace", "LazyGroup"]


class CommandPlace(NamedTuple):
    """A command that is not imported yet.

    Attributes:
        home: the module and the name of the command in it, as `module:name`.
        summary: the command's own short help.
        extra: the extra of the distribution that the command needs; empty if it needs none.
    """

    home: str
    summary: str
    extra: str = ""


class LazyGroup(click.Group):
    """A group that has a table of its commands and imports only the called one.

    Args:
        places: the commands by name.
        settings: arguments of `click.Group`.
    """

    def __init__(self, *, places: Mapping[str, CommandPlace], **settings: Any) -> None:  # noqa: ANN401 - click's
        super().__init__(**settings)
        self._places = places

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names in alphabetical order, without imports."""
        return sorted(self._places)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import the command of this name; return None if there is none.

        Raises:
            MissingExtraError: the extra that the command needs is not installed.
        """
        place = self._places.get(cmd_name)
        if place is None:
            return None
        if place.extra:
            require(place.extra, f"dradriver {cmd_name}")
        module, _, attribute = place.home.partition(":")
        command = getattr(import_module(module), attribute)
        if not isinstance(command, click.Command):
            raise TypeError(f"{place.home} is no command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write names and summaries from the table, without imports."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, self._places[name].summary) for name in self.list_commands(ctx)])
