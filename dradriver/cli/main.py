"""The root of the command line."""

import click

from dradriver.cli import new, node, run, up, webhook
from dradriver.cli.demonstration import demo
from dradriver.cli.explanation import explain
from dradriver.cli.get import get
from dradriver.cli.selector import cel
from dradriver.cli.simulation import simulate
from dradriver.cli.terminal.errors import ErrorGroup
from dradriver.cli.validation import validate
from dradriver.cli.withdraw import withdraw

__all__ = ["main"]


@click.group(cls=ErrorGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 112})
@click.version_option(package_name="dradriver")
def main() -> None:
    """Write, run and inspect Kubernetes DRA drivers.

    Start with `dradriver demo`, then `dradriver up` and your own kubectl.
    """


for _command in (
    demo,
    up.up,
    run.run,
    new.new,
    get,
    explain,
    node.node,
    validate,
    cel,
    simulate,
    withdraw,
    webhook.webhook,
):
    main.add_command(_command)
