"""The root command, with the table of commands that are imported when they are called."""

from collections.abc import Mapping
from typing import Final

import click

from dradriver.cli.lazy_group import CommandPlace, LazyGroup
from dradriver.cli.terminal.errors import ErrorGroup
from dradriver.version import VERSION

__all__ = ["COMMANDS", "main"]

COMMANDS: Final[Mapping[str, CommandPlace]] = {
    "cel": CommandPlace(
        "dradriver.cli.selector:cel", "Show which devices a CEL expression selects.", "scheduler"
    ),
    "demo": CommandPlace(
        "dradriver.cli.demonstration:demo", "Show devices all the way into a container.", "cluster"
    ),
    "explain": CommandPlace(
        "dradriver.cli.explanation:explain", "Explain why a pod or a claim waits, node by node.", "scheduler"
    ),
    "get": CommandPlace(
        "dradriver.cli.get:get", "Show pools, slices, devices, partitions, claims or pods.", "scheduler"
    ),
    "new": CommandPlace("dradriver.cli.new:new", "Write a project for a new driver."),
    "node": CommandPlace("dradriver.cli.node:node", "Look at one node from within."),
    "run": CommandPlace(
        "dradriver.cli.run:run", "Run a driver beside the kubelet of this node, or a pool driver."
    ),
    "simulate": CommandPlace(
        "dradriver.cli.simulation:simulate",
        "Show where pods would go and with which devices, or why not.",
        "scheduler",
    ),
    "up": CommandPlace("dradriver.cli.up:up", "Run a small cluster for your own kubectl.", "cluster"),
    "validate": CommandPlace(
        "dradriver.cli.validation:validate", "Check slices, classes, claims and CDI specs offline.", "cluster"
    ),
    "webhook": CommandPlace(
        "dradriver.cli.webhook:webhook", "Serve the admission webhook for drivers' opaque configuration."
    ),
    "withdraw": CommandPlace("dradriver.cli.withdraw:withdraw", "Delete what a pool driver published."),
}


class _Root(ErrorGroup, LazyGroup):
    """Imports commands when they are called, and prints their errors as one line."""


@click.group(
    cls=_Root,
    places=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 112},
)
@click.version_option(VERSION)
def main() -> None:
    """Write, run and inspect Kubernetes DRA drivers.

    Start with `dradriver demo`, then `dradriver up` and your own kubectl.
    """
