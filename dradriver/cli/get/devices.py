"""`dradriver get devices`."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from types import MappingProxyType

import click

from dradriver.allocator import InUse, Inventory
from dradriver.cli.cluster_access import Access, cluster_options
from dradriver.cli.completion.candidates import completer
from dradriver.cli.get.pools import nodes_of
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
from dradriver.kube import CLAIMS, PODS, SLICES, TAINT_RULES
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import DeviceId, ResourceClaim
from dradriver.model.resource.device import Device
from dradriver.model.resource.slices import ResourceSlice
from dradriver.model.resource.taint_rule import DeviceTaintRule, apply_rules
from dradriver.overview import Health, assign_health, read_health

__all__ = ["device_health", "device_rows", "devices"]

COLUMNS = ("name", "driver", "pool", "node", "allocated to", "health", "taints")
WIDE = (*COLUMNS, "attributes")
_WORST_FIRST: tuple[Health, ...] = ("unhealthy", "unknown", "healthy")


@click.command(short_help="Show devices: node, claims, health, taints.")
@listing_options("devices")
@click.option(
    "--driver", shell_complete=completer("drivers"), help="Show only devices of this driver.  [default: all]"
)
@click.option(
    "--pool", shell_complete=completer("pools"), help="Show only devices of this pool.  [default: all]"
)
@unused_namespace_options
@unused_selector_options("select devices with --driver, --pool or their names, or slices with get slices -l")
@cluster_options
def devices(query: Query, driver: str | None, pool: str | None, access: Access) -> None:
    """Show devices: node, claims, health, taints; with -o wide also attributes and capacities.

    NAME is the name of a device, POOL/DEVICE or DRIVER/POOL/DEVICE. The taints are those of the drivers and of
    DeviceTaintRules. The health is what kubelets report about devices of running pods.
    """

    def rows(objects: ListedObjects, now: datetime) -> Iterator[ListRow]:  # noqa: ARG001 - devices have no age
        rules = objects.get(TAINT_RULES, DeviceTaintRule)
        slices = [apply_rules(each, rules) for each in objects.get(SLICES, ResourceSlice)]
        claims = objects.get(CLAIMS, ResourceClaim)
        for fields in device_rows(slices, claims, device_health(claims, objects.get(PODS, Pod))):
            path = (str(fields["driver"]), str(fields["pool"]), str(fields["name"]))
            names = ("/".join(path), "/".join(path[1:]), path[2])
            if driver in {None, path[0]} and pool in {None, path[1]}:
                yield document_row(names[0], names, WIDE, fields)

    show_list(
        Kind(
            *("device", "devices", COLUMNS, WIDE),
            sources=(
                ListSource(SLICES, ResourceSlice),
                ListSource(CLAIMS, ResourceClaim),
                ListSource(TAINT_RULES, DeviceTaintRule, is_optional=True, warns=True),
                ListSource(PODS, Pod, is_optional=True, warns=True),
            ),
            rows=rows,
            empty="No devices.",
            is_api=False,
            document_kind="DeviceList",
        ),
        query,
        access,
    )


def device_health(claims: Iterable[ResourceClaim], pods: Iterable[Pod]) -> Mapping[DeviceId, Health]:
    """Return the health of devices that kubelets report (KEP-4680). If reports differ, the worst one counts.

    Args:
        claims: the claims that hold devices.
        pods: the pods of the claims.
    """
    by_ref = {claim.ref: claim for claim in claims}
    found: dict[DeviceId, Health] = {}
    for pod in pods:
        for ref, reports in read_health(pod).items():
            if ref not in by_ref:
                continue
            for device, health in assign_health(by_ref[ref], reports).items():
                found[device] = min(health, found.get(device, health), key=_WORST_FIRST.index)
    return found


def device_rows(
    slices: Iterable[ResourceSlice],
    claims: Iterable[ResourceClaim],
    health: Mapping[DeviceId, Health] = MappingProxyType({}),
) -> Iterator[Mapping[str, object]]:
    """Yield one row for each device that some node uses. Nodes may use different generations of a pool.

    Args:
        slices: all ResourceSlices.
        claims: all claims. Devices of allocated claims are shown as allocated.
        health: the reported health of devices.
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
                "health": health.get(DeviceId(driver, name, device.name), ""),
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
