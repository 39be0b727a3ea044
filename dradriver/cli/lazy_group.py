"""Groups that import a command when it is called.

To show a help text or the version, no command is imported.
"""

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from dradriver.cli.habits import find_values, move_leading_options, suggest, unify_options, verb_hint
from dradriver.extras import require

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

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

    Options of kubectl, such as `-n NAMESPACE` and `-o wide`, may stand before the command.

    Args:
        table: commands by name.
        aliases: other names of commands; help texts do not list them.
        settings: other arguments of `click.Group`.
    """

    def __init__(
        self,
        *,
        table: Mapping[str, LazyCommand],
        aliases: Mapping[str, str] = MappingProxyType({}),
        **settings: Any,  # noqa: ANN401 - click's
    ) -> None:
        super().__init__(**settings)
        self._table = table
        self._aliases = aliases

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Move the options of kubectl to the command, then parse the options of the group."""
        return super().parse_args(ctx, move_leading_options(unify_options(args)))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command. `KIND/NAME` is the command `KIND` with the argument `NAME`.

        Raises:
            click.UsageError: no command has this name. The message has what to type instead, if it is known.
        """
        word, *rest = args
        kind, slash, _ = word.partition("/")
        if slash and kind and self.get_command(ctx, kind) is not None:
            return super().resolve_command(ctx, [kind, *_without_kind(kind, [word, *rest])])
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            if word.startswith("-"):
                raise
            raise click.UsageError(self._explain_unknown(ctx, args), ctx) from error

    def find_hint(self, program: str, words: list[str]) -> str:
        """Return what to type instead of words that begin with no known command; empty if unknown.

        Args:
            program: `dradriver` or `kubectl dra`.
            words: the rest of the command line.
        """
        return verb_hint(program, words) if self.name == "main" else ""

    def _explain_unknown(self, ctx: click.Context, args: list[str]) -> str:
        program = ctx.find_root().info_name or "dradriver"
        hint = self.find_hint(program, args) or suggest(args[0], [*self._table, *self._aliases])
        return f"No such command {args[0]!r}." + (f" {hint[0].upper()}{hint[1:]}" if hint else "")

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        """Return the commands from the table. Imports none of them."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415 - only for completion

        return [
            CompletionItem(name, help=self._table[name].summary)
            for name in self.list_commands(ctx)
            if name.startswith(incomplete)
        ]

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names in alphabetical order. Imports nothing."""
        return sorted(self._table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import the command of this name. Return None if no command has this name.

        Raises:
            MissingExtraError: the extra that the command needs is not installed.
        """
        entry = self._table.get(self._aliases.get(cmd_name.lower(), cmd_name))
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


def _without_kind(kind: str, words: list[str]) -> list[str]:
    """Return the words with `KIND/NAME` written as `NAME`."""
    values = find_values(words)
    return [
        word if position in values else word.removeprefix(f"{kind}/") for position, word in enumerate(words)
    ]
