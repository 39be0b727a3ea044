"""Requests for ResourceSlices that the Node authorizer and NodeRestriction allow a kubelet."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.conformance.apiserver.suite import DRA, MERGE, Api, Json, resource_slice
from tests.e2e.bed import api_server_clients
from tests.e2e.bed.bed import Bed

SLICES: Final = f"{DRA}/resourceslices"
NEXT: Final = {"spec": {"pool": {"generation": 2}}}


def slice_of_all_nodes() -> Json:
    body = resource_slice("new", allNodes=True)
    del body["spec"]["nodeName"]
    return body


REQUESTS: Final[dict[str, tuple[str, str, Json | None, dict[str, Any]]]] = {
    "list all": ("GET", SLICES, None, {}),
    "list another node's": ("GET", SLICES, None, {"params": {"fieldSelector": "spec.nodeName=node-2"}}),
    "list its own": ("GET", SLICES, None, {"params": {"fieldSelector": "spec.nodeName=node-1"}}),
    "delete by driver": ("DELETE", SLICES, None, {"params": {"fieldSelector": "spec.driver=d.example.com"}}),
    "create its own": ("POST", SLICES, resource_slice("new", nodeName="node-1"), {"params": {"dryRun": "All"}}),
    "create another node's": ("POST", SLICES, resource_slice("new", nodeName="node-2"), {}),
    "create one of all nodes": ("POST", SLICES, slice_of_all_nodes(), {}),
    "get another node's": ("GET", f"{SLICES}/theirs", None, {}),
    "get what is not there": ("GET", f"{SLICES}/none", None, {}),
    "patch another node's": ("PATCH", f"{SLICES}/theirs", NEXT, {"content_type": MERGE}),
    "delete another node's": ("DELETE", f"{SLICES}/theirs", None, {}),
}


@pytest.fixture
async def kubelets(real_control_plane: Bed, tmp_path: Path, real: Api) -> AsyncIterator[list[Api]]:
    """Return clients with the credentials of node-1's kubelet, where another node has a slice too."""
    async with api_server_clients.embedded(tmp_path / "node", user="node:node-1") as ours:
        admin = Api(ours.url, ours.context, api_server_clients.token(tmp_path / "node", "admin"), ours.session)
        async with api_server_clients.real(real_control_plane, "node:node-1") as theirs:
            for api in (admin, real):
                for node in ("node-1", "node-2"):
                    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}}
                    await api.call("POST", "/api/v1/nodes", body)
                await api.make(SLICES, resource_slice("theirs", nodeName="node-2"))
            yield [ours, theirs]
            await real.call("DELETE", f"{SLICES}/theirs")


@pytest.mark.parametrize("name", REQUESTS)
async def test_both_servers_answer_alike(kubelets: list[Api], name: str) -> None:
    method, path, body, options = REQUESTS[name]
    seen = []
    for api in kubelets:
        answer = await api.call(method, path, body, **options)
        seen.append((answer.status, answer.json.get("message"), answer.json.get("reason")))
    assert seen[0] == seen[1]
