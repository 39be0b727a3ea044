"""A pod is deleted by force while the driver on its node does not run: its memory stays connected.

Both drivers, the scheduler and the kubelet work as in a whole cluster; the fabric and the node's memory are
simulated.
"""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from dradriver.cluster import EmbeddedCluster
from dradriver.conditions.releases.waits import ReleaseWaits
from dradriver.kube import CLAIMS, CLASSES, EVENTS, NODES, PODS, Client, PatchKind
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import ResourceClaim
from dradriver.node import PluginConfig
from dradriver.runner.binding import BindingProcess
from dradriver.runner.binding_node import BindingPlugin
from dradriver.testing import builders
from dradriver_fabric_cxl import FabricCxlDriver, FabricPoolsDriver
from dradriver_fabric_cxl.memory.simulator import MemoryFileStore, SimulatedMemory
from dradriver_fabric_cxl.names import DRIVER
from dradriver_fabric_cxl.pools.simulated import SimulatedFabricOfNodes
from dradriver_fabric_cxl.simulation import memory_file
from tests.drivers.fabric_cxl.fabric_suite import PACE

NODE: Final = "node-1"
CLASS: Final = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceClass",
    "metadata": {"name": DRIVER},
    "spec": {"selectors": [{"cel": {"expression": f"device.attributes['{DRIVER}'].type == 'memory'"}}]},
}


@dataclass
class World:
    """A cluster with one node, and the driver of the pools.

    Attributes:
        cluster: the cluster.
        folder: folder of the simulation.
        fabric: the fabric.
        memory: the memory of the node.
    """

    cluster: EmbeddedCluster
    folder: Path
    fabric: SimulatedFabricOfNodes
    memory: SimulatedMemory

    @property
    def client(self) -> Client:
        return self.cluster.client()

    @asynccontextmanager
    async def plugin(self) -> AsyncIterator[None]:
        """Run the driver of the node."""
        folder = self.cluster.node_dir(NODE)
        config = PluginConfig(
            NODE,
            plugins_dir=folder / "plugins",
            registry_dir=folder / "plugins_registry",
            cdi_dir=folder / "cdi",
        )
        driver = FabricCxlDriver(f"simulator: {{folder: {self.folder}}}")
        driver.simulate = "always"
        async with await Client.connect(str(self.cluster.node_kubeconfig(NODE))) as client:
            plugin = BindingPlugin(driver, client, config)
            await plugin.start()
            try:
                yield
            finally:
                await plugin.stop(1)

    async def run_pod(self) -> None:
        """Create a pod with memory, and wait until it runs."""
        claim = builders.claim(builders.device_request(DRIVER), name="claim-1")
        await self.client.create(CLAIMS, claim, "default", into=bytes)
        await self.client.create(PODS, builders.pod("claim-1"), "default", into=bytes)

        async def runs() -> bool:
            return (await self.client.get(PODS, "pod-1", "default", into=Pod)).status.phase == "Running"

        await until(runs)

    async def is_refused(self) -> bool:
        """Return whether the driver of the pools has reported that it must not detach."""
        events = await self.client.list(EVENTS, "default", into=dict)
        return any(each["reason"] == "NotReleased" for each in events.items)

    async def is_free(self) -> bool:
        """Return whether nothing is attached for the claim."""
        claim = await self.client.get(CLAIMS, "claim-1", "default", into=ResourceClaim)
        return not claim.metadata.finalizers

    async def is_connected(self) -> bool:
        """Return whether the fabric has one attachment, and the node can use it."""
        devices = await asyncio.to_thread(self.memory.devices)
        attached = await self.fabric.attachments()
        return [each.connected for each in attached] == [True] and [bool(each.usable) for each in devices] == [
            True
        ]


@pytest.fixture
async def world(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    monkeypatch.setattr(ReleaseWaits, "pause_seconds", (0.02, 0.02))
    monkeypatch.setattr(ReleaseWaits, "report_seconds", 0.0)
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dra-")))
        simulation = folder / "simulation"
        fabric = SimulatedFabricOfNodes(simulation, pace=PACE)
        memory = SimulatedMemory(MemoryFileStore(memory_file(simulation, "host-0")))
        cluster = EmbeddedCluster(folder / "cluster", nodes=[NODE], runtime="process")
        await stack.enter_async_context(cluster)
        await cluster.client().create(CLASSES, CLASS, into=bytes)
        pools = FabricPoolsDriver("sizes: [1Gi]", fabric)
        client = await stack.enter_async_context(await Client.connect(str(cluster.kubeconfig_path)))
        running = asyncio.create_task(BindingProcess(pools, client).run(stop := asyncio.Event()))
        yield World(cluster, simulation, fabric, memory)
        stop.set()
        await running


async def until(done: Callable[[], Awaitable[bool]]) -> None:
    """Wait until something is so, or until the test's time limit."""
    while not await done():
        await asyncio.sleep(0.02)


async def let_the_pod_go(world: World) -> None:
    """Stop the driver of the node, delete the pod by force, and wait until its memory is not detached."""
    async with world.plugin():
        await world.run_pod()
    await world.client.delete(PODS, "pod-1", "default", grace_seconds=0)
    await until(world.is_refused)
    assert await world.is_connected()
    assert not await world.is_free()


async def test_memory_is_detached_when_the_driver_of_the_node_is_back(world: World) -> None:
    await let_the_pod_go(world)
    async with world.plugin():
        await until(world.is_free)
    assert await world.fabric.attachments() == ()
    assert world.memory.devices() == ()
    assert world.memory.phantom_bytes == 0


async def test_memory_of_a_node_that_is_out_of_service_is_detached(world: World) -> None:
    await let_the_pod_go(world)
    taint = {"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}
    await world.client.patch(NODES, NODE, "", {"spec": {"taints": [taint]}}, PatchKind.MERGE, into=bytes)
    await until(world.is_free)
    assert await world.fabric.attachments() == ()


async def test_memory_of_a_deleted_node_is_detached(world: World) -> None:
    await let_the_pod_go(world)
    await world.client.delete(NODES, NODE)
    await until(world.is_free)
    assert await world.fabric.attachments() == ()
