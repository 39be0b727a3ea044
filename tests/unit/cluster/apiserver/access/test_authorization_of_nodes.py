"""Permissions of node-bound identities, as the Node authorizer and NodeRestriction define them."""

import pytest

from dradriver.cluster.apiserver import ApiServer
from dradriver.errors import UsageError
from tests.conformance.apiserver.suite import DRA, MERGE, Answer, Api, allocation, claim, pod, resource_slice
from tests.unit.cluster.apiserver.conftest import Connect

SLICES = f"{DRA}/resourceslices"
CLAIM = f"{DRA}/namespaces/default/resourceclaims/a"
DEVICE = {"status": {"devices": [{"driver": "d.example.com", "pool": "p", "device": "dev-0"}]}}


@pytest.fixture(params=["node", "driver"])
def bound(request: pytest.FixtureRequest, server: ApiServer, connect: Connect) -> Api:
    """A kubelet or a driver on node n1."""
    return connect(server, f"{request.param}:n1")


async def test_a_node_bound_user_writes_its_own_slices(bound: Api) -> None:
    made = await bound.make(SLICES, resource_slice("mine"))
    made["spec"]["pool"]["generation"] = 2
    assert (await bound.call("PUT", f"{SLICES}/mine", made)).status == 200
    assert (await bound.call("DELETE", SLICES, params={"fieldSelector": "spec.nodeName=n1"})).status == 200


SHARED = {"nodeName": None, "allNodes": True}


def is_forbidden(answer: Answer) -> bool:
    words = "can only create ResourceSlice with the same NodeName as the requesting node"
    return (answer.status, answer.json["reason"]) == (403, "Forbidden") and words in answer.json["message"]


async def test_creating_a_slice_of_another_node_is_forbidden(bound: Api) -> None:
    assert is_forbidden(await bound.call("POST", SLICES, resource_slice("other", nodeName="n2")))


async def test_a_driver_but_no_kubelet_writes_slices_that_several_nodes_reach(
    server: ApiServer, connect: Connect
) -> None:
    assert is_forbidden(await connect(server, "node:n1").call("POST", SLICES, resource_slice("a", **SHARED)))
    driver = connect(server, "driver:n1")
    made = await driver.make(SLICES, resource_slice("a", **SHARED))
    made["spec"]["pool"]["generation"] = 2
    assert (await driver.call("PUT", f"{SLICES}/a", made)).status == 200
    assert (await driver.call("DELETE", f"{SLICES}/a")).status == 200


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE"])
async def test_changing_a_slice_of_another_node_is_forbidden(bound: Api, api: Api, method: str) -> None:
    made = await api.make(SLICES, resource_slice("other", nodeName="n2"))
    answer = await bound.call(
        method, f"{SLICES}/other", made, content_type=MERGE if method == "PATCH" else "application/json"
    )
    assert answer.status == 403
    assert "no relationship found between node 'n1' and this object" in answer.json["message"]


async def test_deletecollection_needs_the_node_in_its_selector(bound: Api) -> None:
    assert (await bound.call("DELETE", SLICES)).status == 403
    assert (await bound.call("DELETE", SLICES, params={"fieldSelector": "spec.nodeName=n2"})).status == 403


async def test_a_kubelet_lists_its_own_slices_only(server: ApiServer, connect: Connect) -> None:
    kubelet = connect(server, "node:n1")
    refused = await kubelet.call("GET", SLICES)
    assert refused.status == 403
    assert (
        "can only list/watch/deletecollection resourceslices with nodeName field selector"
        in refused.json["message"]
    )
    assert (await kubelet.call("GET", SLICES, params={"fieldSelector": "spec.nodeName=n1"})).status == 200


async def allocate(api: Api, node: str) -> None:
    await api.make(f"{DRA}/namespaces/default/resourceclaims", claim("a"))
    term = b'{"matchFields":[{"key":"metadata.name","operator":"In","values":["' + node.encode() + b'"]}]}'
    selector = b',"nodeSelector":{"nodeSelectorTerms":[' + term + b"]}}"
    body = b'{"status":{"allocation":' + allocation()[:-1] + selector + b"}}"
    assert (await api.call("PATCH", f"{CLAIM}/status", body, content_type=MERGE)).status == 200


async def test_a_driver_writes_the_device_status_of_claims_on_its_node(
    server: ApiServer, connect: Connect, api: Api
) -> None:
    await allocate(api, "n1")
    assert (
        await connect(server, "driver:n1").call("PATCH", f"{CLAIM}/status", DEVICE, content_type=MERGE)
    ).status == 200


async def test_a_driver_does_not_write_the_device_status_of_other_nodes(
    server: ApiServer, connect: Connect, api: Api
) -> None:
    await allocate(api, "n2")
    answer = await connect(server, "driver:n1").call("PATCH", f"{CLAIM}/status", DEVICE, content_type=MERGE)
    assert answer.status == 422
    assert "cannot arbitrary-node:patch resource" in answer.json["message"]


async def test_a_driver_does_not_allocate(server: ApiServer, connect: Connect, api: Api) -> None:
    await api.make(f"{DRA}/namespaces/default/resourceclaims", claim("a"))
    body = b'{"status":{"allocation":' + allocation() + b"}}"
    answer = await connect(server, "driver:n1").call("PATCH", f"{CLAIM}/status", body, content_type=MERGE)
    assert answer.status == 422
    assert 'resource="resourceclaims/binding"' in answer.json["message"]


async def test_a_forged_token_is_unauthorized(server: ApiServer, connect: Connect) -> None:
    node = connect(server, "node:n1")
    node.token = (
        server.kubeconfig()["users"][0]["user"]["token"].partition(".")[0] + "." + node.token.partition(".")[2]
    )
    assert (await node.call("GET", "/api/v1/nodes")).status == 401


async def test_a_kubeconfig_for_an_unknown_user_is_a_usage_error(server: ApiServer) -> None:
    with pytest.raises(UsageError, match="must be admin, node:NAME"):
        server.kubeconfig("somebody")


async def test_a_token_for_a_pod_is_bound_to_the_pods_node(
    server: ApiServer, connect: Connect, api: Api
) -> None:
    namespace = "/api/v1/namespaces/default"
    await api.make(f"{namespace}/pods", pod("p", nodeName="n1"))
    await api.call(
        "POST", f"{namespace}/serviceaccounts", {"kind": "ServiceAccount", "metadata": {"name": "default"}}
    )
    spec = {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "p"}}
    made = await api.make(f"{namespace}/serviceaccounts/default/token", {"kind": "TokenRequest", "spec": spec})
    driver = connect(server)
    driver.token = made["status"]["token"]
    await driver.make(SLICES, resource_slice("mine"))
    assert (await driver.call("POST", SLICES, resource_slice("other", nodeName="n2"))).status == 403


async def test_a_kubelet_writes_the_status_of_its_own_pods_only(
    server: ApiServer, connect: Connect, api: Api
) -> None:
    pods = "/api/v1/namespaces/default/pods"
    await api.make(pods, pod("mine", nodeName="n1"))
    await api.make(pods, pod("other", nodeName="n2"))
    kubelet = connect(server, "node:n1")
    running = {"status": {"phase": "Running"}}
    assert (await kubelet.call("PATCH", f"{pods}/mine/status", running, content_type=MERGE)).status == 200
    refused = await kubelet.call("PATCH", f"{pods}/other/status", running, content_type=MERGE)
    assert refused.status == 403
    assert (
        'node "n1" can only update pod status for pods with spec.nodeName set to itself'
        in refused.json["message"]
    )
    assert (await kubelet.call("DELETE", f"{pods}/other")).status == 403
    assert (await kubelet.call("DELETE", f"{pods}/mine")).status == 200


async def test_a_kubelet_cannot_change_the_claims_in_a_pods_status(
    server: ApiServer, connect: Connect, api: Api
) -> None:
    pods = "/api/v1/namespaces/default/pods"
    claims = [{"name": "c", "resourceClaimName": "x"}]
    await api.make(pods, pod("p", nodeName="n1", resourceClaims=claims))
    body = {"status": {"resourceClaimStatuses": claims}}
    refused = await connect(server, "node:n1").call("PATCH", f"{pods}/p/status", body, content_type=MERGE)
    assert (refused.status, "cannot update resource claim" in refused.json["message"]) == (403, True)
