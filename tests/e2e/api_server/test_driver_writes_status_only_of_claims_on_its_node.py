"""A token that is bound to a node can write `status.devices` of claims that are allocated to that node."""

import asyncio
import json
import uuid
from typing import Any, Final

import pytest

from tests.conformance.apiserver.suite import DRA, MERGE, Api, Json, allocation, claim

RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"
REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
ACCOUNTS: Final = "/api/v1/namespaces/default/serviceaccounts"
CLAIMS: Final = f"{DRA}/namespaces/default/resourceclaims"
GROUP: Final = "resource.k8s.io"
RULES: Final = [
    {"apiGroups": [GROUP], "resources": ["resourceclaims"], "verbs": ["get"]},
    {"apiGroups": [GROUP], "resources": ["resourceclaims/status"], "verbs": ["patch", "update"]},
    {"apiGroups": [GROUP], "resources": ["resourceclaims/driver"], "resourceNames": ["d.example.com"],
     "verbs": ["associated-node:patch", "associated-node:update"]},
]  # fmt: skip


async def grant(api: Api, name: str) -> None:
    """Give a service account the rights that a driver's chart gives it."""
    head = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": name}}
    await api.make(f"{RBAC}/clusterroles", {**head, "kind": "ClusterRole", "rules": RULES})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    subjects = [{"kind": "ServiceAccount", "name": name, "namespace": "default"}]
    binding = {**head, "kind": "ClusterRoleBinding", "roleRef": role, "subjects": subjects}
    await api.make(f"{RBAC}/clusterrolebindings", binding)


async def until_granted(api: Api, name: str) -> None:
    """Wait until the authorizer of a real API server has received the grant."""
    attributes = {
        "group": GROUP, "resource": "resourceclaims", "subresource": "status", "verb": "patch",
        "namespace": "default",
    }  # fmt: skip
    spec = {"user": f"system:serviceaccount:default:{name}", "resourceAttributes": attributes}
    async with asyncio.timeout(30):
        while not (await api.make(REVIEWS, {"spec": spec}))["status"]["allowed"]:
            await asyncio.sleep(0.05)


async def bound_token(api: Api, name: str) -> str:
    """Return a new service account's token, bound to node-1."""
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}}
    await api.call("POST", "/api/v1/nodes", node)
    uid = (await api.call("GET", "/api/v1/nodes/node-1")).json["metadata"]["uid"]
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
    await api.make(ACCOUNTS, account)
    reference = {"apiVersion": "v1", "kind": "Node", "name": "node-1", "uid": uid}
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"boundObjectRef": reference},
    }
    return str((await api.make(f"{ACCOUNTS}/{name}/token", body))["status"]["token"])


def on_node(node: str) -> Json:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    return {**json.loads(allocation()), "nodeSelector": {"nodeSelectorTerms": [term]}}


@pytest.mark.parametrize("node", ["node-1", "node-2"])
async def test_both_servers_answer_alike(real: Api, embedded: Api, node: str) -> None:
    name = f"driver-{uuid.uuid4().hex[:8]}"
    await grant(real, name)
    await until_granted(real, name)
    seen: list[Any] = []
    for api in (embedded, real):
        token = await bound_token(api, name)
        await api.make(CLAIMS, claim(name))
        path = f"{CLAIMS}/{name}/status"
        body: Json = {"status": {"allocation": on_node(node)}}
        assert (await api.call("PATCH", path, body, content_type=MERGE)).status == 200
        for status in (
            {"devices": [{"driver": "d.example.com", "pool": "p", "device": "dev-0"}]},
            {"reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}]},
        ):
            answer = await api.call("PATCH", path, {"status": status}, content_type=MERGE, token=token)
            message = answer.json.get("message", "").replace(name, "*")
            seen.append((api is real, answer.status, message))
        await api.call("DELETE", f"{CLAIMS}/{name}")
    assert [each[1:] for each in seen if each[0]] == [each[1:] for each in seen if not each[0]]
    assert seen[0][1] == (200 if node == "node-1" else 422)
