"""`dradriver get slices`."""

from datetime import UTC, datetime

import click

from dradriver.cli.cluster_access import Access, cluster_options, with_client
from dradriver.cli.get.show import list_typed, show_objects
from dradriver.cli.output import age, output_option, table
from dradriver.kube import SLICES, Client
from dradriver.model.slices import ResourceSlice

__all__ = ["slices"]

COLUMNS = ("name", "driver", "pool", "generation", "of", "node", "devices", "counter sets", "age")


@click.command()
@cluster_options
@output_option
def slices(kubeconfig: str | None, context: str | None, output: str) -> None:
    """Show ResourceSlices."""
    access = Access(kubeconfig, context)
    if output != "table":

        async def ask_raw(client: Client) -> list[bytes]:
            return (await client.list(SLICES, into=bytes)).items

        show_objects(SLICES, with_client(access, ask_raw), output)
        return

    async def ask(client: Client) -> list[ResourceSlice]:
        return await list_typed(client, SLICES, ResourceSlice)

    found = with_client(access, ask)
    now = datetime.now(UTC)
    table(COLUMNS, (_row(each, now) for each in found), empty="No ResourceSlices.")


def _row(found: ResourceSlice, now: datetime) -> list[str]:
    spec = found.spec
    return [
        found.metadata.name,
        spec.driver,
        spec.pool.name,
        str(spec.pool.generation),
        str(spec.pool.resource_slice_count),
        spec.node_name or "-",
        str(len(spec.devices)),
        str(len(spec.shared_counters)),
        age(found.metadata.creation_timestamp, now),
    ]
