"""`dradriver get pools`."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

import click

from dradriver.allocator import InUse, Inventory
from dradriver.cli.cluster_access import Access, cluster_options
from dradriver.cli.completion.candidates import completer
from dradriver.cli.listing import (
    Kind,
    ListedObjects,
    ListRow,
    ListSource,
    Query,
    document_row,
    listing_options,
    show_list,
    unused_namespace_options,
    unused_selector_options,
)
from dradriver.kube import CLAIMS, SLICES
from dradriver.model.resource.claim import ResourceClaim
from dradriver.model.resource.slices import ResourceSlice

__all__ = ["nodes_of", "pool_rows", "pools"]

COLUMNS = ("driver", "pool", "nodes", "generation", "slices", "devices", "allocated", "problem")


@click.command(short_help="Show pools: slices, allocated devices, problems.")
@listing_options("pools")
@click.option(
    "--driver", shell_complete=completer("drivers"), help="Show only pools of this driver.  [default: all]"
)
@unused_namespace_options
@unused_selector_options("select pools with --driver or their names, or slices with get slices -l")
@cluster_options
def pools(query: Query, driver: str | None, access: Access) -> None:
    """Show pools: slices, number of allocated devices, and why a pool cannot be used.

    NAME is the name of a pool, or DRIVER/POOL.
    """

    def rows(objects: ListedObjects, now: datetime) -> Iterator[ListRow]:  # noqa: ARG001 - pools have no age
        slices, claims = objects.get(SLICES, ResourceSlice), objects.get(CLAIMS, ResourceClaim)
        for fields in pool_rows(slices, claims):
            key = f"{fields['driver']}/{fields['pool']}"
            row = document_row(key, (key, str(fields["pool"])), COLUMNS, fields)
            cells = {**row.cells, "slices": f"{fields['slices']}/{fields['resourceSliceCount']}"}
            if driver in {None, fields["driver"]}:
                yield ListRow(row.key, row.names, cells, document=fields)

    show_list(
        Kind(
            *("pool", "pools", COLUMNS, COLUMNS),
            sources=(ListSource(SLICES, ResourceSlice), ListSource(CLAIMS, ResourceClaim)),
            rows=rows,
            empty="No pools: no driver has published a ResourceSlice.",
            is_api=False,
            document_kind="PoolList",
        ),
        query,
        access,
    )


def pool_rows(
    slices: Iterable[ResourceSlice], claims: Iterable[ResourceClaim]
) -> Iterator[Mapping[str, object]]:
    """Yield one row for each pool.

    In a row, `slices` is the number of existing slices, and `resourceSliceCount` the number that the driver
    declares.

    Args:
        slices: all ResourceSlices.
        claims: all claims. Devices of allocated claims are counted as allocated.
    """
    in_use = InUse.of(claims)
    for key, pool in Inventory.of(slices).pools.items():
        expected = pool.slices[0].spec.pool.resource_slice_count
        yield {
            "driver": pool.driver,
            "pool": pool.name,
            "nodes": nodes_of(pool.slices),
            "generation": pool.generation,
            "slices": len(pool.slices),
            "resourceSliceCount": expected,
            "devices": len(pool.devices),
            "allocated": len(in_use.claims_by_device(key)),
            "problem": pool.problem,
        }


def nodes_of(slices: Iterable[ResourceSlice]) -> str:
    """Return the names of the nodes that reach the devices of slices, separated by commas.

    Args:
        slices: slices of one pool.
    """
    names: dict[str, None] = {}
    for source in slices:
        spec = source.spec
        names[
            spec.node_name
            or (
                "all nodes"
                if spec.all_nodes
                else "by device"
                if spec.per_device_node_selection
                else "by selector"
            )
        ] = None
    return ",".join(names)
