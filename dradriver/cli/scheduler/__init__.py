"""`dradriver scheduler`: schedules pods with devices, as the HTTP extender of a kube-scheduler.

- `run`: runs the extender.
- `config`: writes the configuration of the kube-scheduler.
- `options`: options that both commands have.
"""

from collections.abc import Mapping
from typing import Final

import click

from dradriver.cli.lazy_group import LazyCommand, LazyGroup

__all__ = ["scheduler"]

_COMMANDS: Final[Mapping[str, LazyCommand]] = {
    "config": LazyCommand("scheduler.config:config", "Write the configuration of the kube-scheduler."),
    "run": LazyCommand("scheduler.run:run", "Run the extender until SIGTERM or SIGINT."),
}


@click.group(cls=LazyGroup, table=_COMMANDS)
def scheduler() -> None:
    """Schedule pods with devices, as a kube-scheduler's extender.

    The kube-scheduler is a process of its own with the plugin DynamicResources disabled.
    """
