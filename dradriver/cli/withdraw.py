"""`dradriver withdraw`: deletes the ResourceSlices of a pool driver."""

import click

from dradriver.cli.cluster_access import Access, cluster_options, with_client
from dradriver.driver import PoolDriver
from dradriver.errors import UsageError
from dradriver.publish import PublishController
from dradriver.runner import load_any

__all__ = ["withdraw"]


@click.command(short_help="Delete the ResourceSlices of a pool driver.")
@click.argument("name")
@cluster_options
def withdraw(name: str, access: Access) -> None:
    """Delete the ResourceSlices of the pool driver NAME, when it is uninstalled.

    Stop the driver first, because it publishes them again. Slices that belong to nodes are not deleted: the
    garbage collector deletes them with their nodes. Claims keep their devices. The command can be repeated.
    """
    driver = load_any(name)
    if not issubclass(driver, PoolDriver):
        raise UsageError(
            f"NAME: {name} is not a pool driver: slices of a node's driver are deleted with the Node"
        )
    with_client(access, lambda client: PublishController(client, driver.name).withdraw())
    click.echo(f"Deleted the ResourceSlices of pool driver {driver.name}.")
