"""`dradriver get`: what a cluster has, in the words of dynamic resource allocation.

With `-o json` and `-o yaml` slices, claims and pods are the cluster's own objects in a `List`; pools and
devices, which are no objects of their own, are documents of the kinds `PoolList` and `DeviceList` of
`dradriver/v1`, whose fields are the columns of the table; so is `PartitionList`, of which there is a drawing.
"""

import click

from dradriver.cli.get.claims import claims
from dradriver.cli.get.devices import devices
from dradriver.cli.get.partitions import partitions
from dradriver.cli.get.pods import pods
from dradriver.cli.get.pools import pools
from dradriver.cli.get.slices import slices

__all__ = ["get"]


@click.group()
def get() -> None:
    """Show pools, slices, devices, partitions, claims or pods."""


for _command in (pools, slices, devices, partitions, claims, pods):
    get.add_command(_command)
