"""`dradriver withdraw`: deletes the slices that a pool driver published."""

import click

from dradriver.cli.cluster_access import Access, cluster_options, with_client
from dradriver.driver import PoolDriver
from dradriver.errors import UsageError
from dradriver.publish import PublishController
from dradriver.runner import load_any

__all__ = ["withdraw"]


@click.command(short_help="Delete what a pool driver published.")
@click.argument("name")
@cluster_options
def withdraw(name: str, kubeconfig: str | None, context: str | None) -> None:
    """Delete the ResourceSlices that the pool driver NAME published, for an uninstall.

    Stop the driver first, or it publishes them again. Slices of nodes, of the same driver too, are left alone:
    they go with their nodes. Claims keep what they hold. Can be repeated.
    """
    driver = load_any(name)
    if not issubclass(driver, PoolDriver):
        raise UsageError(f"NAME: {name} is no pool driver: the slices of a node plugin go with its Node")
    with_client(Access(kubeconfig, context), lambda client: PublishController(client, driver.name).withdraw())
    click.echo(f"No pool of {driver.name} is published by the control plane any more.")
