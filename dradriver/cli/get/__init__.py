"""`dradriver get`: the devices, pools, claims and pods of a cluster.

With `-o json` and `-o yaml`, slices, claims and pods are the cluster's own objects in a `List`. Pools and
devices are not objects of the API. They are documents of the kinds `PoolList` and `DeviceList` of
`dradriver/v1`, whose fields are the columns of the table. `PartitionList`, which also has a drawing, is another
such document.

- `pools`, `slices`, `devices`, `partitions`, `claims`, `pods`: the commands.
- `show`: shared output of the commands.
- `pod_summary`: READY and STATUS of a pod.
- `pod_events`: messages of a pod's events.
- `why`: why a pod is not ready.
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
