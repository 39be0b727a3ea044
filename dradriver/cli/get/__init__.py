"""`dradriver get`: the devices, pools, claims and pods of a cluster.

With `-o json` and `-o yaml`, slices, claims and pods are the cluster's own objects in a `List`. Pools, devices
and partitions are not objects of the API. They are documents of the kinds `PoolList`, `DeviceList` and
`PartitionList` of `dradriver/v1`. The fields of `PoolList` and `DeviceList` are the columns of the table.

- `pools`, `slices`, `devices`, `partitions`, `claims`, `pods`: the commands.
- `several`: several kinds in one command line.
- `pod_summary`: READY and STATUS of a pod.
- `pending`: finds why a pod is not ready.
"""

from collections.abc import Mapping
from typing import Final

import click

from dradriver.cli.get.several import SeveralKinds
from dradriver.cli.lazy_group import LazyCommand

__all__ = ["get"]

_COMMANDS: Final[Mapping[str, LazyCommand]] = {
    "claims": LazyCommand(
        "get.claims:claims", "Show ResourceClaims: state, devices, and why a claim is pending."
    ),
    "devices": LazyCommand("get.devices:devices", "Show devices: node, claims, health, taints."),
    "partitions": LazyCommand("get.partitions:partitions", "Draw which partitions of devices are in use."),
    "pods": LazyCommand("get.pods:pods", "Show pods: status, node, claims, and why a pod is not ready."),
    "pools": LazyCommand("get.pools:pools", "Show pools: slices, allocated devices, problems."),
    "slices": LazyCommand("get.slices:slices", "Show ResourceSlices."),
}


# Kubernetes has a short name for pods only.
_ALIASES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("pod", "po"), "pods"),
    **dict.fromkeys(("claim", "resourceclaim", "resourceclaims"), "claims"),
    **dict.fromkeys(("resourceclaim.resource.k8s.io", "resourceclaims.resource.k8s.io"), "claims"),
    **dict.fromkeys(("slice", "resourceslice", "resourceslices"), "slices"),
    **dict.fromkeys(("resourceslice.resource.k8s.io", "resourceslices.resource.k8s.io"), "slices"),
    **dict.fromkeys(("device", "dev"), "devices"),
    "partition": "partitions",
    "pool": "pools",
}


@click.group(cls=SeveralKinds, table=_COMMANDS, aliases=_ALIASES)
def get() -> None:
    """Show pools, slices, devices, partitions, claims or pods.

    Names of kinds are those of kubectl: `get pods`, `get pod NAME`, `get po/NAME`, `get pods,claims`.
    """
