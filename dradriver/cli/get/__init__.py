"""`dradriver get`: what a cluster has, in the words of dynamic resource allocation.

With `-o json` and `-o yaml` slices, claims and pods are the cluster's own objects in a `List`; pools and
devices, which are no objects of their own, are documents of the kinds `PoolList` and `DeviceList` of
`dradriver/v1`, whose fields are the columns of the table; so is `PartitionList`, of which there is a drawing.
"""

from collections.abc import Mapping
from typing import Final

import click

from dradriver.cli.lazy_group import CommandPlace, LazyGroup

__all__ = ["get"]

_COMMANDS: Final[Mapping[str, CommandPlace]] = {
    "claims": CommandPlace(
        "dradriver.cli.get.claims:claims", "Show ResourceClaims: state, devices, why one is pending."
    ),
    "devices": CommandPlace(
        "dradriver.cli.get.devices:devices", "Show devices: where they are, who holds them, taints."
    ),
    "partitions": CommandPlace(
        "dradriver.cli.get.partitions:partitions", "Draw which partitions of devices are taken, by whom."
    ),
    "pods": CommandPlace(
        "dradriver.cli.get.pods:pods", "Show pods: status, node, claims, why one is not ready."
    ),
    "pools": CommandPlace("dradriver.cli.get.pools:pools", "Show pools: slices, allocated devices, problems."),
    "slices": CommandPlace("dradriver.cli.get.slices:slices", "Show ResourceSlices."),
}


@click.group(cls=LazyGroup, places=_COMMANDS)
def get() -> None:
    """Show pools, slices, devices, partitions, claims or pods."""
