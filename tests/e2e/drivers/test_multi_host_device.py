"""KEP-4815, multi-host, on a real Kubernetes: the KEP's Deployment on a 2x4 slice of `examples/tpu`.

kube-scheduler allocates and keeps the pods apart, two kubelets prepare; the drivers have the example's rights.
"""

import asyncio
import json
import uuid
from collections import Counter as Tally
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

import dradriver as dra
from dradriver.kube import Client
from dradriver.node import Plugin, PluginConfig
from dradriver.publish import OwnerRef, PublishController
from dradriver.runner.pools import PoolProcess
from examples.tpu import node, pools
from tests.e2e.bed.cluster import Cluster

pytestmark = pytest.mark.timeout(600)

MANIFESTS: Final = Path(pools.__file__).parent / "manifests"
CLASS: Final = "tpu.example.com"
CLAIM: Final = "tpu-consumer-resource-claim"
NODES: Final = ("node-1", "node-2")
HOSTS: Final = (*NODES, "host-5", "host-6")
"""Of the KEP's four hosts two exist."""


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((MANIFESTS / name).read_text()))


class TpusAndCables(pools.TpuPools):
    """Add cables between neighbors; the second host reaches both."""

    def discover(self) -> list[dra.Pool]:
        cables = (
            dra.Device(
                f"cable-{name}", {"topology": name}, {"tpus": 0}, node_selector=pools.make_node_selector(ends)
            )
            for name, ends in {"left": HOSTS[:2], "right": HOSTS[1:3]}.items()
        )
        return [*super().discover(), dra.Pool("cables", tuple(cables), per_device_node_selection=True)]


class CountingDriver(node.TpuDriver):
    """Count the prepares per node."""

    def __init__(self, calls: Tally[str]) -> None:
        self.calls = calls

    def prepare(self, claim: dra.Claim) -> Mapping[dra.AllocatedDevice, dra.PreparedDevice]:
        self.calls[self.node_name] += 1
        return super().prepare(claim)


@dataclass
class Site:
    """A namespace on the cluster, with the running drivers of the example."""

    cluster: Cluster
    namespace: str
    plugins: dict[str, Plugin]
    calls: Tally[str]

    async def kubectl(self, *arguments: str, stdin: str = "") -> str:
        return await asyncio.to_thread(self.cluster.kubectl, "-n", self.namespace, *arguments, stdin=stdin)

    async def apply(self, *bodies: dict[str, Any]) -> None:
        await self.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(bodies))

    async def get(self, *arguments: str) -> Any:
        return json.loads(await self.kubectl("get", *arguments, "-o", "json"))

    async def pods(self) -> list[dict[str, Any]]:
        return list((await self.get("pods"))["items"])

    async def wait_for_unschedulable(self, *parts: str) -> None:
        """Wait until kube-scheduler reports the one pod that has no node, with all these parts of a message."""

        def is_reported(found: list[dict[str, Any]]) -> bool:
            waiting = [pod for pod in found if "nodeName" not in pod["spec"]]
            conditions = waiting[0]["status"].get("conditions", []) if len(waiting) == 1 else []
            messages = [str(c["message"]) for c in conditions if c["reason"] == "Unschedulable"]
            return any(all(part in message for part in parts) for message in messages)

        await self.until(is_reported)

    async def wait_for_slices(self) -> None:
        """Wait until all pools of the pool driver are published."""
        wanted = {pool.name for pool in TpusAndCables().discover()}
        async with asyncio.timeout(90):
            while wanted != {item["spec"]["pool"]["name"] for item in await self.shared_slices()}:
                await asyncio.sleep(0.2)

    async def shared_slices(self) -> list[dict[str, Any]]:
        """Return the slices of the driver that belong to no node."""
        found = (await self.get("resourceslices"))["items"]
        return [item for item in found if item["spec"]["driver"] == CLASS and "nodeName" not in item["spec"]]

    async def until(self, holds: Callable[[list[dict[str, Any]]], bool]) -> list[dict[str, Any]]:
        async with asyncio.timeout(90):
            while not holds(found := await self.pods()):
                await asyncio.sleep(0.2)
            return found

    def prepared(self) -> dict[str, list[str]]:
        found = {name: [row.record.name for row in each.prepared()] for name, each in self.plugins.items()}
        return {name: claims for name, claims in found.items() if claims}

    async def connect(self, folder: Path, account: str, node: str = "") -> Client:
        """Connect as one of the example's accounts; with a node, the token is bound to it."""
        bound = ["--bound-object-kind=Node", f"--bound-object-name={node}"] if node else []
        token = await self.kubectl("create", "token", account, "--namespace=kube-system", *bound)
        document = json.loads(self.cluster.kubeconfig().read_text())
        document["users"][0]["user"] = {"token": token.strip()}
        kubeconfig = folder / f"{account}-{node}"
        kubeconfig.write_text(json.dumps(document))
        return await Client.connect(str(kubeconfig))


@pytest.fixture
async def site(real_cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Site]:
    monkeypatch.setattr(pools, "HOSTS", list(HOSTS))
    site = Site(real_cluster, f"tpu-{uuid.uuid4().hex[:8]}", {}, Tally())
    rights = [body for name in ("pools.yaml", "node.yaml") for body in documents(name)]
    objects = [*documents("class.yaml"), *(each for each in rights if each["apiVersion"] != "apps/v1")]
    await site.kubectl("create", "namespace", site.namespace)
    for each in objects:
        await site.kubectl("apply", "--namespace=kube-system", "-f", "-", stdin=yaml.safe_dump(each))
    async with AsyncExitStack() as stack:
        for name in NODES:
            place = await asyncio.to_thread(real_cluster.node, name)
            client = await stack.enter_async_context(await site.connect(tmp_path, "tpu-node", name))
            config = PluginConfig(name, place.plugins, place.registry, place.cdi)
            site.plugins[name] = plugin = Plugin(CountingDriver(site.calls), client, config)
            await plugin.start()
            stack.push_async_callback(plugin.stop, 5)
            await plugin.parts.registration.wait(60)
        client = await stack.enter_async_context(await site.connect(tmp_path, "tpu-pools"))
        await stack.enter_async_context(pool_driver(client))
        await site.wait_for_slices()
        yield site
        await site.kubectl("delete", "deployments,pods,resourceclaims", "--all", "--timeout=120s")
    async with await Client.connect(str(real_cluster.kubeconfig())) as client:
        await PublishController(client, CLASS).withdraw()
    await site.kubectl("delete", "resourceslices", f"--field-selector=spec.driver={CLASS}")
    for each in objects:
        await site.kubectl(
            "delete", "--namespace=kube-system", "--ignore-not-found", "-f", "-", stdin=yaml.safe_dump(each)
        )
    await site.kubectl("delete", "namespace", site.namespace, "--wait=false")


@asynccontextmanager
async def pool_driver(client: Client) -> AsyncIterator[None]:
    stop = asyncio.Event()
    owner = OwnerRef.parse(f"deviceclass/{CLASS}")
    running = asyncio.create_task(PoolProcess(TpusAndCables(), client, owner).run(stop, 5))
    try:
        yield
    finally:
        stop.set()
        await running


async def test_two_pods_share_a_slice_of_two_nodes_and_a_third_stays_pending(
    site: Site,
) -> None:
    await site.apply(*documents("workload.yaml"))
    await site.kubectl("rollout", "status", "deployment/tpu-consumer", "--timeout=120s")
    found = {pod["spec"]["nodeName"]: pod["metadata"]["name"] for pod in await site.pods()}
    assert set(found) == {*NODES}
    for host, pod in found.items():
        async with asyncio.timeout(60):
            while not (log := await site.kubectl("logs", pod)):
                await asyncio.sleep(0.2)
        assert log == f"tpu-2x4-1 on {host}\n"
    assert site.prepared() == {name: [CLAIM] for name in NODES}
    assert site.calls == Tally(NODES)

    await site.kubectl("scale", "deployment/tpu-consumer", "--replicas=3")
    await site.wait_for_unschedulable("2 node(s) didn't match pod anti-affinity rules")

    async def conditions() -> set[str]:
        (entry,) = (await site.get("resourceclaim", CLAIM))["status"].get("devices") or [{}]
        return {each["type"] for each in entry.get("conditions", ())}

    async with asyncio.timeout(90):
        while await conditions() != {f"{name}-ready" for name in NODES}:
            await asyncio.sleep(0.2)

    await site.kubectl("delete", "deployment", "tpu-consumer", "--timeout=120s")
    await site.until(lambda left: not left)
    async with asyncio.timeout(90):
        while site.prepared() or "allocation" in (await site.get("resourceclaim", CLAIM)).get("status", {}):
            await asyncio.sleep(0.2)


async def test_claims_whose_nodes_overlap_by_half_leave_the_second_pod_pending(site: Site) -> None:
    """kube-scheduler reports that claims are not available on a node, but not which."""
    claim, deployment = documents("workload.yaml")
    (request,) = claim["spec"]["devices"]["requests"]
    for side in ("left", "right"):
        expression = f'device.attributes["{CLASS}"].topology == "{side}"'
        request["exactly"]["selectors"] = [{"cel": {"expression": expression}}]
        await site.apply(claim | {"metadata": {"name": side}})
    spec = deployment["spec"]["template"]["spec"]
    spec["resourceClaims"] = [{"name": side, "resourceClaimName": side} for side in ("left", "right")]
    spec["containers"][0]["resources"]["claims"] = [{"name": side} for side in ("left", "right")]
    await site.apply(deployment)
    await site.wait_for_unschedulable(
        "1 node(s) didn't match pod anti-affinity rules", "1 resourceclaim not available on the node"
    )
    running = [pod["spec"]["nodeName"] for pod in await site.pods() if "nodeName" in pod["spec"]]
    assert running == [NODES[1]]


async def test_the_slices_are_deleted_with_their_owner(site: Site) -> None:
    async with asyncio.timeout(60):
        (owner,) = (await site.shared_slices())[0]["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"]) == ("DeviceClass", CLASS)
        await site.kubectl("delete", "deviceclass", CLASS)
        while await site.shared_slices():
            await asyncio.sleep(0.2)
