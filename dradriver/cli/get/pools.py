"""`dradriver get pools`."""

from collections.abc import Iterable, Iterator, Mapping

import click

from dradriver.allocator import InUse, Inventory
from dradriver.cli.cluster_access import Access, cluster_options, with_client
from dradriver.cli.get.show import show_rows
from dradriver.cli.terminal.output import output_option
from dradriver.cli.world import list_typed
from dradriver.kube import CLAIMS, SLICES, Client
from dradriver.model.resource.claim import ResourceClaim
from dradriver.model.resource.slices import ResourceSlice

__all__ = ["pool_rows", "pools"]

COLUMNS = ("driver", "pool", "nodes", "generation", "slices", "devices", "allocated", "problem")


@click.command(short_help="Show pools: slices, allocated devices, problems.")
@cluster_options
@output_option
def pools(access: Access, output: str) -> None:
    """Show pools: slices, number of allocated devices, and why a pool cannot be used."""

    async def read(client: Client) -> tuple[list[ResourceSlice], list[ResourceClaim]]:
        return await list_typed(client, SLICES, ResourceSlice), await list_typed(client, CLAIMS, ResourceClaim)

    slices, claims = with_client(access, read)
    rows = list(pool_rows(slices, claims))
    if output == "table":
        rows = [{**row, "slices": f"{row['slices']}/{row['resourceSliceCount']}"} for row in rows]
    show_rows("PoolList", COLUMNS, rows, output, empty="No pools: no driver has published a ResourceSlice.")


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
