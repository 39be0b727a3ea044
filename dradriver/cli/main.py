"""The root command, and the table of its commands. A command is imported when it is called."""

from collections.abc import Mapping
from typing import Final

import click

from dradriver.cli.lazy_group import LazyCommand, LazyGroup
from dradriver.cli.terminal.errors import ErrorGroup
from dradriver.version import VERSION

__all__ = ["COMMANDS", "kubectl_plugin", "kubectl_plugin_completion", "main"]

COMMANDS: Final[Mapping[str, LazyCommand]] = {
    "cel": LazyCommand("selector:cel", "Show which devices a CEL expression selects.", "scheduler"),
    "completion": LazyCommand("completion.command:completion", "Print the completion script of a shell."),
    "dashboard": LazyCommand(
        "dashboard:dashboard", "Serve a read-only page with the devices of a cluster.", "scheduler"
    ),
    "demo": LazyCommand("demonstration:demo", "Show devices from discovery to a container.", "cluster"),
    "explain": LazyCommand(
        "explanation:explain", "Explain why a pod or a claim waits, for each node.", "scheduler"
    ),
    "get": LazyCommand("get:get", "Show pools, slices, devices, partitions, claims or pods.", "scheduler"),
    "manifests": LazyCommand("manifests:manifests", "Print the objects with which to try a driver."),
    "new": LazyCommand("new:new", "Write a project for a new driver."),
    "node": LazyCommand("node:node", "Show the state of one node."),
    "run": LazyCommand("run:run", "Run a driver on a node or in the control plane."),
    "scheduler": LazyCommand(
        "scheduler:scheduler", "Schedule pods with devices, as a kube-scheduler's extender.", "scheduler"
    ),
    "simulate": LazyCommand(
        "simulation:simulate", "Show on which nodes and devices pods would be placed.", "scheduler"
    ),
    "top": LazyCommand("top:top", "Show devices, and what waits, in a live screen.", "scheduler"),
    "up": LazyCommand("up:up", "Run a small embedded cluster for kubectl.", "cluster"),
    "validate": LazyCommand(
        "validation:validate", "Check slices, classes, claims and CDI specs in files.", "cluster"
    ),
    "webhook": LazyCommand("webhook:webhook", "Serve the admission webhook for drivers' opaque configuration."),
    "withdraw": LazyCommand("withdraw:withdraw", "Delete the ResourceSlices of a pool driver."),
}


class _Root(ErrorGroup, LazyGroup):
    """Imports a command when it is called, and prints its error as one line."""


@click.group(
    cls=_Root,
    table=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 112},
)
@click.version_option(VERSION)
def main() -> None:
    """Write, run and inspect Kubernetes DRA drivers.

    Start with `dradriver demo`, then `dradriver up` and kubectl. Options such as `-n NAMESPACE` and `--context`
    may stand before the command, as in kubectl.
    """


def kubectl_plugin() -> None:
    """Run the program `kubectl-dra`, which kubectl calls for `kubectl dra`."""
    main(prog_name="kubectl dra")


def kubectl_plugin_completion() -> None:
    """Run the program `kubectl_complete-dra`, which kubectl calls to complete the words after `kubectl dra`."""
    from dradriver.cli.completion.command import answer_kubectl  # noqa: PLC0415 - only for completion

    answer_kubectl(main)
