"""`dradriver get slices`."""

from datetime import datetime

import click

from dradriver.cli.cluster_access import Access, cluster_options
from dradriver.cli.get.show import View
from dradriver.cli.terminal.output import age, output_option
from dradriver.kube import SLICES
from dradriver.model.resource.slices import ResourceSlice

__all__ = ["slices"]

COLUMNS = ("name", "driver", "pool", "generation", "of", "node", "devices", "counter sets", "age")


@click.command(short_help="Show ResourceSlices.")
@cluster_options
@output_option
def slices(access: Access, output: str) -> None:
    """Show ResourceSlices: pool, node, and number of devices and counter sets."""
    VIEW.show(access, output)


def _row(source: ResourceSlice, now: datetime) -> list[str]:
    spec = source.spec
    return [
        source.metadata.name,
        spec.driver,
        spec.pool.name,
        str(spec.pool.generation),
        str(spec.pool.resource_slice_count),
        spec.node_name or "-",
        str(len(spec.devices)),
        str(len(spec.shared_counters)),
        age(source.metadata.creation_timestamp, now),
    ]


VIEW = View(SLICES, ResourceSlice, COLUMNS, _row, "No ResourceSlices.")
