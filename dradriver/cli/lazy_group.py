"""Groups that import a command when it is called.

To show a help text or the version, no command is imported.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple

import click

from dradriver.extras import require

__all__ = ["LazyCommand", "LazyGroup"]


class LazyCommand(NamedTuple):
    """A command that is not imported yet.

    Attributes:
        import_path: module in `dradriver.cli` and name of the command, as `module:name`.
        summary: the short help of the command.
        extra: the extra of the distribution that the command needs; empty if the command needs no extra.
    """

    import_path: str
    summary: str
    extra: str = ""


class LazyGroup(click.Group):
    """A group with a table of its commands. It imports only the called command.

    Args:
        table: commands by name.
        settings: other arguments of `click.Group`.
    """

    def __init__(self, *, table: Mapping[str, LazyCommand], **settings: Any) -> None:  # noqa: ANN401 - click's
        super().__init__(**settings)
        self._table = table

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names in alphabetical order. Imports nothing."""
        return sorted(self._table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import the command of this name. Return None if no command has this name.

        Raises:
            MissingExtraError: the extra that the command needs is not installed.
        """
        entry = self._table.get(cmd_name)
        if entry is None:
            return None
        if entry.extra:
            require(entry.extra, f"dradriver {cmd_name}")
        module, _, attribute = entry.import_path.partition(":")
        command = getattr(import_module(f"dradriver.cli.{module}"), attribute)
        if not isinstance(command, click.Command):
            raise TypeError(f"{entry.import_path} is not a command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write names and summaries from the table. Imports nothing."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, self._table[name].summary) for name in self.list_commands(ctx)])
