"""The chart's ValidatingAdmissionPolicy on a real API server, for releases of two names."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

import dradriver as dra
from dradriver.kube import Client
from dradriver.publish import PublishController
from dradriver.publish.status import NodeRef
from tests.conformance.apiserver.suite import Answer, Api, Json, resource_slice
from tests.e2e.bed.bed import Bed
from tests.e2e.chart.helm import Helm, on_bed, set_values
from tests.e2e.chart.pod_tokens import DRA_API, ensure_node, plain_token, pod_token
from tests.e2e.chart.rights import write_pod_kubeconfig

NODE, OTHER_NODE = "policy-node-1", "policy-node-2"
DRIVER: Final = "loop.example.com"
SELECTOR: Final = {"nodeSelectorTerms": [{"matchFields": [
    {"key": "metadata.name", "operator": "In", "values": [NODE]}]}]}  # fmt: skip


@dataclass
class Release:
    """An installed release and the token of its driver's pod on `NODE`."""

    api: Api
    namespace: str
    account: str
    token: str

    async def write(self, token: str = "", version: str = "v1", name: str = "", **spec: Any) -> Answer:
        """Create a slice of this driver on `NODE`; `spec` replaces fields."""
        pool = {"name": spec.get("nodeName") or NODE, "generation": 1, "resourceSliceCount": 1}
        given = {"driver": DRIVER, "nodeName": NODE, "pool": pool, **spec}
        body = resource_slice(name or f"slice-{uuid.uuid4().hex[:8]}", **given)
        body["spec"] = {key: value for key, value in body["spec"].items() if value is not None}
        body["apiVersion"] = f"resource.k8s.io/{version}"
        if version == "v1beta1":
            body["spec"]["devices"] = [{"name": "dev-0", "basic": {}}]
        path = f"/apis/resource.k8s.io/{version}/resourceslices"
        return await self.api.call("POST", path, body, token=token or self.token)

    async def create_foreign_slice(self) -> str:
        """Create a slice of the other node as the administrator."""
        answer = await self.write(self.api.token, nodeName=OTHER_NODE)
        assert answer.status == 201, answer.raw
        return str(answer.json["metadata"]["name"])


@pytest.fixture(scope="module")
def chart(real_control_plane: Bed) -> Helm:
    return on_bed(real_control_plane, "policy")


@pytest.fixture(scope="module", params=["dradriver", "laboratory"])
def release_name(request: pytest.FixtureRequest, chart: Helm) -> Any:
    name = str(request.param)
    given = {"image.repository": "registry.example.com/d", "drivers.loop.enabled": True}
    chart.install(name, *set_values(given))
    yield name
    chart.uninstall(name)


@pytest.fixture
async def release(real: Api, chart: Helm, release_name: str) -> AsyncIterator[Release]:
    account = f"{release_name}-loop" if "dradriver" in release_name else f"{release_name}-dradriver-loop"
    await ensure_node(real, OTHER_NODE)
    release = Release(real, chart.namespace, account, await pod_token(real, chart.namespace, account, NODE))
    async with asyncio.timeout(60):
        # Roles and a policy take effect a moment after they are written.
        words = f"the node of the driver, not {OTHER_NODE}"
        while words not in (await release.write(nodeName=OTHER_NODE)).json.get("message", ""):
            await asyncio.sleep(0.05)
    yield release
    for item in (await real.call("GET", f"{DRA_API}/resourceslices")).json["items"]:
        if item["spec"]["driver"] == DRIVER:
            await real.call("DELETE", f"{DRA_API}/resourceslices/{item['metadata']['name']}")


def refused(answer: Answer, words: str) -> bool:
    assert answer.status in {403, 422}, answer.raw
    return words in answer.json["message"]


async def test_a_slice_of_its_node_is_created_changed_and_deleted(release: Release) -> None:
    answer = await release.write()
    assert answer.status == 201, answer.raw
    body = answer.json
    body["spec"]["devices"].append({"name": "dev-1"})
    path = f"{DRA_API}/resourceslices/{body['metadata']['name']}"
    assert (await release.api.call("PUT", path, body, token=release.token)).status == 200
    assert (await release.api.call("DELETE", path, token=release.token)).status == 200


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1"])
async def test_a_slice_of_another_node_is_rejected_in_every_version(release: Release, version: str) -> None:
    answer = await release.write(version=version, nodeName=OTHER_NODE)
    words = f"spec.nodeName: must be {NODE}, the node of the driver, not {OTHER_NODE}"
    assert refused(answer, words)


@pytest.mark.parametrize(
    "spec",
    [
        {"allNodes": True},
        {"nodeSelector": SELECTOR},
        {"perDeviceNodeSelection": True, "devices": [{"name": "dev-0", "nodeName": NODE}]},
    ],
    ids=lambda spec: next(iter(spec)),
)
async def test_a_slice_without_a_node_is_rejected(release: Release, spec: Json) -> None:
    answer = await release.write(nodeName=None, **spec)
    assert refused(answer, "the node of the driver, not empty")


@pytest.mark.parametrize("pool", [NODE, f"{NODE}/numa-0"])
async def test_a_pool_name_begins_with_the_node_name(release: Release, pool: str) -> None:
    answer = await release.write(pool={"name": pool, "generation": 1, "resourceSliceCount": 1})
    assert answer.status == 201, answer.raw


@pytest.mark.parametrize("pool", [OTHER_NODE, f"{NODE}-2", "cards"])
async def test_a_pool_of_another_name_is_rejected(release: Release, pool: str) -> None:
    """A higher generation of another node's pool would hide that node's devices."""
    answer = await release.write(pool={"name": pool, "generation": 9, "resourceSliceCount": 1})
    assert refused(answer, f"must be {NODE} or begin with {NODE}/ for the driver on this node, not {pool}")


async def test_old_slices_with_another_pool_name_can_be_deleted(release: Release) -> None:
    pool = {"name": "cards", "generation": 1, "resourceSliceCount": 1}
    answer = await release.write(release.api.token, pool=pool)
    assert answer.status == 201, answer.raw
    path = f"{DRA_API}/resourceslices/{answer.json['metadata']['name']}"
    assert (await release.api.call("DELETE", path, token=release.token)).status == 200


async def test_a_slice_of_another_driver_is_rejected(release: Release) -> None:
    answer = await release.write(driver="gpu.example.com")
    assert refused(answer, f"spec.driver: must be {DRIVER} for this ServiceAccount")


async def test_a_slice_of_another_node_cannot_be_changed_or_deleted(release: Release) -> None:
    path = f"{DRA_API}/resourceslices/{await release.create_foreign_slice()}"
    body = (await release.api.call("GET", path)).json
    body["spec"]["devices"].append({"name": "dev-1"})
    words = f"the node of the driver, not {OTHER_NODE}"
    assert refused(await release.api.call("PUT", path, body, token=release.token), words)
    assert refused(await release.api.call("DELETE", path, token=release.token), words)
    assert (await release.api.call("GET", path)).status == 200


async def test_a_token_that_is_not_bound_to_a_node_is_rejected(release: Release) -> None:
    token = await plain_token(release.api, release.namespace, release.account)
    assert refused(await release.write(token), "the token must be bound to a node")


async def test_a_user_without_node_information_is_rejected(release: Release) -> None:
    """A token from a Secret names no pod and no node."""
    user = f"system:serviceaccount:{release.namespace}:{release.account}"
    body = resource_slice("of-no-node", driver=DRIVER, nodeName=NODE)
    path = f"{DRA_API}/resourceslices"
    answer = await release.api.call("POST", path, body, headers={"Impersonate-User": user})
    assert refused(answer, "the token must be bound to a node")


async def test_other_accounts_are_not_restricted(release: Release) -> None:
    answer = await release.write(release.api.token, nodeName=OTHER_NODE, driver="gpu.example.com")
    assert answer.status == 201, answer.raw
    await release.api.call("DELETE", f"{DRA_API}/resourceslices/{answer.json['metadata']['name']}")


async def test_a_driver_with_shared_pools_can_write_slices_that_its_node_owns(
    release: Release, chart: Helm, release_name: str, tmp_path: Path
) -> None:
    shared = {"drivers.loop.admissionPolicy.sharedPools": True}
    given = {"image.repository": "registry.example.com/d", "drivers.loop.enabled": True}
    owner: Json = {"apiVersion": "v1", "kind": "Node", "controller": True}
    chart.upgrade(release_name, *set_values(given | shared))
    try:
        async with asyncio.timeout(60):
            while (await create_owned_slice(release, owner, NODE)).status != 201:
                await asyncio.sleep(0.05)
        assert refused(
            await create_owned_slice(release, owner, OTHER_NODE), "the node of the driver, not empty"
        )
        for pool in (OTHER_NODE, f"{OTHER_NODE}/fabric", "fabric"):
            answer = await create_owned_slice(release, owner, NODE, pool)
            assert refused(
                answer, f"must be {NODE} or begin with {NODE}/ for the driver on this node, not {pool}"
            )
        await publish_shared_pool(release, chart, tmp_path)
    finally:
        chart.upgrade(release_name, *set_values(given))


async def publish_shared_pool(release: Release, chart: Helm, folder: Path) -> None:
    """Publish as the driver's process does: first a dry run, because of the taint."""
    kubeconfig = write_pod_kubeconfig(chart, release.token, folder)
    taint = dra.Taint(key="example.com/new", effect="NoSchedule")
    device = dra.Device("card", taints=[taint])
    node = NodeRef(NODE, await ensure_node(release.api, NODE))
    async with await Client.connect(str(kubeconfig)) as client:
        publisher = PublishController(client, DRIVER, node=node)
        task = asyncio.create_task(publisher.run())
        publisher.want([dra.Pool(f"{NODE}/fabric", (device,), all_nodes=True)])
        try:
            await publisher.wait_settled(60)
            assert {pool: (str(each.state), each.message) for pool, each in publisher.status.items()} == {
                f"{NODE}/fabric": ("published", "")
            }
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def create_owned_slice(release: Release, owner: Json, node: str, pool: str = NODE) -> Answer:
    """Create a slice for all nodes that belongs to a Node."""
    reference = {"name": pool, "generation": 9, "resourceSliceCount": 1}
    name = f"shared-{uuid.uuid4().hex[:8]}"
    body = resource_slice(name, driver=DRIVER, allNodes=True, pool=reference)
    del body["spec"]["nodeName"]
    uid = await ensure_node(release.api, node)
    body["metadata"]["ownerReferences"] = [owner | {"name": node, "uid": uid}]
    return await release.api.call("POST", f"{DRA_API}/resourceslices", body, token=release.token)
