"""KEP-4815, multi-host: pods share a claim on a TPU slice of two nodes, from pool driver to containers."""

import asyncio
import copy
import tempfile
from collections import Counter as Tally
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest
import yaml

import dradriver as dra
from dradriver.cluster import EmbeddedCluster
from dradriver.kube import CLAIMS, CLASSES, PODS, Client
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import ResourceClaim
from dradriver.node import Plugin, PluginConfig
from dradriver.publish import OwnerRef
from dradriver.runner.pools import PoolProcess
from examples.tpu import node, pools

T = TypeVar("T")

MANIFESTS = Path(pools.__file__).parent / "manifests"
NODES = ("node-1", "node-2", "node-5", "node-6")
CLAIM = "tpu-consumer-resource-claim"


def documents(name: str) -> dict[str, Any]:
    """Return the documents of a manifest of the example, by kind."""
    return {body["kind"]: body for body in yaml.safe_load_all((MANIFESTS / name).read_text())}


WORKLOAD = documents("workload.yaml")


class Counting(node.TpuDriver):
    """Counts prepares and unprepares by node and claim."""

    def __init__(self, calls: Tally[tuple[str, str]]) -> None:
        self.calls = calls

    def prepare(self, claim: dra.Claim) -> Mapping[dra.AllocatedDevice, dra.PreparedDevice]:
        self.calls[self.node_name, f"prepare {claim.name}"] += 1
        return super().prepare(claim)

    def unprepare(self, claim: dra.Claim) -> None:
        self.calls[self.node_name, f"unprepare {claim.name}"] += 1


@dataclass
class TpuCluster:
    """Four hosts with the example's two drivers."""

    client: Client
    plugins: Mapping[str, Plugin]
    calls: Tally[tuple[str, str]]

    async def claim(self, name: str, expression: str = "") -> None:
        body = copy.deepcopy(WORKLOAD["ResourceClaim"])
        body["metadata"]["name"] = name
        if expression:
            (request,) = body["spec"]["devices"]["requests"]
            request["exactly"]["selectors"] = [{"cel": {"expression": expression}}]
        await self.client.create(CLAIMS, body, "default", into=dict)

    async def pod(self, name: str, *claims: str) -> None:
        """Create a pod of the Deployment as its controller does, or with other claims."""
        template = copy.deepcopy(WORKLOAD["Deployment"]["spec"]["template"])
        template["metadata"]["name"] = name
        spec = template["spec"]
        if claims:
            spec["resourceClaims"] = [{"name": each, "resourceClaimName": each} for each in claims]
            spec["containers"][0]["resources"]["claims"] = [{"name": each} for each in claims]
        spec["containers"][0]["command"] = ["sleep", "1000"]
        await self.client.create(PODS, template, "default", into=dict)

    async def running(self, name: str) -> str:
        """Wait until the pod's container runs, and return its node."""

        async def runs() -> Pod | None:
            pod = await self.client.get(PODS, name, "default", into=Pod)
            return pod if pod.status.phase == "Running" else None

        return (await until(runs)).spec.node_name

    async def refusal(self, name: str) -> str:
        """Wait for the message of a pending pod, and return it."""

        async def read_message() -> str:
            pod = await self.client.get(PODS, name, "default", into=Pod)
            assert not pod.spec.node_name, f"{name} is on {pod.spec.node_name}"
            return next((c.message for c in pod.status.conditions if c.reason == "Unschedulable"), "")

        return await until(read_message)

    async def hosts(self, claim: str) -> set[str]:
        """Return the nodes of the claim's allocation."""
        found = await self.client.get(CLAIMS, claim, "default", into=ResourceClaim)
        assert found.allocation is not None
        assert found.allocation.node_selector is not None
        selector = found.allocation.node_selector
        return {name for name in NODES if selector.matches(name, {"kubernetes.io/hostname": name})}

    def prepared(self) -> dict[str, list[str]]:
        """Return the prepared claims of each node."""
        return {
            name: [row.record.name for row in plugin.prepared()]
            for name, plugin in self.plugins.items()
            if plugin.prepared()
        }


async def until(found: Callable[[], Awaitable[T | None]]) -> T:
    async with asyncio.timeout(30):
        while not (result := await found()):
            await asyncio.sleep(0.02)
        return result


class TpusAndCables(pools.TpuPools):
    """Adds cables between neighbors: the second host has both."""

    def discover(self) -> list[dra.Pool]:
        cables = (
            dra.Device(
                f"cable-{name}", {"topology": name}, {"tpus": 0}, node_selector=pools.make_node_selector(ends)
            )
            for name, ends in {"left": NODES[:2], "right": NODES[1:3]}.items()
        )
        return [*super().discover(), dra.Pool("cables", tuple(cables), per_device_node_selection=True)]


@asynccontextmanager
async def pool_driver(client: Client) -> AsyncIterator[None]:
    stop = asyncio.Event()
    owner = OwnerRef.parse("deviceclass/tpu.example.com")
    running = asyncio.create_task(PoolProcess(TpusAndCables(), client, owner).run(stop, 1))
    try:
        yield
    finally:
        stop.set()
        await running


@asynccontextmanager
async def tpu_cluster(*, as_admin: bool = False) -> AsyncIterator[TpuCluster]:
    """Run cluster, pool driver and node plugins. The plugins have the identity of a driver or an admin."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dra-")))
        cluster = await stack.enter_async_context(EmbeddedCluster(folder, nodes=NODES, runtime="process"))
        client = cluster.client()
        await client.create(CLASSES, documents("class.yaml")["DeviceClass"], into=dict)
        calls: Tally[tuple[str, str]] = Tally()
        plugins = {}
        for name in NODES:
            kubeconfig = cluster.kubeconfig_path if as_admin else cluster.node_kubeconfig(name)
            own = await stack.enter_async_context(await Client.connect(str(kubeconfig)))
            home = cluster.node_dir(name)
            config = PluginConfig(name, home / "plugins", home / "plugins_registry", home / "cdi")
            plugins[name] = Plugin(Counting(calls), own, config)
            await plugins[name].start()
            stack.push_async_callback(plugins[name].stop, 1)
            await plugins[name].parts.registration.wait(10)
        await stack.enter_async_context(pool_driver(client))
        yield TpuCluster(client, plugins, calls)


@pytest.fixture(autouse=True)
def hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "HOSTS", list(NODES))


async def test_two_pods_share_a_slice_of_two_nodes_and_a_third_stays_pending() -> None:
    async with tpu_cluster() as tpus:
        await tpus.claim(CLAIM)
        await tpus.pod("one")
        await tpus.pod("two")
        nodes = {await tpus.running("one"), await tpus.running("two")}
        assert nodes == await tpus.hosts(CLAIM)
        assert tpus.prepared() == {name: [CLAIM] for name in nodes}
        assert tpus.calls == Tally({(name, f"prepare {CLAIM}"): 1 for name in nodes})

        await tpus.pod("three")
        message = await tpus.refusal("three")
        assert "2 node(s) didn't match pod anti-affinity rules" in message
        assert f"2 resourceclaim not available on the node (default/{CLAIM})" in message

        await tpus.client.delete(PODS, "one", "default")
        assert await tpus.running("three") in nodes


async def test_the_claim_is_unprepared_once_on_each_node_when_its_pods_are_gone() -> None:
    async with tpu_cluster() as tpus:
        await tpus.claim(CLAIM)
        await tpus.pod("one")
        await tpus.pod("two")
        nodes = {await tpus.running("one"), await tpus.running("two")}
        for pod in ("one", "two"):
            await tpus.client.delete(PODS, pod, "default")

        async def nothing_is_left() -> bool:
            claim = await tpus.client.get(CLAIMS, CLAIM, "default", into=ResourceClaim)
            return not tpus.prepared() and claim.allocation is None

        await until(nothing_is_left)
        assert {name: tpus.calls[name, f"unprepare {CLAIM}"] for name in nodes} == dict.fromkeys(nodes, 1)


async def test_an_allocated_slice_of_two_nodes_excludes_its_smaller_slices() -> None:
    async with tpu_cluster() as tpus:
        await tpus.claim(CLAIM)
        await tpus.pod("one")
        await tpus.running("one")
        taken, free = await tpus.hosts(CLAIM), set()
        for number in range(2):
            await tpus.claim(f"small-{number}", topology("2x2"))
            await tpus.pod(f"small-{number}", f"small-{number}")
            free.add(await tpus.running(f"small-{number}"))
        assert free == {*NODES} - taken
        await tpus.claim("small-2", topology("2x2"))
        await tpus.pod("small-2", "small-2")
        assert "counter" in await tpus.refusal("small-2")


async def test_a_pod_whose_claims_are_in_use_on_partly_overlapping_nodes_stays_pending_with_both_named() -> (
    None
):
    async with tpu_cluster() as tpus:
        for name in ("left", "right"):
            await tpus.claim(name, topology(name))
        await tpus.pod("one", "left", "right")
        assert await tpus.running("one") == NODES[1]
        await tpus.pod("two", "left", "right")
        message = await tpus.refusal("two")
        assert "1 node(s) didn't match pod anti-affinity rules" in message
        assert "1 resourceclaim not available on the node (default/left)" in message
        assert "1 resourceclaim not available on the node (default/right)" in message
        assert "1 resourceclaim not available on the node (default/left, default/right)" in message


async def test_the_device_status_has_a_condition_of_each_node() -> None:
    """The plugins may write the status of claims of several nodes."""
    async with tpu_cluster(as_admin=True) as tpus:
        await tpus.claim(CLAIM)
        await tpus.pod("one")
        await tpus.pod("two")
        nodes = {await tpus.running("one"), await tpus.running("two")}

        async def read_conditions() -> list[Any]:
            claim = await tpus.client.get(CLAIMS, CLAIM, "default", into=dict)
            (entry,) = claim["status"].get("devices") or [{"conditions": []}]
            return [each["type"] for each in entry["conditions"]] if len(entry["conditions"]) == 2 else []

        assert {*await until(read_conditions)} == {f"{name}-ready" for name in nodes}


def topology(name: str) -> str:
    return f'device.attributes["tpu.example.com"].topology == "{name}"'
