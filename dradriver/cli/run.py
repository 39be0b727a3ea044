"""`dradriver run`: the process of a driver, as the DaemonSet starts it."""

from collections.abc import Callable
from typing import TypeVar

import click

from dradriver.runner import OPTIONS, driver_names, launch

__all__ = ["run"]

F = TypeVar("F", bound=Callable[..., object])


def _process_options(command: F) -> F:
    """Add the options that `dradriver.runner.settings` defines."""
    for option in reversed(OPTIONS):
        variables = ", ".join(f"${name}" for name in option.environment)
        default = f"; default: {option.default}" if option.default else ""
        command = click.option(
            option.flag,
            option.name,
            type=click.Choice(option.choices) if option.choices else str,
            help=f"{option.help[0].upper()}{option.help[1:]}. [{variables}{default}]",
        )(command)
    return command


class _RunCommand(click.Command):
    """Lists the installed drivers below its help text. The drivers are looked up only for this text."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the names of the installed drivers."""
        self.epilog = f"Installed drivers: {', '.join(driver_names()) or 'none'}."
        super().format_epilog(ctx, formatter)


@click.command(
    cls=_RunCommand,
    short_help="Run a driver on a node or in the control plane.",
)
@click.argument("name")
@_process_options
@click.pass_context
def run(ctx: click.Context, /, name: str, **given: str | None) -> None:
    """Run the driver NAME beside the kubelet of this node until SIGTERM or SIGINT.

    NAME is an entry point of the group dradriver.drivers, or module:Class. A pool driver or a controller
    driver runs once for the whole cluster, on any machine, and rejects the options of the kubelet. Exit codes:
    0 stopped by a signal, 1 failed, 2 wrong usage.
    """
    ctx.exit(launch(name, given))
