"""Claims that the controller of a fabric allocates, and its driver in one process after the other."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

import dradriver as dra
from dradriver_fabric_cxl import FabricPoolsDriver
from dradriver_fabric_cxl.attached import AttachedDevice, decode_handle
from dradriver_fabric_cxl.configs import FabricClass, MemoryAmount
from dradriver_fabric_cxl.fabric import Fabric
from dradriver_fabric_cxl.names import DRIVER
from tests.drivers.fabric_cxl.pool_claims import PoolsContext, report_all

CONTROLLER: Final = "handedOutBy: controller"
SLICES: Final = "{handedOutBy: slices, sizes: [1Gi]}"
POOL: Final = f"{DRIVER}/simulated"
POD: Final = dra.PendingPod("pod-uid", "team", "pod")
NODES: Final = [f"node-host-{number}" for number in range(4)]
MEMORY_CLASS: Final = FabricClass()
ACCELERATOR_CLASS: Final = FabricClass(type="accelerator")


def memory(size: str, name: str = "memory", count: int = 1) -> dra.PendingRequest:
    return dra.PendingRequest(name, "cxl-memory", count, MEMORY_CLASS, MemoryAmount(size=size))


def accelerator(name: str = "gpu") -> dra.PendingRequest:
    return dra.PendingRequest(name, "cxl-accelerator", 1, ACCELERATOR_CLASS)


def pending(uid: str, *requests: dra.PendingRequest) -> dra.PendingClaim:
    return dra.PendingClaim(uid, "team", f"claim-{uid}", "device", requests)


def recorded(uid: str, node: str = "") -> dra.RecordedClaim:
    return dra.RecordedClaim(uid, "team", f"claim-{uid}", node)


@asynccontextmanager
async def driver_of(
    fabric: Fabric, settings: str = CONTROLLER, context: PoolsContext | None = None
) -> AsyncIterator[FabricPoolsDriver]:
    """A process of the driver. All nodes have reported, unless the context says otherwise."""
    driver = FabricPoolsDriver(settings, fabric)
    driver.set_context(context or PoolsContext(report_all(await fabric.inventory())))
    try:
        yield driver
    finally:
        await driver.shutdown()


async def allocate(
    driver: FabricPoolsDriver, *claims: dra.PendingClaim, node: str | None = NODES[0]
) -> list[dra.ControllerAllocationResult]:
    """Allocate claims; all of them must get what they want."""
    results = await driver.allocate(claims, node)
    allocated = [results[each.uid] for each in claims]
    assert all(isinstance(each, dra.ControllerAllocationResult) for each in allocated), allocated
    return [each for each in allocated if isinstance(each, dra.ControllerAllocationResult)]


async def unsuitable(
    driver: FabricPoolsDriver, *claims: dra.PendingClaim, nodes: Sequence[str] = tuple(NODES)
) -> list[str]:
    """Return the nodes that are unsuitable for the claims, which must be the same for each claim."""
    found = await driver.unsuitable_nodes(POD, claims, nodes)
    assert set(found) == {each.uid for each in claims}
    (names,) = {tuple(each) for each in found.values()}
    return list(names)


def attached(result: dra.ControllerAllocationResult) -> list[AttachedDevice]:
    """What the node's driver reads from the handle, for each device."""
    return [decode_handle(result.handles[DRIVER], each.name) for each in result.devices]
