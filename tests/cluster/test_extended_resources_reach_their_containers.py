"""KEP-5004 in a whole cluster: from a pod's limit to the devices in each container."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

import pytest
from msgspec.structs import replace

import dradriver as dra
from dradriver.cluster import EmbeddedCluster
from dradriver.kube import CLAIMS, CLASSES, NODES, PODS, Client, PatchKind
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import ResourceClaim
from dradriver.node import Plugin, PluginConfig
from dradriver.testing import builders

EXPLICIT: Final = "example.com/gpu"
IMPLICIT: Final = f"deviceclass.resource.kubernetes.io/{builders.CLASS}"


class Gpus(dra.Driver):
    name = builders.DRIVER
    rescan_seconds = None

    def __init__(self) -> None:
        self.prepared: list[str] = []

    def discover(self) -> Sequence[dra.Device]:
        return [dra.Device(f"gpu-{number}") for number in range(4)]

    def prepare(self, claim: dra.Claim) -> Mapping[dra.AllocatedDevice, dra.ContainerEdits]:
        self.prepared.append(claim.uid)
        return {each: dra.ContainerEdits(env={f"GPU_{each.name[-1]}": "yes"}) for each in claim.devices}

    def unprepare(self, claim: dra.Claim) -> None:
        self.prepared.remove(claim.uid)


@pytest.fixture
def driver() -> Gpus:
    return Gpus()


@pytest.fixture
async def client(driver: Gpus) -> AsyncIterator[Client]:
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="dra"))
        cluster = EmbeddedCluster(Path(folder) / "c", runtime="process")
        await stack.enter_async_context(cluster)
        session = await stack.enter_async_context(await Client.connect(str(cluster.node_kubeconfig("node-1"))))
        directory = cluster.node_dir("node-1")
        config = PluginConfig(
            "node-1",
            plugins_dir=directory / "plugins",
            registry_dir=directory / "plugins_registry",
            cdi_dir=directory / "cdi",
        )
        plugin = Plugin(driver, session, config)
        await plugin.start()
        stack.push_async_callback(plugin.stop)
        yield cluster.client()


async def with_class(client: Client, resource: str) -> None:
    made = builders.device_class()
    if resource == EXPLICIT:
        made = replace(made, spec=replace(made.spec, extended_resource_name=EXPLICIT))
    await client.create(CLASSES, made, into=dict)


def container(name: str, resource: str, amount: int, sees: int) -> dict[str, Any]:
    """Return a container that succeeds if it sees this number of devices."""
    command = ["sh", "-c", f'test "$(env | grep -c ^GPU_)" = {sees}']
    limits = {resource: str(amount)} if amount else {}
    return {"name": name, "image": "busybox", "command": command, "resources": {"limits": limits}}


async def phase(client: Client, name: str, wanted: str) -> Pod:
    async with asyncio.timeout(60):
        while (pod := await client.get(PODS, name, "default", into=Pod)).status.phase != wanted:
            assert pod.status.phase not in {"Succeeded", "Failed"}, pod.status
            await asyncio.sleep(0.05)
    return pod


@pytest.mark.parametrize("resource", [EXPLICIT, IMPLICIT], ids=["explicit", "implicit"])
async def test_each_container_sees_its_own_devices_and_nothing_remains(
    client: Client, driver: Gpus, resource: str
) -> None:
    await with_class(client, resource)
    spec = {
        "restartPolicy": "Never",
        "initContainers": [container("setup", resource, 4, sees=4), container("small", resource, 1, sees=2)],
        "containers": [container("main", resource, 2, sees=2), container("none", resource, 0, sees=0)],
    }
    await client.create(PODS, {"metadata": {"name": "pod"}, "spec": spec}, "default", into=dict)
    pod = await phase(client, "pod", "Succeeded")
    assert pod.status.extended_resource_claim_status is not None
    async with asyncio.timeout(30):
        while driver.prepared or (await client.list(CLAIMS, into=ResourceClaim)).items:
            await asyncio.sleep(0.05)


async def test_a_pod_on_a_node_with_a_device_plugin_has_no_claim(client: Client, driver: Gpus) -> None:
    """The device plugin itself is not part of the kubelet stand-in: its containers see no devices."""
    await with_class(client, EXPLICIT)
    body = {"status": {"allocatable": {EXPLICIT: "1"}, "capacity": {EXPLICIT: "1"}}}
    await client.patch(NODES, "node-1", "", body, PatchKind.MERGE, into=dict, subresource="status")
    spec = {"restartPolicy": "Never", "containers": [container("main", EXPLICIT, 1, sees=0)]}
    await client.create(PODS, {"metadata": {"name": "pod"}, "spec": spec}, "default", into=dict)
    pod = await phase(client, "pod", "Succeeded")
    assert pod.status.extended_resource_claim_status is None
    assert not driver.prepared
