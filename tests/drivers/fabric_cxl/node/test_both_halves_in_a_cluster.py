"""The pool driver and the node's driver in their processes, on a simulated fabric and one simulated node."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from dradriver.kube import CLAIMS, CLASSES, NODES, PODS, PatchKind
from dradriver.model.core.conditions import is_true
from dradriver.model.resource.claim import ResourceClaim
from dradriver.runner.binding_node import BindingPlugin
from dradriver.testing import builders
from dradriver_fabric_cxl import FabricCxlDriver, FabricPoolsDriver
from dradriver_fabric_cxl.memory import MemoryMode
from dradriver_fabric_cxl.memory.simulator import MemoryCall, MemoryFileStore, SimulatedMemory
from dradriver_fabric_cxl.names import ATTACHED, DRIVER, NOT_READY, READY
from dradriver_fabric_cxl.pools.simulated import SimulatedFabricOfNodes
from dradriver_fabric_cxl.simulation import memory_file
from tests.drivers.fabric_cxl.fabric_suite import PACE
from tests.unit.conditions.fabric import Hardware, Lab, laboratory
from tests.unit.conditions.node_driver import NODE, beside_a_kubelet
from tests.unit.node.plugin_world import prepare, unprepare

CLASS = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceClass",
    "metadata": {"name": DRIVER},
    "spec": {"selectors": [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}]},
}


@dataclass
class Halves:
    """Both drivers, and what they share.

    Attributes:
        lab: the cluster.
        plugin: the node's driver in its process.
        fabric: the fabric.
        memory: the memory of the node.
    """

    lab: Lab
    plugin: BindingPlugin
    fabric: SimulatedFabricOfNodes
    memory: SimulatedMemory


@asynccontextmanager
async def both(folder: Path) -> AsyncIterator[Halves]:
    simulation = folder / "simulation"
    (folder / "registry").mkdir()
    fabric = SimulatedFabricOfNodes(simulation, pace=PACE)
    pools = FabricPoolsDriver("sizes: [1Gi]", fabric)
    node = FabricCxlDriver(f"simulator: {{folder: {simulation}}}")
    node.simulate = "always"
    async with laboratory(folder) as lab, lab.scheduler(), AsyncExitStack() as stack:
        stack.push_async_callback(pools.shutdown)
        await lab.client.create(CLASSES, CLASS, into=dict)
        await lab.client.delete(NODES, "node-2")
        label = {"metadata": {"labels": {"kubernetes.io/hostname": NODE}}}
        await lab.client.patch(NODES, NODE, "", label, PatchKind.MERGE, into=dict)
        body = {"status": {"nodeInfo": {"bootID": "boot-1"}}}
        await lab.client.patch(NODES, NODE, "", body, PatchKind.MERGE, into=dict, subresource="status")
        async with beside_a_kubelet(lab, Hardware(), folder, driver=node) as plugin, lab.driver(pools):
            memory = SimulatedMemory(MemoryFileStore(memory_file(simulation, "host-0")))
            yield Halves(lab, plugin, fabric, memory)


async def pod(lab: Lab, *kinds: str) -> None:
    """A pod whose claim has a request for each kind of device."""
    requests = [
        builders.device_request(DRIVER, f"device.attributes['{DRIVER}'].type == '{kind}'", name=kind)
        for kind in kinds
    ]
    await lab.client.create(CLAIMS, builders.claim(*requests, name="pod-1"), "default", into=dict)
    await lab.client.create(PODS, builders.pod("pod-1", name="pod-1"), "default", into=dict)


async def bound(lab: Lab) -> ResourceClaim:
    """Wait until the pod has a node, and return its claim as the API server has it."""
    ref = "default/pod-1"
    await lab.until(lambda pods, claims: ref in claims and ref in pods and bool(pods[ref].spec.node_name))
    return await lab.client.get(CLAIMS, "pod-1", "default", into=ResourceClaim)


def conditions(claim: ResourceClaim) -> set[str]:
    entries = claim.status.devices
    return {each.type for entry in entries for each in entry.conditions if is_true(entry.conditions, each.type)}


async def test_a_pod_is_bound_when_its_devices_are_usable_and_leaves_nothing(tmp_path: Path) -> None:
    async with both(tmp_path) as halves:
        lab, memory = halves.lab, halves.memory
        await pod(lab, "memory", "accelerator")
        claim = await bound(lab)
        assert {ATTACHED, READY} <= conditions(claim)
        (device,) = memory.devices()
        assert device.usable
        assert device.usable.mode is MemoryMode.DEVDAX
        assert memory.is_clear(device.serial)
        assert not (await prepare(halves.plugin, claim))[claim.metadata.uid].error
        (spec,) = (json.loads(path.read_text()) for path in (tmp_path / "cdi").glob("*.json"))
        nodes = {
            node["path"] for each in spec["devices"] for node in each["containerEdits"].get("deviceNodes", ())
        }
        name = next(each.device for each in claim.results if each.request == "memory")
        assert nodes == {f"/dev/cxl/{name}", "/dev/dri/renderD128"}
        await lab.delete_pod()
        await lab.client.delete(CLAIMS, "pod-1", "default")
        assert not (await unprepare(halves.plugin, claim))[claim.metadata.uid].error
        await lab.until(lambda _, claims: "default/pod-1" not in claims)
        assert await halves.fabric.attachments() == ()
        assert memory.devices() == ()
        assert memory.phantom_bytes == 0


async def test_memory_that_the_node_cannot_use_is_tainted_and_detached(tmp_path: Path) -> None:
    async with both(tmp_path) as halves:
        halves.memory.fail(MemoryCall.COMMIT)
        await pod(halves.lab, "memory")
        await halves.lab.until(lambda *_: bool(halves.lab.tainted()))
        claim = await bound(halves.lab)
        chosen = {each.device for each in claim.results}
        assert not chosen & halves.lab.tainted()
        assert NOT_READY not in conditions(claim)
        while {each.identity.device for each in await halves.fabric.attachments()} != chosen:
            await asyncio.sleep(0.01)
