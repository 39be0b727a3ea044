"""Several kinds in one command line: `get pods,claims` and `get pod/a claim/b`."""

from collections.abc import Sequence

import click

from dradriver.cli.habits import find_values, kind_hint
from dradriver.cli.lazy_group import LazyGroup
from dradriver.errors import DraError, UsageError

__all__ = ["SeveralKinds"]


class SeveralKinds(LazyGroup):
    """A group that runs a command for each kind of a command line, one after the other."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or make one that runs the commands of several kinds.

        Raises:
            click.UsageError: a kind does not exist.
        """
        runs = self._plan(ctx, args)
        if len(runs) < 2:
            return super().resolve_command(ctx, args)

        def run_all() -> None:
            # A help text needs no client of the cluster.
            from dradriver.cli.listing import collect_parts, print_parts  # noqa: PLC0415

            problems: list[DraError] = []
            with collect_parts(ctx) as parts:
                for number, (command, name, words) in enumerate(runs):
                    if number and not parts:
                        click.echo()
                    try:
                        with command.make_context(name, list(words), parent=ctx) as each:
                            command.invoke(each)
                    except UsageError:
                        raise
                    except DraError as error:  # the other kinds are printed, as in kubectl
                        problems.append(error)
            if parts:
                print_parts(parts)
            if problems:
                raise DraError("; ".join(map(str, problems)))

        return args[0], click.Command(args[0], callback=run_all), []

    def find_hint(self, program: str, words: list[str]) -> str:  # noqa: ARG002 - the base class's signature
        """Return the kubectl command that shows objects of a kind; empty if the kind is unknown."""
        return kind_hint(words[0])

    def _plan(self, ctx: click.Context, args: Sequence[str]) -> list[tuple[click.Command, str, list[str]]]:
        kinds = [each for each in args[0].split(",") if each]
        if len(kinds) > 1 and "/" not in args[0]:
            return [self._resolved(ctx, [kind, *args[1:]]) for kind in kinds]
        names: dict[str, list[str]] = {}
        rest: list[str] = []
        values = find_values(args)
        for position, word in enumerate(args):
            kind, slash, name = word.partition("/")
            is_object = slash and name and position not in values and not kind.startswith("-")
            if is_object and self.get_command(ctx, kind) is not None:
                names.setdefault(kind, []).append(name)
            else:
                rest.append(word)
        return [self._resolved(ctx, [kind, *each, *rest]) for kind, each in names.items()]

    def _resolved(self, ctx: click.Context, args: list[str]) -> tuple[click.Command, str, list[str]]:
        name, command, words = super().resolve_command(ctx, args)
        if name is None or command is None:
            raise click.UsageError(f"No such command {args[0]!r}.", ctx)
        return command, name, words
