"""KEP-5007 in a whole cluster whose API server drops binding conditions: the bound pod waits in its prepare."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import ClassVar

import pytest
from msgspec.structs import replace

import dradriver as dra
from dradriver.cluster import EmbeddedCluster
from dradriver.kube import CLAIMS, CLASSES, EVENTS, PODS, Client
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import ResourceClaim
from dradriver.runner.binding import BindingProcess
from dradriver.testing import builders
from tests.cluster.helpers import plugin_on

NAME = builders.DRIVER


class Fabric:
    """The attached devices, which both halves of the driver use.

    Attributes:
        attached: the devices.
        open: `attach` waits until this is set.
        broken: whether `attach` fails.
    """

    def __init__(self) -> None:
        self.attached: set[str] = set()
        self.open = asyncio.Event()
        self.broken = False


class FabricDriver(dra.BindingDriver):
    name = NAME
    rescan_seconds = None

    def __init__(self, fabric: Fabric) -> None:
        self.fabric = fabric
        self.gpu = dra.Device(
            "gpu-0",
            node_name="node-1",
            binding_conditions=[f"{NAME}/attached"],
            binding_failure_conditions=[f"{NAME}/attach-failed"],
        )

    def discover(self) -> Sequence[dra.Pool]:
        return [dra.Pool("fabric", devices=(self.gpu,), per_device_node_selection=True)]

    def fallback(self, dropped: Collection[str]) -> Sequence[dra.Pool]:
        assert "bindingConditions" in dropped
        plain = replace(self.gpu, binding_conditions=(), binding_failure_conditions=())
        return [dra.Pool("fabric", devices=(plain,), per_device_node_selection=True)]

    async def attach(self, claim: dra.BindingClaim, device: dra.AllocatedDevice) -> None:
        await self.fabric.open.wait()
        if self.fabric.broken:
            raise dra.AttachError("no free port", reason="NoPort")
        assert claim.node == "node-1"
        self.fabric.attached.add(device.name)

    async def detach(self, attachment: dra.Attachment) -> None:
        self.fabric.attached.discard(attachment.device)


class NodeDriver(dra.Driver):
    """A plain driver, which does not watch claims."""

    name = NAME
    rescan_seconds = None
    fabric: ClassVar[Fabric]

    def __init__(self, fabric: Fabric) -> None:
        self.hardware = fabric

    def discover(self) -> Sequence[dra.Device]:
        return []

    def prepare(self, claim: dra.Claim) -> Mapping[dra.AllocatedDevice, dra.PreparedDevice]:
        assert {device.name for device in claim.devices} <= self.hardware.attached
        return {device: dra.PreparedDevice() for device in claim.devices}


@pytest.fixture
async def fabric() -> Fabric:
    return Fabric()


@pytest.fixture
async def client(fabric: Fabric) -> AsyncIterator[Client]:
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="dra"))
        gates = {"DRADeviceBindingConditions": False}
        cluster = EmbeddedCluster(Path(folder) / "c", runtime="process", feature_gates=gates)
        await stack.enter_async_context(cluster)
        await stack.enter_async_context(plugin_on(cluster, "node-1", NodeDriver(fabric)))
        process = BindingProcess(FabricDriver(fabric), cluster.client())
        running = asyncio.create_task(process.run(stop := asyncio.Event()))
        await cluster.client().create(CLASSES, builders.device_class(), into=dict)
        await cluster.client().create(CLAIMS, builders.claim(), "default", into=dict)
        pod = builders.pod("claim-1", command=["sleep", "1000"])
        await cluster.client().create(PODS, pod, "default", into=dict)
        yield cluster.client()
        stop.set()
        await running


async def wait_for_pod(client: Client, done: Callable[[Pod], object]) -> None:
    async with asyncio.timeout(30):
        while not done(await client.get(PODS, "pod-1", "default", into=Pod)):
            await asyncio.sleep(0.02)


async def delete_pod(client: Client) -> None:
    """Delete the pod, and wait until nothing of the driver is left in the claim."""
    await client.delete(PODS, "pod-1", "default", grace_seconds=0)
    async with asyncio.timeout(30):
        while (await client.get(CLAIMS, "claim-1", "default", into=ResourceClaim)).metadata.finalizers:
            await asyncio.sleep(0.02)


async def test_the_bound_pod_runs_once_its_device_is_attached(client: Client, fabric: Fabric) -> None:
    await wait_for_pod(client, lambda pod: pod.spec.node_name)
    assert not fabric.attached
    fabric.open.set()
    await wait_for_pod(client, lambda pod: pod.status.phase == "Running")
    assert fabric.attached == {"gpu-0"}
    await delete_pod(client)
    assert not fabric.attached


async def test_the_bound_pod_shows_why_its_device_cannot_be_attached(client: Client, fabric: Fabric) -> None:
    fabric.broken = True
    fabric.open.set()
    async with asyncio.timeout(30):
        while not any("NoPort: no free port; delete the pod" in text for text in await messages(client)):
            await asyncio.sleep(0.02)
    await delete_pod(client)
    assert not fabric.attached


async def messages(client: Client) -> list[str]:
    """Return the messages of all events."""
    return [
        each.get("message") or each.get("note", "") for each in (await client.list(EVENTS, into=dict)).items
    ]
