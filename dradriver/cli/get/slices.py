"""`dradriver get slices`."""

from collections.abc import Iterator
from datetime import datetime

import click

from dradriver.cli.cluster_access import Access, cluster_options
from dradriver.cli.listing import (
    Kind,
    ListedObjects,
    ListRow,
    ListSource,
    Query,
    listing_options,
    selector_options,
    show_list,
    unused_namespace_options,
)
from dradriver.cli.terminal.output import age
from dradriver.kube import SLICES
from dradriver.model.resource.slices import ResourceSlice

__all__ = ["slices"]

COLUMNS = ("name", "driver", "pool", "generation", "of", "node", "devices", "counter sets", "age")


@click.command(short_help="Show ResourceSlices.")
@listing_options("slices")
@selector_options
@unused_namespace_options
@cluster_options
def slices(query: Query, access: Access) -> None:
    """Show ResourceSlices: pool, node, and number of devices and counter sets."""
    show_list(SLICE_LIST, query, access)


def _rows(objects: ListedObjects, now: datetime) -> Iterator[ListRow]:
    for source in objects.get(SLICES, ResourceSlice):
        metadata = source.metadata
        cells = dict(zip(COLUMNS, _row(source, now), strict=True))
        yield ListRow(f"/{metadata.name}", (metadata.name,), cells, metadata.labels)


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


SLICE_LIST = Kind(
    *("slice", "slices", COLUMNS, COLUMNS),
    sources=(ListSource(SLICES, ResourceSlice),),
    rows=_rows,
    empty="No ResourceSlices.",
)
