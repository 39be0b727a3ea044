"""Special behavior of pods, nodes, events, leases and secrets."""

from collections.abc import AsyncIterator, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from dradriver.cluster.apiserver.backend import ServerParts
from dradriver.cluster.apiserver.kinds.gates import FeatureGates
from dradriver.cluster.apiserver.kinds.resources import EVENTS, Registry, get_schema
from dradriver.cluster.apiserver.storage.expiry import EventExpiry
from dradriver.cluster.apiserver.storage.persist import Database
from dradriver.cluster.apiserver.storage.store import Store
from tests.conformance.apiserver.suite import MERGE, STRATEGIC, Api, config_map, pod

Json = dict[str, Any]
DEFAULT = "/api/v1/namespaces/default"
PODS = f"{DEFAULT}/pods"
EVENT = {
    "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "default"},
    "message": "M", "reason": "R", "type": "Normal",
    "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"}, "count": 2,
}  # fmt: skip


async def test_events_are_the_same_objects_in_both_groups(api: Api) -> None:
    await api.make(f"{DEFAULT}/events", EVENT)
    newer = (await api.call("GET", "/apis/events.k8s.io/v1/namespaces/default/events/e")).json
    assert (newer["apiVersion"], newer["note"], newer["regarding"]["name"]) == ("events.k8s.io/v1", "M", "p")
    assert newer["deprecatedCount"] == 2
    for path, field in (
        (f"{DEFAULT}/events", "involvedObject.name"),
        ("/apis/events.k8s.io/v1/events", "regarding.name"),
    ):
        items = (await api.call("GET", path, params={"fieldSelector": f"{field}=p"})).json["items"]
        assert len(items) == 1
    patch = {"note": "changed"}
    await api.call("PATCH", "/apis/events.k8s.io/v1/namespaces/default/events/e", patch, content_type=MERGE)
    assert (await api.call("GET", f"{DEFAULT}/events/e")).json["message"] == "changed"


async def test_an_event_must_be_in_the_namespace_of_its_object(api: Api) -> None:
    wrong = {**EVENT, "involvedObject": {"kind": "Pod", "name": "p", "namespace": "other"}}
    answer = await api.call("POST", f"{DEFAULT}/events", wrong)
    assert "does not match event.namespace" in answer.json["message"]


NOON = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)


def server_with_events(database: Database, minutes: Iterable[int]) -> ServerParts:
    """Return a server at noon, with events created these numbers of minutes before."""
    server = ServerParts(Store(database, 10, get_schema), Registry(), FeatureGates(), None, lambda: NOON)
    for each in minutes:
        made = (NOON - timedelta(minutes=each)).strftime("%Y-%m-%dT%H:%M:%SZ")
        metadata = {"name": f"e{each}", "namespace": "default", "uid": str(each), "creationTimestamp": made}
        server.store.put(EVENTS, {**EVENT, "metadata": metadata})
    return server


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    opened = Database(tmp_path / "state.db")
    opened.open()
    yield opened
    await opened.close()


async def test_events_expire_after_an_hour(database: Database) -> None:
    server = server_with_events(database, (59, 61))
    EventExpiry(server).expire()
    assert [each.key[1] for each in server.store.all(EVENTS)] == ["e59"]


async def test_only_the_newest_events_are_kept(database: Database) -> None:
    server = server_with_events(database, (5, 1, 40, 3, 2))
    EventExpiry(server, 3).expire()
    assert [each.key[1] for each in server.store.all(EVENTS)] == ["e1", "e2", "e3"]


async def test_a_repeated_event_does_not_expire(database: Database) -> None:
    server = server_with_events(database, (61, 62, 30))
    again = server.store.all(EVENTS)[1].object
    server.store.put(EVENTS, {**again, "lastTimestamp": "2026-01-01T11:59:00Z"})
    EventExpiry(server, 1).expire()
    assert [each.key[1] for each in server.store.all(EVENTS)] == ["e61"]


async def test_the_times_of_a_lease_keep_their_microseconds(api: Api) -> None:
    lease = {
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"},
        "spec": {"holderIdentity": "h", "renewTime": "2026-01-01T00:00:00.5+02:00"},
    }  # fmt: skip
    made = await api.make("/apis/coordination.k8s.io/v1/namespaces/default/leases", lease)
    assert made["spec"]["renewTime"] == "2025-12-31T22:00:00.500000Z"


async def test_an_invalid_time_is_a_bad_request(api: Api) -> None:
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "l"},
        "spec": {"renewTime": "soon"},
    }
    answer = await api.call("POST", "/apis/coordination.k8s.io/v1/namespaces/default/leases", lease)
    assert (answer.status, 'parsing time "soon"' in answer.json["message"]) == (400, True)


async def test_plain_strings_of_a_secret_become_data(api: Api) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"a": "b"}}
    made = await api.make(f"{DEFAULT}/secrets", secret)
    assert (made["data"], made["type"], "stringData" in made) == ({"a": "Yg=="}, "Opaque", False)


async def test_pods_are_defaulted(api: Api) -> None:
    spec = (await api.make(PODS, pod("a")))["spec"]
    assert (spec["restartPolicy"], spec["schedulerName"], spec["terminationGracePeriodSeconds"]) == (
        "Always",
        "default-scheduler",
        30,
    )
    assert spec["containers"][0]["imagePullPolicy"] == "Always"
    assert {each["key"] for each in spec["tolerations"]} == {
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    }


async def test_a_pod_without_containers_or_with_unknown_claims_is_rejected(api: Api) -> None:
    bad = pod("a", resourceClaims=[{"name": "x"}])
    bad["spec"]["containers"][0]["resources"] = {"claims": [{"name": "other"}]}
    fields = {each["field"] for each in (await api.call("POST", PODS, bad)).json["details"]["causes"]}
    assert fields == {"spec.resourceClaims[0]", "spec.containers[0].resources.claims[0]"}
    assert "spec.containers" in (await api.call("POST", PODS, {**pod("a"), "spec": {}})).json["message"]


async def test_the_special_claim_in_a_pods_status_cannot_be_removed(api: Api) -> None:
    resources = {"limits": {"example.com/gpu": "1"}}
    await api.make(PODS, pod("a", containers=[{"name": "c", "image": "i", "resources": resources}]))
    mapping = {"containerName": "c", "requestName": "r", "resourceName": "example.com/gpu"}
    special = {"resourceClaimName": "x", "requestMappings": [mapping]}
    await api.call(
        "PATCH",
        f"{PODS}/a/status",
        {"status": {"extendedResourceClaimStatus": special}},
        content_type=STRATEGIC,
    )
    undone = await api.call(
        "PATCH", f"{PODS}/a/status", {"status": {"extendedResourceClaimStatus": None}}, content_type=MERGE
    )
    assert undone.json["status"]["extendedResourceClaimStatus"] == special
    empty = {"status": {"extendedResourceClaimStatus": {**special, "requestMappings": []}}}
    assert (await api.call("PATCH", f"{PODS}/a/status", empty, content_type=MERGE)).status == 422


async def test_a_gated_pod_is_not_bound(api: Api) -> None:
    await api.make(PODS, pod("a", schedulingGates=[{"name": "example.com/wait"}]))
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "a"}, "target": {"name": "n"}}
    refused = await api.call("POST", f"{PODS}/a/binding", binding)
    assert (refused.status, "schedulingGates" in refused.json["message"]) == (409, True)
    await api.call("PATCH", f"{PODS}/a", {"spec": {"schedulingGates": None}}, content_type=MERGE)
    assert (await api.call("POST", f"{PODS}/a/binding", binding)).status == 201


async def test_a_finished_pod_is_deleted_at_once(api: Api) -> None:
    await api.make(PODS, pod("a", nodeName="n"))
    await api.call("PATCH", f"{PODS}/a/status", {"status": {"phase": "Succeeded"}}, content_type=MERGE)
    await api.call("DELETE", f"{PODS}/a")
    assert (await api.call("GET", f"{PODS}/a")).status == 404


async def test_only_a_shorter_grace_period_changes_a_pending_deletion(api: Api) -> None:
    await api.make(PODS, pod("a", nodeName="n"))

    async def grace(seconds: int) -> int:
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": seconds}
        return int(
            (await api.call("DELETE", f"{PODS}/a", options)).json["metadata"]["deletionGracePeriodSeconds"]
        )

    assert [await grace(20), await grace(60), await grace(5)] == [20, 20, 5]


async def test_a_nodes_status_and_spec_are_written_separately(api: Api) -> None:
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n"},
        "status": {"capacity": {"cpu": "2000m"}},
    }
    made = await api.make("/api/v1/nodes", node)
    assert made["status"]["capacity"] == made["status"]["allocatable"] == {"cpu": "2"}
    await api.call(
        "PATCH",
        "/api/v1/nodes/n",
        {"spec": {"unschedulable": True}, "status": {"phase": "x"}},
        content_type=MERGE,
    )
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}, "spec": {"unschedulable": False}}
    changed = (await api.call("PATCH", "/api/v1/nodes/n/status", ready, content_type=STRATEGIC)).json
    assert (changed["spec"]["unschedulable"], "phase" in changed["status"]) == (True, False)
    items = (await api.call("GET", "/api/v1/nodes", params={"fieldSelector": "spec.unschedulable=true"})).json[
        "items"
    ]
    assert [each["metadata"]["name"] for each in items] == ["n"]


async def test_bad_query_numbers_and_bodies_are_bad_requests(api: Api) -> None:
    maps = f"{DEFAULT}/configmaps"
    assert (await api.call("GET", maps, params={"limit": "many"})).status == 400
    assert (await api.call("POST", maps, b"{")).status == 400
    assert (await api.call("POST", maps, b"[]")).status == 400
    assert (await api.call("POST", maps, config_map("a"), content_type="text/plain")).status == 415
    assert (await api.call("GET", maps, accept="application/xml")).status == 406
    assert (await api.call("PUT", maps, config_map("a"))).status == 405
    assert (await api.call("POST", maps, {**config_map("a"), "kind": "Secret"})).status == 400


@pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")
async def test_a_body_that_is_too_large_is_rejected(api: Api) -> None:
    big = {**config_map("a"), "data": {"a": "x" * (3 * 1024 * 1024)}}
    answer = await api.call("POST", f"{DEFAULT}/configmaps", big)
    assert (answer.status, answer.json["reason"]) == (413, "RequestEntityTooLarge")


async def test_names_and_labels_are_checked(api: Api) -> None:
    answer = await api.call("POST", f"{DEFAULT}/configmaps", config_map("Not_A_Name", labels={"bad key": "x"}))
    assert {each["field"] for each in answer.json["details"]["causes"]} == {"metadata.name", "metadata.labels"}
