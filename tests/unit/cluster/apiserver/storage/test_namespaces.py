"""Namespaces: the initial ones, their service accounts, and deletion."""

import asyncio

from tests.conformance.apiserver.suite import MERGE, Api, config_map, pod

NAMESPACES = "/api/v1/namespaces"


async def until(api: Api, path: str, status: int) -> None:
    """Wait until a path answers with a status. The test's own time limit ends the wait."""
    while (await api.call("GET", path)).status != status:
        await asyncio.sleep(0.005)


async def test_a_new_cluster_has_the_usual_namespaces(api: Api) -> None:
    names = {each["metadata"]["name"] for each in (await api.call("GET", NAMESPACES)).json["items"]}
    assert names == {"default", "kube-system", "kube-public", "kube-node-lease"}


async def test_a_namespace_gets_its_service_account(api: Api) -> None:
    await api.make(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}})
    await until(api, f"{NAMESPACES}/a/serviceaccounts/default", 200)


async def test_a_deleted_namespace_is_emptied_and_removed(api: Api) -> None:
    await api.make(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}})
    await api.make(f"{NAMESPACES}/a/configmaps", config_map("m"))
    await api.make(f"{NAMESPACES}/a/pods", pod("p"))
    answer = await api.call("DELETE", f"{NAMESPACES}/a")
    assert answer.json["status"]["phase"] == "Terminating"
    await until(api, f"{NAMESPACES}/a", 404)
    assert (await api.call("GET", "/api/v1/configmaps")).json["items"] == []


async def test_a_terminating_namespace_rejects_new_objects_and_waits_for_finalizers(api: Api) -> None:
    await api.make(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}})
    await api.make(f"{NAMESPACES}/a/configmaps", config_map("m", finalizers=["example.com/hold"]))
    await api.call("DELETE", f"{NAMESPACES}/a")
    refused = await api.call("POST", f"{NAMESPACES}/a/configmaps", config_map("late"))
    assert refused.status == 403
    assert "because it is being terminated" in refused.json["message"]
    assert refused.json["details"]["causes"][0]["reason"] == "NamespaceTerminating"
    await api.call(
        "PATCH", f"{NAMESPACES}/a/configmaps/m", {"metadata": {"finalizers": None}}, content_type=MERGE
    )
    await until(api, f"{NAMESPACES}/a", 404)


async def test_system_namespaces_cannot_be_deleted(api: Api) -> None:
    assert (await api.call("DELETE", f"{NAMESPACES}/kube-system")).status == 403
