"""The examples of classic DRA (KEP-3063) in a cluster: from the negotiation to the container."""

import asyncio
import json
import shutil
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
import yaml

import dradriver as dra
from dradriver.cluster import EmbeddedCluster
from dradriver.kube import CLAIMS, CLASSES, CRDS, NAMESPACES, PODS, TEMPLATES, Client, NotFound
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import ResourceClaim
from dradriver.runner.controllers import ControllerProcess
from examples.classic.combined.controller import CardFunctions, PipelineController
from examples.classic.combined.node import FpgaDriver, NicDriver
from examples.classic.node_resources.controller import ScratchController
from examples.classic.node_resources.node import ScratchDriver
from examples.classic.node_resources.objects import connect_scratch
from examples.classic.optional.controller import CardController
from examples.classic.optional.node import CardDriver
from tests.cluster.helpers import eventually, plugin_on

EXAMPLES: Final = Path(__file__).parents[2] / "examples/classic"
NODES: Final = ("node-1", "node-2")
KINDS: Final = {
    "DeviceClass": CLASSES,
    "ResourceClaimTemplate": TEMPLATES,
    "CustomResourceDefinition": CRDS,
    "Namespace": NAMESPACES,
}
GIBIBYTE: Final = 1 << 30


class ExampleCluster:
    """Two nodes with the drivers of an example, and its controller.

    Attributes:
        cluster: the cluster.
        client: its administrator.
    """

    def __init__(self, cluster: EmbeddedCluster, example: str, stack: AsyncExitStack) -> None:
        self.cluster = cluster
        self.client = cluster.client()
        self._stack = stack
        self._manifests = EXAMPLES / example / "manifests"

    async def apply(self, *names: str) -> None:
        """Create the objects of manifests that the embedded cluster knows."""
        for name in names:
            for body in yaml.safe_load_all((self._manifests / name).read_text()):
                if body["kind"] in KINDS:
                    namespace = body["metadata"].get("namespace", "")
                    await self.client.create(KINDS[body["kind"]], body, namespace, into=dict)

    async def run_controller(self, driver: dra.ControllerDriver) -> None:
        client = await self._stack.enter_async_context(await Client.connect(str(self.cluster.kubeconfig_path)))
        stop = asyncio.Event()
        running = asyncio.create_task(ControllerProcess(driver, client).run(stop, 1))

        async def end() -> None:
            stop.set()
            await running

        self._stack.push_async_callback(end)

    async def run_plugin(self, node: str, driver: dra.Driver) -> None:
        plugin = await self._stack.enter_async_context(plugin_on(self.cluster, node, driver))
        await plugin.parts.registration.wait(10)

    async def create_pod(self, name: str) -> None:
        """Create the pod of the example, with another name."""
        bodies = yaml.safe_load_all((self._manifests / "pod.yaml").read_text())
        body = next(each for each in bodies if each["kind"] == "Pod")
        body["metadata"]["name"] = name
        await self.client.create(PODS, body, "default", into=dict)

    async def node_of(self, name: str) -> str:
        """Wait until the pod runs, and return its node."""

        async def runs() -> bool:
            return (await self.client.get(PODS, name, "default", into=Pod)).status.phase == "Running"

        await eventually(runs)
        return (await self.client.get(PODS, name, "default", into=Pod)).spec.node_name

    async def claim_of(self, pod: str) -> ResourceClaim:
        claims = (await self.client.list(CLAIMS, into=ResourceClaim)).items
        return next(each for each in claims if (owner := each.metadata.controller) and owner.name == pod)

    async def delete(self, pod: str) -> None:
        """Delete the pod, and wait until its claim is gone."""
        claim = await self.claim_of(pod)
        await self.client.delete(PODS, pod, "default")

        async def is_gone() -> bool:
            try:
                await self.client.get(CLAIMS, claim.metadata.name, "default", into=dict)
            except NotFound:
                return True
            return False

        await eventually(is_gone)

    def edits(self, node: str) -> list[dict[str, Any]]:
        """Return the container edits of all devices on a node."""
        specs = [json.loads(path.read_text()) for path in (self.cluster.node_dir(node) / "cdi").glob("*.json")]
        return [device["containerEdits"] for spec in specs for device in spec["devices"]]

    def env(self, node: str) -> set[str]:
        return {each for edits in self.edits(node) for each in edits.get("env", ())}


@asynccontextmanager
async def example(name: str) -> AsyncIterator[ExampleCluster]:
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dra-")))
        cluster = EmbeddedCluster(folder, nodes=NODES, runtime="process")
        await stack.enter_async_context(cluster)
        made = ExampleCluster(cluster, name, stack)
        await made.apply("class.yaml", "pod.yaml")
        yield made


async def test_a_pod_without_an_optional_card_runs_too(tmp_path: Path) -> None:
    async with example("optional") as lab:
        await lab.run_controller(CardController({"node-2": ["zero"]}, tmp_path / "cards.json"))
        for node in NODES:
            await lab.run_plugin(node, CardDriver())
        await lab.create_pod("first")
        assert await lab.node_of("first") == "node-2"
        assert lab.env("node-2") == {"CARD_ZERO=/dev/zero"}
        await lab.create_pod("second")
        await lab.node_of("second")
        claim = await lab.claim_of("second")
        assert claim.allocation is not None
        assert claim.results == []
        assert [lab.env(node) for node in NODES] == [set(), {"CARD_ZERO=/dev/zero"}]
        await lab.delete("first")
        await lab.delete("second")
        assert json.loads((tmp_path / "cards.json").read_text()) == {}


async def test_two_kubelet_plugins_prepare_one_claim_with_a_handle_each(tmp_path: Path) -> None:
    cards = {"node-2": {"card-0": CardFunctions(blocks=1, ports=("eth1",))}}
    async with example("combined") as lab:
        await lab.run_controller(PipelineController(cards, tmp_path / "pipelines.json"))
        for node in NODES:
            await lab.run_plugin(node, FpgaDriver())
            await lab.run_plugin(node, NicDriver())
        await lab.create_pod("first")
        assert await lab.node_of("first") == "node-2"
        assert lab.env("node-2") == {"FPGA_BLOCK=block-0", "FPGA_IMAGE=router", "NIC_PORT=eth1", "NIC_VLAN=7"}
        await lab.create_pod("second")
        await lab.delete("first")
        assert await lab.node_of("second") == "node-2"
        await lab.delete("second")
        assert json.loads((tmp_path / "pipelines.json").read_text()) == {}


class DiskUsage(NamedTuple):
    total: int
    used: int
    free: int


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> Mapping[str, int]:
    """Gibibytes that the disk of each node has left, of 10."""
    found = dict.fromkeys(NODES, 10)

    def usage(path: Path) -> DiskUsage:
        left = found[path.name]
        return DiskUsage(10 * GIBIBYTE, (10 - left) * GIBIBYTE, left * GIBIBYTE)

    monkeypatch.setattr(shutil, "disk_usage", usage)
    return found


@asynccontextmanager
async def scratch_cluster(folder: Path) -> AsyncIterator[ExampleCluster]:
    async with example("node_resources") as lab:
        await lab.apply("definition.yaml")
        admin = partial(connect_scratch, str(lab.cluster.kubeconfig_path))
        await lab.run_controller(ScratchController(admin))
        for node in NODES:
            own = partial(connect_scratch, str(lab.cluster.node_kubeconfig(node)))
            await lab.run_plugin(node, ScratchDriver(folder / node, own))
        yield lab


async def test_a_claim_is_tried_elsewhere_when_its_node_refuses(tmp_path: Path, free: dict[str, int]) -> None:
    free["node-1"] = 1
    async with scratch_cluster(tmp_path) as lab:
        for number in range(3):
            await lab.create_pod(f"pod-{number}")
        for number in range(3):
            assert await lab.node_of(f"pod-{number}") == "node-2"
        claims = [(await lab.claim_of(f"pod-{number}")).metadata.uid for number in range(3)]
        mounts = {mount["hostPath"] for edits in lab.edits("node-2") for mount in edits["mounts"]}
        assert mounts == {str(tmp_path / "node-2" / uid) for uid in claims}
        assert not [path for path in (tmp_path / "node-1").iterdir() if path.is_dir()]
        for number in range(3):
            await lab.delete(f"pod-{number}")
        assert not list((tmp_path / "node-2").iterdir())


async def test_the_object_of_a_node_shows_its_claims_and_is_owned_by_the_node(
    tmp_path: Path, free: dict[str, int]
) -> None:
    async with scratch_cluster(tmp_path) as lab:
        await lab.create_pod("pod-0")
        node = await lab.node_of("pod-0")
        async with connect_scratch(str(lab.cluster.kubeconfig_path)) as objects:
            found = await objects.list()
            assert set(found) == set(NODES)
            claim = await lab.claim_of("pod-0")
            assert set(found[node].assigned) == set(found[node].answers) == {claim.metadata.uid}
            assert (found[node].status.gibibytes, found[node].free) == (10, 8)
            await lab.delete("pod-0")
            assert (await objects.list())[node].answers == {}
