"""The root of the command line."""

import click

from dradriver.cli.command_table import CommandTable

__all__ = ["main"]


@click.group(
    cls=CommandTable, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 112}
)
@click.version_option(package_name="dradriver")
def main() -> None:
    """Write, run and inspect Kubernetes DRA drivers.

    Start with `dradriver demo`, then `dradriver up` and your own kubectl.
    """
