"""`dradriver completion`, and the program `kubectl_complete-dra`."""

import sys
from typing import Final

import click
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

__all__ = ["answer_kubectl", "completion"]

_NO_FILES: Final = 4
"""kubectl's directive: the shell must not complete names of files."""


class _Bash(BashComplete):
    @staticmethod
    def _check_version() -> None:
        """Do not run bash. The shell that will read the script may be on another machine."""


_SHELLS: Final[dict[str, type[ShellComplete]]] = {"bash": _Bash, "fish": FishComplete, "zsh": ZshComplete}


@click.command(short_help="Print the completion script of a shell.")
@click.argument("shell", type=click.Choice(sorted(_SHELLS)))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script with which SHELL completes commands, options and names of the cluster's objects.

    For bash, add this line to ~/.bashrc: eval "$(dradriver completion bash)"
    """
    root = ctx.find_root()
    program = "dradriver"
    click.echo(_SHELLS[shell](root.command, {}, program, "_DRADRIVER_COMPLETE").source())


def answer_kubectl(root: click.Command) -> None:
    """Print completions as kubectl expects them from the program `kubectl_complete-dra`.

    Args:
        root: the root command.

    Source: kubectl's plugin documentation: one candidate a line, with a help text after a tab, then a colon and
        a directive.
    """
    *words, incomplete = sys.argv[1:] or [""]
    items = ShellComplete(root, {}, "kubectl dra", "").get_completions(words, incomplete)
    for item in items:
        click.echo(f"{item.value}\t{item.help}" if item.help else item.value)
    click.echo(f":{_NO_FILES}")
