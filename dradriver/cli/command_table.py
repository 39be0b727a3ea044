"""The commands by name. A command's module is imported when the command is called."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Final

import click

from dradriver.cli.terminal.errors import ErrorGroup
from dradriver.extras import require

__all__ = ["COMMANDS", "CommandTable", "Entry"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One command.

    Attributes:
        module: the module that has the command, under the command's name.
        help: what `dradriver --help` says about the command.
        extra: the extra that the command needs; empty if it needs none.
    """

    module: str
    help: str
    extra: str = ""


COMMANDS: Final[Mapping[str, Entry]] = {
    "cel": Entry("dradriver.cli.selector", "Show which devices a CEL expression selects.", "scheduler"),
    "demo": Entry("dradriver.cli.demonstration", "Show devices all the way into a container.", "cluster"),
    "explain": Entry(
        "dradriver.cli.explanation", "Explain why a pod or a claim waits, node by node.", "scheduler"
    ),
    "get": Entry("dradriver.cli.get", "Show pools, slices, devices, partitions, claims or pods.", "scheduler"),
    "new": Entry("dradriver.cli.new", "Write a project for a new driver."),
    "node": Entry("dradriver.cli.node", "Look at one node from within."),
    "run": Entry("dradriver.cli.run", "Run a driver beside the kubelet of this node, or a pool driver."),
    "simulate": Entry(
        "dradriver.cli.simulation", "Show where pods would go and with which devices, or why not.", "scheduler"
    ),
    "up": Entry("dradriver.cli.up", "Run a small cluster for your own kubectl.", "cluster"),
    "validate": Entry(
        "dradriver.cli.validation", "Check slices, classes, claims and CDI specs offline.", "cluster"
    ),
    "webhook": Entry("dradriver.cli.webhook", "Serve the admission webhook for drivers' opaque configuration."),
    "withdraw": Entry("dradriver.cli.withdraw", "Delete what a pool driver published."),
}


class CommandTable(ErrorGroup):
    """The group of all commands of `COMMANDS`."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Lists the names, sorted."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - as above
        """Imports a command.

        Raises:
            MissingExtraError: the command's extra is not installed.
        """
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        if entry.extra:
            require(entry.extra, f"dradriver {cmd_name}")
        command: click.Command = getattr(import_module(entry.module), cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Lists the commands in the help text without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name].help) for name in self.list_commands(ctx)])
