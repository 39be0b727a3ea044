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
from dradriver.model.resource.taint_rule import DeviceTaintRule, apply_rules

__all__ = ["device_rows", "devices"]

COLUMNS = ("name", "driver", "pool", "node", "allocated to", "taints")
WIDE = (*COLUMNS, "attributes")


@click.command(short_help="Show devices: node, claims, taints.")
@click.option("--driver", help="Show only devices of this driver.  [default: all]")
@click.option("--pool", help="Show only devices of this pool.  [default: all]")
@cluster_options
@wide_output_option
def devices(driver: str | None, pool: str | None, access: Access, output: str) -> None:
    """Show devices: node, claims, taints; with -o wide also attributes and capacities.

    The taints are those of the drivers and of DeviceTaintRules.
    """

    async def read(client: Client) -> tuple[list[ResourceSlice], list[ResourceClaim]]:
        published = await list_typed(client, SLICES, ResourceSlice)
        rules = await list_if_allowed(client, TAINT_RULES, DeviceTaintRule)
        claims = await list_typed(client, CLAIMS, ResourceClaim)
        return [apply_rules(each, rules) for each in published], claims

    slices, claims = with_client(access, read)
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
    """Yield one row for each device that some node uses. Nodes may use different generations of a pool.

    Args:
        slices: all ResourceSlices.
        claims: all claims. Devices of allocated claims are shown as allocated.
    """
    in_use = InUse.of(claims)
    for key, pool in Inventory.of(slices).published.items():
        driver, name = key
        held = in_use.claims_by_device(key)
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
    """Return attributes and capacities. Names in the driver's own domain are shown without the domain."""
    values: dict[str, object] = {}
    for name, attribute in device.attributes.items():
        value = attribute.value
        values[name.removeprefix(f"{driver}/")] = list(value) if isinstance(value, tuple) else value
    for name, capacity in device.capacity.items():
        values[name.removeprefix(f"{driver}/")] = str(capacity.value)
    return values
