"""A pool driver that connects memory to a node, and a node driver that makes it usable there."""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import ClassVar

from dradriver.driver import (
    AllocatedDevice,
    AttachError,
    BindingClaim,
    Claim,
    NodeBindingDriver,
    PreparedDevice,
)
from dradriver.kube import Client
from dradriver.model.core.meta import Condition
from dradriver.model.resource.claim import ResourceClaim
from dradriver.model.resource.device import Device
from dradriver.model.resource.pool import Pool
from dradriver.runner.binding_node import BindingPlugin
from tests.unit.conditions.fabric import ATTACHED, DRIVER, FAILED, READY, FabricDriver, Hardware, Lab
from tests.unit.conditions.node_driver import beside_a_kubelet

NOT_READY = f"{DRIVER}/not-ready"
NODE_FAILED = f"{DRIVER}/node-attach-failed"


def memory(name: str) -> Device:
    return Device(
        name,
        binds_to_node=True,
        binding_conditions=[ATTACHED, READY],
        binding_failure_conditions=[FAILED, NOT_READY],
    )


class MemoryPools(FabricDriver):
    """Connects memory, and stores its serial number for the node."""

    own_conditions = (ATTACHED,)
    node_failure_condition = NOT_READY

    def __init__(self, hardware: Hardware, *names: str) -> None:
        super().__init__(hardware, [memory(name) for name in names or ("memory-0", "memory-1")])

    async def attach(self, claim: BindingClaim, device: AllocatedDevice) -> None:
        await super().attach(claim, device)
        await claim.conditions.set_data(device, {"serial": f"serial of {device.name}"})


class MemoryOnNode(NodeBindingDriver):
    """Makes memory usable on its node.

    Attributes:
        bad: devices that fail.
        error: the error of these devices.
        attached: the devices and their data of each call.
        offered: whether `device.device` was known in each call.
        prepared: the data of each prepared device.
    """

    name = DRIVER
    rescan_seconds = None
    own_conditions = (READY,)
    attach_after: ClassVar[Collection[str]] = (ATTACHED,)

    def __init__(self, *bad: str) -> None:
        self.bad = set(bad)
        self.error = AttachError("no window", reason="NoWindow")
        self.attached: list[tuple[str, Mapping[str, object] | None]] = []
        self.offered: list[bool] = []
        self.prepared: list[Mapping[str, object] | None] = []

    def discover(self) -> Sequence[Pool]:
        return []

    async def attach(self, claim: BindingClaim, device: AllocatedDevice) -> None:
        self.attached.append((device.name, device.data))
        self.offered.append(device.device is not None)
        if device.name in self.bad:
            raise self.error

    def prepare(self, claim: Claim) -> Mapping[AllocatedDevice, PreparedDevice]:
        self.prepared.extend(device.data for device in claim.devices)
        return {device: PreparedDevice() for device in claim.devices}


def conditions(claim: ResourceClaim | None) -> dict[str, Condition]:
    return {c.type: c for entry in (claim.status.devices if claim else ()) for c in entry.conditions}


def true_conditions(claim: ResourceClaim | None) -> set[str]:
    return {kind for kind, each in conditions(claim).items() if each.status == "True"}


@asynccontextmanager
async def on_node(
    lab: Lab, driver: MemoryOnNode, folder: Path, client_type: type[Client] = Client
) -> AsyncIterator[BindingPlugin]:
    async with beside_a_kubelet(lab, Hardware(), folder, driver=driver, client_type=client_type) as plugin:
        yield plugin
