"""The chart's ValidatingAdmissionPolicy on a real API server, for releases of two names."""

import asyncio
import json
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
from tests.conformance.apiserver_suite import Answer, Api, Json, resource_slice
from tests.e2e.bed import Bed
from tests.e2e.helm import Helm, on_bed, set_values
from tests.e2e.pod_tokens import DRA_API, ensure_node, plain_token, pod_token

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
        """Creates a slice of this driver on `NODE`, unless the fields of the spec say otherwise."""
        pool = {"name": spec.get("nodeName") or NODE, "generation": 1, "resourceSliceCount": 1}
        given = {"driver": DRIVER, "nodeName": NODE, "pool": pool, **spec}
        body = resource_slice(name or f"slice-{uuid.uuid4().hex[:8]}", **given)
        body["spec"] = {key: value for key, value in body["spec"].items() if value is not None}
        body["apiVersion"] = f"resource.k8s.io/{version}"
        if version == "v1beta1":
            body["spec"]["devices"] = [{"name": "dev-0", "basic": {}}]
        path = f"/apis/resource.k8s.io/{version}/resourceslices"
        return await self.api.call("POST", path, body, token=token or self.token)

    async def foreign(self) -> str:
        """A slice of the other node, made by the administrator."""
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
    async with asyncio.timeout(20):
        # A policy is in force a moment after it was written.
        while (await release.write(nodeName=OTHER_NODE)).status == 201:
            await asyncio.sleep(0.05)
    yield release
    for item in (await real.call("GET", f"{DRA_API}/resourceslices")).json["items"]:
        if item["spec"]["driver"] == DRIVER:
            await real.call("DELETE", f"{DRA_API}/resourceslices/{item['metadata']['name']}")


def refused(answer: Answer, words: str) -> bool:
    assert answer.status in {403, 422}, answer.raw
    return words in answer.json["message"]


async def test_its_own_slice_is_accepted_changed_and_deleted(release: Release) -> None:
    answer = await release.write()
    assert answer.status == 201, answer.raw
    body = answer.json
    body["spec"]["devices"].append({"name": "dev-1"})
    path = f"{DRA_API}/resourceslices/{body['metadata']['name']}"
    assert (await release.api.call("PUT", path, body, token=release.token)).status == 200
    assert (await release.api.call("DELETE", path, token=release.token)).status == 200


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1"])
async def test_a_slice_of_another_node_is_refused_in_every_version(release: Release, version: str) -> None:
    answer = await release.write(version=version, nodeName=OTHER_NODE)
    words = f"the driver on node {NODE} may write ResourceSlices of this node only, not of {OTHER_NODE}"
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
async def test_a_slice_of_no_node_in_particular_is_refused(release: Release, spec: Json) -> None:
    answer = await release.write(nodeName=None, **spec)
    assert refused(answer, "not of no node in particular")


@pytest.mark.parametrize("pool", [NODE, f"{NODE}/numa-0"])
async def test_a_pool_is_called_as_its_node_or_below_it(release: Release, pool: str) -> None:
    answer = await release.write(pool={"name": pool, "generation": 1, "resourceSliceCount": 1})
    assert answer.status == 201, answer.raw


@pytest.mark.parametrize("pool", [OTHER_NODE, f"{NODE}-2", "cards"])
async def test_a_pool_of_another_name_is_refused(release: Release, pool: str) -> None:
    """Under another node's name, in a higher generation, it would take that node's devices away."""
    answer = await release.write(pool={"name": pool, "generation": 9, "resourceSliceCount": 1})
    assert refused(answer, f"pools called {NODE} or {NODE}/... only, not {pool}")


async def test_leftovers_of_another_name_may_go(release: Release) -> None:
    pool = {"name": "cards", "generation": 1, "resourceSliceCount": 1}
    answer = await release.write(release.api.token, pool=pool)
    assert answer.status == 201, answer.raw
    path = f"{DRA_API}/resourceslices/{answer.json['metadata']['name']}"
    assert (await release.api.call("DELETE", path, token=release.token)).status == 200


async def test_a_slice_of_another_driver_is_refused(release: Release) -> None:
    answer = await release.write(driver="gpu.example.com")
    assert refused(answer, f"this ServiceAccount may write ResourceSlices of driver {DRIVER} only")


async def test_another_nodes_slice_is_neither_changed_nor_deleted(release: Release) -> None:
    path = f"{DRA_API}/resourceslices/{await release.foreign()}"
    body = (await release.api.call("GET", path)).json
    body["spec"]["devices"].append({"name": "dev-1"})
    words = f"not of {OTHER_NODE}"
    assert refused(await release.api.call("PUT", path, body, token=release.token), words)
    assert refused(await release.api.call("DELETE", path, token=release.token), words)
    assert (await release.api.call("GET", path)).status == 200


async def test_a_token_that_is_bound_to_no_node_is_refused(release: Release) -> None:
    token = await plain_token(release.api, release.namespace, release.account)
    assert refused(await release.write(token), "this token is bound to no node")


async def test_a_user_of_whom_nothing_else_is_known_is_refused(release: Release) -> None:
    """As with a token from a Secret, which says nothing of pods and nodes."""
    user = f"system:serviceaccount:{release.namespace}:{release.account}"
    body = resource_slice("of-nobody", driver=DRIVER, nodeName=NODE)
    path = f"{DRA_API}/resourceslices"
    answer = await release.api.call("POST", path, body, headers={"Impersonate-User": user})
    assert refused(answer, "this token is bound to no node")


async def test_others_are_not_judged(release: Release) -> None:
    answer = await release.write(release.api.token, nodeName=OTHER_NODE, driver="gpu.example.com")
    assert answer.status == 201, answer.raw
    await release.api.call("DELETE", f"{DRA_API}/resourceslices/{answer.json['metadata']['name']}")


async def test_shared_pools_are_the_owners_where_a_driver_has_them(
    release: Release, chart: Helm, release_name: str, tmp_path: Path
) -> None:
    shared = {"drivers.loop.admissionPolicy.sharedPools": True}
    given = {"image.repository": "registry.example.com/d", "drivers.loop.enabled": True}
    owner: Json = {"apiVersion": "v1", "kind": "Node", "controller": True}
    chart.upgrade(release_name, *set_values(given | shared))
    try:
        async with asyncio.timeout(20):
            while (await owned_by(release, owner, NODE)).status != 201:
                await asyncio.sleep(0.05)
        assert refused(await owned_by(release, owner, OTHER_NODE), "not of no node in particular")
        for pool in (OTHER_NODE, f"{OTHER_NODE}/fabric", "fabric"):
            answer = await owned_by(release, owner, NODE, pool)
            assert refused(answer, f"pools called {NODE} or {NODE}/... only, not {pool}")
        await publishes_a_shared_pool(release, chart, tmp_path)
    finally:
        chart.upgrade(release_name, *set_values(given))


async def publishes_a_shared_pool(release: Release, chart: Helm, folder: Path) -> None:
    """As the driver's process does it: first a dry run, because of the taint."""
    assert chart.kubeconfig is not None
    document = json.loads(chart.kubeconfig.read_text())
    document["users"][0]["user"] = {"token": release.token}
    (kubeconfig := folder / "pod.kubeconfig").write_text(json.dumps(document))
    taint = dra.Taint(key="example.com/new", effect="NoSchedule")
    device = dra.Device("card", taints=[taint])
    node = NodeRef(NODE, await ensure_node(release.api, NODE))
    async with await Client.connect(str(kubeconfig)) as client:
        publisher = PublishController(client, DRIVER, node=node)
        task = asyncio.create_task(publisher.run())
        publisher.want([dra.Pool(f"{NODE}/fabric", (device,), all_nodes=True)])
        try:
            await publisher.wait_settled(20)
            assert {pool: (str(each.state), each.message) for pool, each in publisher.status.items()} == {
                f"{NODE}/fabric": ("published", "")
            }
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def owned_by(release: Release, owner: Json, node: str, pool: str = NODE) -> Answer:
    """Creates a slice for all nodes that belongs to a Node."""
    reference = {"name": pool, "generation": 9, "resourceSliceCount": 1}
    name = f"shared-{uuid.uuid4().hex[:8]}"
    body = resource_slice(name, driver=DRIVER, allNodes=True, pool=reference)
    del body["spec"]["nodeName"]
    uid = await ensure_node(release.api, node)
    body["metadata"]["ownerReferences"] = [owner | {"name": node, "uid": uid}]
    return await release.api.call("POST", f"{DRA_API}/resourceslices", body, token=release.token)
