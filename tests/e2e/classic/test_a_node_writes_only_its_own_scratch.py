"""The rights and the policy of `examples/classic/node_resources`, on a real API server."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest
import yaml

from tests.conformance.apiserver.suite import MERGE, Answer, Api, Json
from tests.e2e.chart.pod_tokens import ensure_node, plain_token, pod_token

MANIFESTS: Final = Path(__file__).parents[3] / "examples/classic/node_resources/manifests"
NODE, OTHER_NODE = "scratch-node-1", "scratch-node-2"
OBJECTS: Final = "/apis/scratch.example.com/v1/namespaces/scratch/nodescratches"
PATHS: Final = {
    "Namespace": "/api/v1/namespaces",
    "ServiceAccount": "/api/v1/namespaces/scratch/serviceaccounts",
    "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/scratch/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/scratch/rolebindings",
    "ValidatingAdmissionPolicy": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": (
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
    ),
    "Deployment": "/apis/apps/v1/namespaces/scratch/deployments",
    "DaemonSet": "/apis/apps/v1/namespaces/scratch/daemonsets",
}


class ScratchRights:
    """The objects of a cluster with the example's manifests, and tokens of its accounts."""

    def __init__(self, api: Api, node: str, controller: str) -> None:
        self.api = api
        self.node = node
        self.controller = controller

    async def create(self, name: str, token: str, **spec: object) -> Answer:
        body = {"kind": "NodeScratch", "apiVersion": "scratch.example.com/v1", "metadata": {"name": name}}
        return await self.api.call("POST", OBJECTS, {**body, "spec": spec}, token=token)

    async def patch(self, path: str, body: Json, token: str) -> Answer:
        return await self.api.call("PATCH", f"{OBJECTS}/{path}", body, token=token, content_type=MERGE)


@pytest.fixture
async def rights(real: Api) -> AsyncIterator[ScratchRights]:
    bodies = [
        body
        for name in ("definition.yaml", "readers.yaml", "controller.yaml", "node.yaml")
        for body in yaml.safe_load_all((MANIFESTS / name).read_text())
    ]
    for body in bodies:
        # The namespace and the definition of an earlier test take some time to vanish, so they stay.
        assert (await real.call("POST", PATHS[body["kind"]], body)).status in {201, 409}
    await ensure_node(real, OTHER_NODE)
    node = await pod_token(real, "scratch", "scratch-node", NODE)
    rights = ScratchRights(real, node, await plain_token(real, "scratch", "scratch-controller"))
    async with asyncio.timeout(30):
        # A definition and a policy take effect a moment after they are written.
        while "metadata.name: must be" not in (await rights.create(OTHER_NODE, node)).raw.decode():
            await real.call("DELETE", f"{OBJECTS}/{OTHER_NODE}")
            await asyncio.sleep(0.05)
    yield rights
    for name in (NODE, OTHER_NODE):
        await real.call("DELETE", f"{OBJECTS}/{name}")
    for body in reversed(bodies):
        if body["kind"] not in {"Namespace", "CustomResourceDefinition"}:
            await real.call("DELETE", f"{PATHS[body['kind']]}/{body['metadata']['name']}")


async def test_a_node_creates_and_answers_only_its_own_object(rights: ScratchRights) -> None:
    api = rights.api
    assert (await rights.create(NODE, rights.node)).status == 201
    assert (await rights.create(OTHER_NODE, api.token)).status == 201
    status = {"status": {"gibibytes": 10, "claims": [{"uid": "uid-1", "path": "/var/lib/scratch/uid-1"}]}}
    assert (await rights.patch(f"{NODE}/status", status, rights.node)).status == 200
    refused = await rights.patch(f"{OTHER_NODE}/status", status, rights.node)
    words = f"metadata.name: must be {NODE}, the node of the driver, not {OTHER_NODE}"
    assert words in refused.json["message"]


async def test_a_node_assigns_no_claims(rights: ScratchRights) -> None:
    claims = [{"uid": "uid-1", "gibibytes": 1}]
    refused = await rights.create(NODE, rights.node, claims=claims)
    assert "spec.claims: only the controller may assign claims" in refused.json["message"]
    assert (await rights.create(NODE, rights.node)).status == 201
    assert (await rights.patch(NODE, {"spec": {"claims": claims}}, rights.node)).status == 403
    assert (await rights.patch(NODE, {"spec": {"claims": claims}}, rights.controller)).status == 200
    assert (await rights.patch(f"{NODE}/status", {"status": {"gibibytes": 1}}, rights.controller)).status == 403


async def test_a_node_has_no_rights_for_the_negotiation(rights: ScratchRights) -> None:
    for resource in ("podschedulingcontexts", "podschedulingcontexts/status", "controllerallocations"):
        for verb in ("get", "list", "create", "update", "patch", "delete"):
            name, _, part = resource.partition("/")
            attributes = {
                "group": "classic.dradriver.dev",
                "resource": name,
                "subresource": part,
                "verb": verb,
                "namespace": "default",
            }
            review = await rights.api.call(
                "POST",
                "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
                {"spec": {"resourceAttributes": attributes}},
                token=rights.node,
            )
            assert review.json["status"]["allowed"] is False, attributes


async def test_all_users_read_the_objects(rights: ScratchRights) -> None:
    await rights.create(NODE, rights.node)
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    await rights.api.call("POST", accounts, {"metadata": {"name": "scratch-user"}})
    reader = await plain_token(rights.api, "default", "scratch-user")
    found = await rights.api.call("GET", OBJECTS, token=reader)
    assert [each["metadata"]["name"] for each in found.json["items"]] == [NODE]
    assert (await rights.create(OTHER_NODE, reader)).status == 403
