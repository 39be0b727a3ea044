"""KEP-5007 in a whole cluster: fabric driver, scheduler, kubelet, the node's half of the driver, container."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

import dradriver as dra
from dradriver.cluster import EmbeddedCluster
from dradriver.kube import CLAIMS, CLASSES, PODS, Client
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import ResourceClaim
from dradriver.runner.binding import BindingProcess
from dradriver.testing import builders
from tests.cluster.helpers import plugin_on

NAME = builders.DRIVER


class Fabric:
    """The attached devices by node: the hardware that both halves of the driver use."""

    def __init__(self) -> None:
        self.attached: dict[str, str] = {}
        self.prepared: list[str] = []


class FabricDriver(dra.BindingDriver):
    name = NAME
    rescan_seconds = None

    def __init__(self, fabric: Fabric) -> None:
        self.fabric = fabric

    def discover(self) -> Sequence[dra.Pool]:
        gpu = dra.Device(
            "gpu-0",
            binds_to_node=True,
            binding_conditions=[f"{NAME}/attached"],
            binding_failure_conditions=[f"{NAME}/attach-failed"],
        )
        return [dra.Pool("fabric", devices=(gpu,), all_nodes=True)]

    async def attach(self, claim: dra.BindingClaim, device: dra.AllocatedDevice) -> None:
        self.fabric.attached[device.name] = claim.node

    async def detach(self, attachment: dra.Attachment) -> None:
        assert not self.fabric.prepared, "the node uses it still"
        self.fabric.attached.pop(attachment.device, None)


class NodeDriver(dra.Driver):
    name = NAME
    rescan_seconds = None

    def __init__(self, fabric: Fabric) -> None:
        self.fabric = fabric

    def discover(self) -> Sequence[dra.Device]:
        return []

    def prepare(self, claim: dra.Claim) -> Mapping[dra.AllocatedDevice, dra.PreparedDevice]:
        for device in claim.devices:
            assert self.fabric.attached[device.name] == self.node_name
        self.fabric.prepared.append(claim.uid)
        return {device: dra.PreparedDevice() for device in claim.devices}

    def unprepare(self, claim: dra.Claim) -> None:
        self.fabric.prepared.remove(claim.uid)


@pytest.fixture
async def fabric() -> Fabric:
    return Fabric()


@pytest.fixture
async def client(fabric: Fabric) -> AsyncIterator[Client]:
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="dra"))
        cluster = EmbeddedCluster(Path(folder) / "c", runtime="process")
        await stack.enter_async_context(cluster)
        driver = NodeDriver(fabric)
        await stack.enter_async_context(plugin_on(cluster, "node-1", driver))
        process = BindingProcess(FabricDriver(fabric), cluster.client())
        running = asyncio.create_task(process.run(stop := asyncio.Event()))
        await cluster.client().create(CLASSES, builders.device_class(), into=dict)
        yield cluster.client()
        stop.set()
        await running


async def test_a_device_is_attached_before_its_pod_starts_and_detached_after_it(
    client: Client, fabric: Fabric
) -> None:
    await client.create(CLAIMS, builders.claim(), "default", into=dict)
    await client.create(PODS, builders.pod("claim-1", command=["sleep", "1000"]), "default", into=dict)
    async with asyncio.timeout(30):
        while (await client.get(PODS, "pod-1", "default", into=Pod)).status.phase != "Running":
            await asyncio.sleep(0.05)
    assert fabric.attached == {"gpu-0": "node-1"}
    assert fabric.prepared
    await client.delete(PODS, "pod-1", "default", grace_seconds=0)
    async with asyncio.timeout(30):
        while (await client.get(CLAIMS, "claim-1", "default", into=ResourceClaim)).metadata.finalizers:
            await asyncio.sleep(0.05)
    assert not fabric.attached
