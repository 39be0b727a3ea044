"""`dradriver get devices`."""

from collections.abc import Iterable, Iterator, Mapping

import click

from dradriver.allocator import InUse, Inventory
from dradriver.cli.cluster_access import Access, cluster_options, with_client
from dradriver.cli.get.pools import nodes_of
from dradriver.cli.get.show import show_rows
from dradriver.cli.terminal.output import wide_output_option
from dradriver.cli.world import list_if_allowed, list_typed
from dradriver.kube import CLAIMS, SLICES, TAINT_RULES, Client
from dradriver.model.resource.claim import ResourceClaim
from dradriver.model.resource.device import Device
from dradriver.model.resource.slices import ResourceSlice
from dradriver.model.resource.taint_rule import DeviceTaintRule, with_rules

__all__ = ["device_rows", "devices"]

COLUMNS = ("name", "driver", "pool", "node", "allocated to", "taints")
WIDE = (*COLUMNS, "attributes")


@click.command(short_help="Show devices: where they are, who holds them, taints.")
@click.option("--driver", help="Only devices of this driver.")
@click.option("--pool", help="Only devices of this pool.")
@cluster_options
@wide_output_option
def devices(
    driver: str | None, pool: str | None, kubeconfig: str | None, context: str | None, output: str
) -> None:
    """Show devices: where they are, who holds them; attributes and capacities with -o wide.

    Taints are those of their drivers and of DeviceTaintRules.
    """

    async def ask(client: Client) -> tuple[list[ResourceSlice], list[ResourceClaim]]:
        published = await list_typed(client, SLICES, ResourceSlice)
        rules = await list_if_allowed(client, TAINT_RULES, DeviceTaintRule)
        claims = await list_typed(client, CLAIMS, ResourceClaim)
        return [with_rules(each, rules) for each in published], claims

    slices, claims = with_client(Access(kubeconfig, context), ask)
    rows = [
        row
        for row in device_rows(slices, claims)
        if (driver is None or row["driver"] == driver) and (pool is None or row["pool"] == pool)
    ]
    columns = WIDE if output == "wide" else COLUMNS
    show_rows("DeviceList", columns, rows, "table" if output == "wide" else output, empty="No devices.")


def device_rows(
    slices: Iterable[ResourceSlice], claims: Iterable[ResourceClaim]
) -> Iterator[Mapping[str, object]]:
    """Yield one row for each device of the pool generation that its node sees."""
    in_use = InUse.of(claims)
    for key, pool in Inventory.of(slices).published.items():
        driver, name = key
        held = in_use.of_pool(key)
        for pooled in pool.devices():
            device = pooled.device
            yield {
                "name": device.name,
                "driver": driver,
                "pool": name,
                "node": device.node_name or nodes_of([pooled.source]),
                "allocatedTo": list(held.get(device.name, ())),
                "taints": [str(taint) for taint in device.taints],
                "attributes": _attributes(device, driver),
            }


def _attributes(device: Device, driver: str) -> dict[str, object]:
    """Return attributes and capacities. Names of the driver's own domain have no domain."""
    values: dict[str, object] = {}
    for name, attribute in device.attributes.items():
        value = attribute.value
        values[name.removeprefix(f"{driver}/")] = list(value) if isinstance(value, tuple) else value
    for name, capacity in device.capacity.items():
        values[name.removeprefix(f"{driver}/")] = str(capacity.value)
    return values
