"""Claims and reports of nodes, as the SDK gives them to the driver of the pools."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

import dradriver as dra
from dradriver_fabric_cxl import FabricPoolsDriver
from dradriver_fabric_cxl.fabric import FabricInventory
from dradriver_fabric_cxl.names import SYSTEM_UUID

ALLOCATED = datetime(2026, 11, 22, 23, 0, 0, tzinfo=UTC)


def report_all(inventory: FabricInventory) -> dict[str, dra.NodeReport]:
    """A report of the node `node-HOST` for each host."""
    return {f"node-{each.id}": dra.NodeReport(values={SYSTEM_UUID: each.system}) for each in inventory.hosts}


@dataclass
class RecordedConditions:
    """What the driver stores in a claim."""

    data: dict[str, Mapping[str, object]] = field(default_factory=dict)

    async def set(
        self,
        device: dra.AllocatedDevice,
        kind: str,
        status: Literal["True", "False", "Unknown"] | bool,
        reason: str = "",
        message: str = "",
    ) -> None:
        raise AssertionError(f"{device.name}: {kind} {status} {reason} {message}")

    async def set_data(self, device: dra.AllocatedDevice, data: Mapping[str, object]) -> None:
        self.data[device.name] = data


class PoolsContext(dra.DriverContext):
    """What the SDK offers to the driver."""

    def __init__(self, reports: Mapping[str, dra.NodeReport]) -> None:
        super().__init__()
        self.reports = reports
        self.rediscovered = 0

    def rediscover(self) -> None:
        self.rediscovered += 1

    async def node_reports(self) -> Mapping[str, dra.NodeReport]:
        return self.reports


@dataclass
class Allocation:
    """One device that is allocated for one claim on one node."""

    device: dra.AllocatedDevice
    node: str
    uid: str = "uid-1"
    conditions: RecordedConditions = field(default_factory=RecordedConditions)

    @property
    def claim(self) -> dra.BindingClaim:
        return dra.BindingClaim(
            self.uid, "team", "claim", self.node, ALLOCATED, (self.device,), self.conditions
        )

    @property
    def record(self) -> dra.Attachment:
        """What the SDK records before `attach`."""
        device = self.device
        return dra.Attachment(
            self.uid, device.pool, device.name, device.share_id, self.node, "2026-11-22T23:00:00Z"
        )

    @property
    def serial(self) -> int:
        """What the node gets."""
        return int(str(self.conditions.data[self.device.name]["serial"]), 16)


async def allocate(driver: FabricPoolsDriver, name: str, node: str = "", **fields: object) -> Allocation:
    """Allocate a published device, by default on the node that it names."""
    for pool in await driver.discover():
        for device in pool.devices:
            if device.name == name:
                uid = str(fields.pop("uid", "uid-1"))
                allocated = dra.AllocatedDevice("memory", pool.name, name, device=device, **fields)  # type: ignore[arg-type]
                return Allocation(allocated, node or device.node_name or "", uid)
    raise LookupError(name)


async def attach(driver: FabricPoolsDriver, allocation: Allocation) -> None:
    await driver.attach(allocation.claim, allocation.device)
