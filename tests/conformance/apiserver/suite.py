"""The behavior of every API server here, in plain HTTP: the embedded one, and a real kube-apiserver 1.37.

A subclass gives the fixture `api`. No case may need more than a real server offers without its controllers.
"""

import asyncio
import json
import ssl
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest

Json = dict[str, Any]
DRA = "/apis/resource.k8s.io/v1"
CANONICAL = b'{"a":"x","b":1}'
# Rows of B1: how the stored parameters differ from Go's canonical JSON, and what JSON writes of
# the same status get.
BYTES = {
    "canonical": (CANONICAL, {"put": 200, "merge": 200, "strategic": 200, "apply": 200}),
    "unsorted": (b'{"b":1,"a":"x"}', {"put": 200, "merge": 200, "strategic": 422, "apply": 422}),
    "spaces": (b'{"a": "x", "b": 1}', {"put": 422, "merge": 422, "strategic": 422, "apply": 422}),
    "raw angle brackets": (b'{"a":"<x>","b":1}', {"put": 422, "merge": 422, "strategic": 422, "apply": 422}),
    "float": (b'{"a":"x","b":1.0}', {"put": 422, "merge": 200, "strategic": 422, "apply": 422}),
    "exponent": (b'{"a":"x","b":1e3}', {"put": 422, "merge": 200, "strategic": 422, "apply": 422}),
}
MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"
JSON_PATCH, APPLY = "application/json-patch+json", "application/apply-patch+yaml"


@dataclass
class Answer:
    """Status, headers and body of an answer."""

    status: int
    headers: Any
    raw: bytes

    @property
    def json(self) -> Json:
        return dict(json.loads(self.raw))


@dataclass
class Api:
    """A client that sends exactly what the test gives."""

    url: str
    context: ssl.SSLContext
    token: str
    session: aiohttp.ClientSession
    created: list[str] = field(default_factory=list)

    async def call(
        self, method: str, path: str, body: Json | list[Any] | bytes | None = None, **options: Any
    ) -> Answer:
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        headers = {
            "Authorization": f"Bearer {options.get('token', self.token)}",
            "Accept": options.get("accept", "application/json"),
            **options.get("headers", {}),
        }
        if data is not None:
            headers["Content-Type"] = options.get("content_type", "application/json")
        request = self.session.request(
            method, self.url + path, data=data, headers=headers, ssl=self.context, params=options.get("params")
        )
        async with request as response:
            return Answer(response.status, response.headers, await response.read())

    async def make(self, path: str, body: Json | bytes) -> Json:
        answer = await self.call("POST", path, body)
        assert answer.status == 201, answer.raw
        return answer.json

    async def watch(self, path: str, count: int, **params: str) -> list[Json]:
        """Return the first `count` events of a watch."""
        events: list[Json] = []
        headers = {"Authorization": f"Bearer {self.token}"}
        request = self.session.get(
            self.url + path,
            headers=headers,
            ssl=self.context,
            params={"watch": "1", "timeoutSeconds": "20", **params},
        )
        async with request as response:
            assert response.status == 200
            async for line in response.content:
                events.append(json.loads(line))
                if len(events) >= count:
                    break
        return events


def claim(name: str, parameters: bytes = CANONICAL) -> bytes:
    """Return a claim with one request, with its opaque parameters byte for byte."""
    head = json.dumps({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name}})
    spec = (
        b'{"devices":{"requests":[{"name":"r","exactly":{"deviceClassName":"c"}}],'
        b'"config":[{"opaque":{"driver":"d.example.com","parameters":' + parameters + b"}}]}}"
    )
    return head[:-1].encode() + b',"spec":' + spec + b"}"


def allocation(parameters: bytes = CANONICAL) -> bytes:
    """Return an allocation of one device, with its opaque parameters byte for byte."""
    return (
        b'{"devices":{"results":[{"request":"r","driver":"d.example.com","pool":"p","device":"dev-0"}],'
        b'"config":[{"source":"FromClaim","opaque":{"driver":"d.example.com","parameters":'
        + parameters
        + b"}}]}}"
    )


def resource_slice(name: str, **spec: Any) -> Json:
    """Return a slice of one device; keyword arguments replace fields of the spec."""
    return {
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name},
        "spec": {
            "driver": "d.example.com", "nodeName": "n1", "pool": {"name": "n1", "generation": 1,
            "resourceSliceCount": 1},
            "devices": [{"name": "dev-0"}], **spec,
        },
    }  # fmt: skip


def pod(name: str, **spec: Any) -> Json:
    """Return a pod of one container; keyword arguments add fields of the spec."""
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "busybox"}], **spec},
    }  # fmt: skip


def config_map(name: str, **metadata: Any) -> Json:
    """Return a small object of a kind without controllers."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}, "data": {"a": "1"}}


class ApiServerSuite:
    """The suite; see the module."""

    @pytest.fixture
    async def ns(self, api: Api) -> AsyncIterator[str]:
        name = f"suite-{uuid.uuid4().hex[:8]}"
        await api.make(
            "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        )
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        await api.call("POST", f"/api/v1/namespaces/{name}/serviceaccounts", account)
        yield name
        await api.call("DELETE", f"/api/v1/namespaces/{name}")

    @pytest.fixture
    def maps(self, ns: str) -> str:
        return f"/api/v1/namespaces/{ns}/configmaps"

    @pytest.fixture
    def pods(self, ns: str) -> str:
        return f"/api/v1/namespaces/{ns}/pods"

    @pytest.fixture
    def claims(self, ns: str) -> str:
        return f"{DRA}/namespaces/{ns}/resourceclaims"

    # --- who, what, where

    async def test_a_request_without_a_valid_token_is_unauthorized(self, api: Api) -> None:
        answer = await api.call("GET", "/api/v1/nodes", token="nonsense")
        assert (answer.status, answer.json["reason"]) == (401, "Unauthorized")

    async def test_health_and_version_are_served(self, api: Api) -> None:
        assert (await api.call("GET", "/readyz")).raw == b"ok"
        assert (await api.call("GET", "/version")).json["gitVersion"].startswith("v1.37")

    async def test_an_unknown_path_is_not_found(self, api: Api) -> None:
        assert (await api.call("GET", "/apis/none.example.com/v1/things")).status == 404
        assert (await api.call("GET", "/api/v1/nothings")).status == 404

    async def test_a_missing_object_is_named_in_the_refusal(self, api: Api, claims: str) -> None:
        answer = await api.call("GET", f"{claims}/none")
        assert answer.json["message"] == 'resourceclaims.resource.k8s.io "none" not found'
        assert answer.json["details"] == {"name": "none", "group": "resource.k8s.io", "kind": "resourceclaims"}

    async def test_discovery_lists_claims_with_their_status(self, api: Api) -> None:
        names = {each["name"] for each in (await api.call("GET", DRA)).json["resources"]}
        assert {"resourceclaims", "resourceclaims/status", "resourceslices", "deviceclasses"} <= names

    async def test_aggregated_discovery_is_served(self, api: Api) -> None:
        accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
        answer = await api.call("GET", "/apis", accept=accept)
        assert answer.json["kind"] == "APIGroupDiscoveryList"
        assert "resource.k8s.io" in {each["metadata"]["name"] for each in answer.json["items"]}

    async def test_a_table_has_the_columns_that_kubectl_prints(self, api: Api, claims: str) -> None:
        await api.make(claims, claim("a"))
        accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
        table = (await api.call("GET", claims, accept=accept)).json
        assert [each["name"] for each in table["columnDefinitions"]] == ["Name", "State", "Age"]
        assert table["rows"][0]["cells"][:2] == ["a", "pending"]
        assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"

    async def test_metadata_alone_can_be_listed(self, api: Api, maps: str) -> None:
        await api.make(maps, config_map("a"))
        accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
        items = (await api.call("GET", maps, accept=accept, params={"fieldSelector": "metadata.name=a"})).json[
            "items"
        ]
        assert items[0]["metadata"]["name"] == "a"
        assert "data" not in items[0]

    # --- create, replace, conflicts

    async def test_a_created_object_carries_what_the_server_sets(self, api: Api, maps: str) -> None:
        metadata = (await api.make(maps, config_map("a", uid="mine", resourceVersion="")))["metadata"]
        assert metadata["uid"] != "mine"
        assert int(metadata["resourceVersion"]) > 0
        assert metadata["creationTimestamp"].endswith("Z")

    async def test_a_second_create_is_rejected(self, api: Api, maps: str) -> None:
        await api.make(maps, config_map("a"))
        answer = await api.call("POST", maps, config_map("a"))
        assert (answer.status, answer.json["reason"]) == (409, "AlreadyExists")
        assert answer.json["message"] == 'configmaps "a" already exists'

    async def test_a_new_object_has_no_resource_version_yet(self, api: Api, maps: str) -> None:
        answer = await api.call("POST", maps, config_map("a", resourceVersion="5"))
        assert answer.json["message"] == "resourceVersion should not be set on objects to be created"

    async def test_generate_name_makes_a_new_name_each_time(self, api: Api, maps: str) -> None:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "g-"}}
        first, second = [(await api.make(maps, body))["metadata"]["name"] for _ in range(2)]
        assert first != second
        assert first.startswith("g-")

    async def test_a_missing_namespace_refuses_its_objects(self, api: Api) -> None:
        answer = await api.call("POST", "/api/v1/namespaces/none-such/configmaps", config_map("a"))
        assert (answer.status, answer.json["message"]) == (404, 'namespaces "none-such" not found')

    async def test_a_stale_resource_version_is_a_conflict(self, api: Api, maps: str) -> None:
        first = await api.make(maps, config_map("a"))
        assert (await api.call("PUT", f"{maps}/a", {**first, "data": {"a": "2"}})).status == 200
        answer = await api.call("PUT", f"{maps}/a", {**first, "data": {"a": "3"}})
        assert (answer.status, answer.json["reason"]) == (409, "Conflict")
        assert "the object has been modified" in answer.json["message"]

    async def test_a_replace_without_resource_version_always_wins(self, api: Api, maps: str) -> None:
        await api.make(maps, config_map("a"))
        assert (await api.call("PUT", f"{maps}/a", {**config_map("a"), "data": {"a": "9"}})).json["data"] == {
            "a": "9"
        }

    async def test_a_write_that_changes_nothing_keeps_the_resource_version(self, api: Api, maps: str) -> None:
        first = await api.make(maps, config_map("a"))
        again = await api.call("PUT", f"{maps}/a", first)
        assert again.json["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]

    async def test_dry_run_answers_and_stores_nothing(self, api: Api, maps: str) -> None:
        answer = await api.call("POST", maps, config_map("a"), params={"dryRun": "All"})
        assert answer.status == 201
        assert (await api.call("GET", f"{maps}/a")).status == 404

    async def test_unknown_fields_are_rejected_warned_of_or_dropped(self, api: Api, claims: str) -> None:
        body = json.loads(claim("a"))
        body["spec"]["nonsense"] = 1
        strict = await api.call("POST", claims, body, params={"fieldValidation": "Strict"})
        assert strict.status == 400
        assert 'unknown field "spec.nonsense"' in strict.json["message"]
        warned = await api.call("POST", claims, body, params={"fieldValidation": "Warn"})
        assert "nonsense" in warned.headers["Warning"]
        assert "nonsense" not in warned.json["spec"]

    async def test_a_value_of_the_wrong_type_is_a_bad_request(self, api: Api) -> None:
        answer = await api.call("POST", f"{DRA}/resourceslices", resource_slice("a", nodeName=7))
        assert (answer.status, answer.json["reason"]) == (400, "BadRequest")
        assert "cannot unmarshal number" in answer.json["message"]

    async def test_quantities_come_back_in_their_canonical_form(self, api: Api) -> None:
        name = f"q-{uuid.uuid4().hex[:8]}"
        devices = [{"name": "d", "capacity": {"memory": {"value": "2048Mi"}, "n": {"value": 16}}}]
        body = await api.make(f"{DRA}/resourceslices", resource_slice(name, devices=devices))
        assert body["spec"]["devices"][0]["capacity"] == {"memory": {"value": "2Gi"}, "n": {"value": "16"}}
        await api.call("DELETE", f"{DRA}/resourceslices/{name}")

    # --- patches

    async def test_a_merge_patch_sets_and_removes(self, api: Api, maps: str) -> None:
        await api.make(maps, config_map("a"))
        patch = {"data": {"a": None, "b": "2"}}
        answer = await api.call("PATCH", f"{maps}/a", patch, content_type=MERGE)
        assert answer.json["data"] == {"b": "2"}

    async def test_a_json_patch_is_all_or_nothing(self, api: Api, maps: str) -> None:
        await api.make(maps, config_map("a"))
        patch = [
            {"op": "test", "path": "/data/a", "value": "1"},
            {"op": "replace", "path": "/data/a", "value": "2"},
        ]
        assert (await api.call("PATCH", f"{maps}/a", patch, content_type=JSON_PATCH)).json["data"] == {"a": "2"}
        failed = await api.call("PATCH", f"{maps}/a", patch, content_type=JSON_PATCH)
        assert failed.status == 422
        assert (await api.call("GET", f"{maps}/a")).json["data"] == {"a": "2"}

    async def test_a_strategic_patch_merges_lists_by_key(self, api: Api, pods: str) -> None:
        await api.make(pods, pod("a"))
        patch = {"spec": {"containers": [{"name": "c", "image": "other"}]}}
        answer = await api.call("PATCH", f"{pods}/a", patch, content_type=STRATEGIC)
        assert [each["image"] for each in answer.json["spec"]["containers"]] == ["other"]
        conditions = {"status": {"conditions": [{"type": "A", "status": "True"}]}}
        await api.call("PATCH", f"{pods}/a/status", conditions, content_type=STRATEGIC)
        conditions["status"]["conditions"][0]["type"] = "B"
        both = await api.call("PATCH", f"{pods}/a/status", conditions, content_type=STRATEGIC)
        assert {each["type"] for each in both.json["status"]["conditions"]} == {"A", "B"}

    async def test_an_unknown_patch_type_is_refused(self, api: Api, maps: str) -> None:
        await api.make(maps, config_map("a"))
        assert (await api.call("PATCH", f"{maps}/a", {}, content_type="text/plain")).status == 415

    # --- server-side apply

    async def apply(self, api: Api, path: str, body: Json, manager: str, **params: str) -> Answer:
        return await api.call(
            "PATCH", path, body, content_type=APPLY, params={"fieldManager": manager, **params}
        )

    async def test_apply_creates_and_then_removes_what_is_no_longer_wanted(self, api: Api, maps: str) -> None:
        wanted = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "a"},
            "data": {"x": "1", "y": "1"},
        }
        assert (await self.apply(api, f"{maps}/a", wanted, "one")).status == 201
        answer = await self.apply(api, f"{maps}/a", {**wanted, "data": {"x": "1"}}, "one")
        assert (answer.status, answer.json["data"]) == (200, {"x": "1"})
        again = await self.apply(api, f"{maps}/a", {**wanted, "data": {"x": "1"}}, "one")
        assert again.json["metadata"] == answer.json["metadata"], "the same apply writes nothing"

    async def test_apply_conflicts_with_another_manager_unless_forced(self, api: Api, maps: str) -> None:
        wanted = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "1"}}
        await self.apply(api, f"{maps}/a", wanted, "one")
        other = {**wanted, "data": {"x": "2"}}
        refused = await self.apply(api, f"{maps}/a", other, "two")
        assert refused.status == 409
        assert 'conflict with "one"' in refused.json["message"]
        assert refused.json["details"]["causes"][0]["field"] == ".data.x"
        assert (await self.apply(api, f"{maps}/a", other, "two", force="true")).json["data"] == {"x": "2"}

    async def test_appliers_of_the_same_value_share_its_ownership(self, api: Api, maps: str) -> None:
        wanted = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "1"}}
        await self.apply(api, f"{maps}/a", wanted, "one")
        await self.apply(api, f"{maps}/a", wanted, "two")
        left = await self.apply(api, f"{maps}/a", {**wanted, "data": {}}, "one")
        assert left.json["data"] == {"x": "1"}

    async def test_an_update_takes_fields_from_an_applier(self, api: Api, maps: str) -> None:
        wanted = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "1"}}
        await self.apply(api, f"{maps}/a", wanted, "one")
        await api.call(
            "PATCH", f"{maps}/a", {"data": {"x": "2"}}, content_type=MERGE, params={"fieldManager": "editor"}
        )
        refused = await self.apply(api, f"{maps}/a", wanted, "one")
        assert refused.status == 409
        assert 'conflict with "editor"' in refused.json["message"]

    async def test_appliers_of_a_status_own_their_own_items(self, api: Api, claims: str) -> None:
        await api.make(claims, claim("a"))
        body = b'{"status":{"allocation":' + allocation() + b"}}"
        await api.call("PATCH", f"{claims}/a/status", body, content_type=MERGE)
        for manager, kind in (("one", "A"), ("two", "B")):
            status = {"devices": [{"driver": "d.example.com", "pool": "p", "device": "dev-0", "conditions": [
                {"type": kind, "status": "True", "reason": "R", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z"}
            ]}]}  # fmt: skip
            wanted = {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaim",
                "metadata": {"name": "a"},
                "status": status,
            }
            answer = await self.apply(api, f"{claims}/a/status", wanted, manager)
            assert answer.status == 200, answer.raw
        devices = (await api.call("GET", f"{claims}/a")).json["status"]["devices"]
        assert len(devices) == 1
        assert {each["type"] for each in devices[0]["conditions"]} == {"A", "B"}

    # --- lists and watches

    async def test_an_apply_names_fields_that_its_kind_does_not_have(self, api: Api, claims: str) -> None:
        head = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "a"}}
        answer = await self.apply(api, f"{claims}/a", {**head, "spec": {"nonsense": 1}}, "one")
        assert answer.status == 500
        assert ".spec.nonsense: field not declared in schema" in answer.json["message"]

    async def test_the_creator_of_a_map_owns_it(self, api: Api, maps: str) -> None:
        await api.make(maps, config_map("a", labels={"x": "1"}))
        made = (await api.call("GET", f"{maps}/a")).json["metadata"]["managedFields"][0]["fieldsV1"]
        assert made["f:metadata"] == {"f:labels": {".": {}, "f:x": {}}}

    async def test_lists_are_paged_consistently(self, api: Api, maps: str) -> None:
        for index in range(5):
            await api.make(maps, config_map(f"m{index}"))
        params = {"limit": "2", "labelSelector": "!none", "fieldSelector": "metadata.name!=kube-root-ca.crt"}
        first = (await api.call("GET", maps, params=params)).json
        await api.make(maps, config_map("m9"))
        names, page = [each["metadata"]["name"] for each in first["items"]], first
        while page["metadata"].get("continue"):
            page = (
                await api.call("GET", maps, params={**params, "continue": page["metadata"]["continue"]})
            ).json
            names += [each["metadata"]["name"] for each in page["items"]]
        assert names == [f"m{index}" for index in range(5)]

    async def test_labels_and_fields_select(self, api: Api, maps: str) -> None:
        await api.make(maps, config_map("a", labels={"x": "1"}))
        await api.make(maps, config_map("b", labels={"x": "2"}))
        await api.make(maps, config_map("c", labels={"y": "1"}))

        async def names(**params: str) -> set[str]:
            return {
                each["metadata"]["name"] for each in (await api.call("GET", maps, params=params)).json["items"]
            }

        assert await names(labelSelector="x in (1,2),x!=2") == {"a"}
        assert await names(labelSelector="x") == {"a", "b"}
        assert await names(labelSelector="!x,y=1") == {"c"}
        assert await names(fieldSelector="metadata.name=b") == {"b"}

    async def test_an_unknown_field_label_is_a_bad_request(self, api: Api) -> None:
        answer = await api.call("GET", f"{DRA}/resourceslices", params={"fieldSelector": "spec.nonsense=1"})
        assert answer.status == 400
        assert "field label not supported" in answer.json["message"]

    async def test_slices_are_selected_by_node_driver_and_pool(self, api: Api) -> None:
        name = f"s-{uuid.uuid4().hex[:8]}"
        await api.make(f"{DRA}/resourceslices", resource_slice(name, nodeName=name))
        for selector in (f"spec.nodeName={name}", f"spec.driver=d.example.com,metadata.name={name}"):
            items = (await api.call("GET", f"{DRA}/resourceslices", params={"fieldSelector": selector})).json[
                "items"
            ]
            assert [each["metadata"]["name"] for each in items] == [name]
        await api.call("DELETE", f"{DRA}/resourceslices", params={"fieldSelector": f"spec.nodeName={name}"})
        assert (await api.call("GET", f"{DRA}/resourceslices/{name}")).status == 404

    async def test_a_watch_reports_every_change_once_in_order(self, api: Api, maps: str) -> None:
        start = (await api.call("GET", maps)).json["metadata"]["resourceVersion"]
        watching = asyncio.create_task(
            api.watch(maps, 3, resourceVersion=start, fieldSelector="metadata.name=a")
        )
        await api.make(maps, config_map("a"))
        await api.make(maps, config_map("other"))
        await api.call("PATCH", f"{maps}/a", {"data": {"a": "2"}}, content_type=MERGE)
        await api.call("DELETE", f"{maps}/a")
        events = await watching
        assert [each["type"] for each in events] == ["ADDED", "MODIFIED", "DELETED"]
        versions = [int(each["object"]["metadata"]["resourceVersion"]) for each in events]
        assert versions == sorted(set(versions))

    async def test_an_object_that_leaves_the_selection_is_deleted_in_the_watch(
        self, api: Api, maps: str
    ) -> None:
        made = await api.make(maps, config_map("a", labels={"x": "1"}))
        patch = {"metadata": {"labels": {"x": "2"}}}
        await api.call("PATCH", f"{maps}/a", patch, content_type=MERGE)
        events = await api.watch(
            maps, 1, resourceVersion=made["metadata"]["resourceVersion"], labelSelector="x=1"
        )
        assert [each["type"] for each in events] == ["DELETED"]

    async def test_a_watch_can_begin_with_the_current_state(self, api: Api, maps: str) -> None:
        await api.make(maps, config_map("a"))
        params = {
            "sendInitialEvents": "true",
            "resourceVersionMatch": "NotOlderThan",
            "allowWatchBookmarks": "true",
        }
        events = await api.watch(maps, 2, fieldSelector="metadata.name=a", **params)
        assert [each["type"] for each in events] == ["ADDED", "BOOKMARK"]
        assert events[1]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}

    async def test_a_list_of_a_future_revision_is_rejected(self, api: Api, maps: str) -> None:
        answer = await api.call(
            "GET", maps, params={"resourceVersion": "999999999", "resourceVersionMatch": "NotOlderThan"}
        )
        assert (answer.status, answer.json["reason"]) == (504, "Timeout")

    # --- deletion

    async def test_an_object_with_finalizers_is_deleted_after_the_last_one(self, api: Api, maps: str) -> None:
        await api.make(maps, config_map("a", finalizers=["example.com/hold"]))
        assert "deletionTimestamp" in (await api.call("DELETE", f"{maps}/a")).json["metadata"]
        more = {"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}}
        assert (await api.call("PATCH", f"{maps}/a", more, content_type=MERGE)).status == 422
        await api.call("PATCH", f"{maps}/a", {"metadata": {"finalizers": None}}, content_type=MERGE)
        assert (await api.call("GET", f"{maps}/a")).status == 404

    async def test_a_delete_with_a_failed_precondition_is_rejected(self, api: Api, maps: str) -> None:
        await api.make(maps, config_map("a"))
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": "other"}}
        assert (await api.call("DELETE", f"{maps}/a", options)).status == 409
        assert (await api.call("GET", f"{maps}/a")).status == 200

    async def test_a_pod_without_a_node_is_deleted_at_once(self, api: Api, pods: str) -> None:
        await api.make(pods, pod("a"))
        await api.call("DELETE", f"{pods}/a")
        assert (await api.call("GET", f"{pods}/a")).status == 404

    async def test_the_deletion_of_a_pod_on_a_node_waits_for_its_kubelet(self, api: Api, pods: str) -> None:
        await api.make(pods, pod("a", nodeName="n1"))
        metadata = (await api.call("DELETE", f"{pods}/a")).json["metadata"]
        assert metadata["deletionGracePeriodSeconds"] == 30
        now = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}
        await api.call("DELETE", f"{pods}/a", now)
        assert (await api.call("GET", f"{pods}/a")).status == 404

    async def test_a_selection_is_deleted_at_once(self, api: Api, maps: str) -> None:
        await api.make(maps, config_map("a", labels={"x": "1"}))
        await api.make(maps, config_map("b"))
        await api.call("DELETE", maps, params={"labelSelector": "x=1"})
        assert (await api.call("GET", f"{maps}/a")).status == 404
        assert (await api.call("GET", f"{maps}/b")).status == 200

    # --- pods

    async def test_binding_sets_the_node_once(self, api: Api, pods: str) -> None:
        await api.make(pods, pod("a"))
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": "a"},
            "target": {"kind": "Node", "name": "n1"},
        }
        assert (await api.call("POST", f"{pods}/a/binding", binding)).status == 201
        bound = (await api.call("GET", f"{pods}/a")).json
        assert bound["spec"]["nodeName"] == "n1"
        assert ("PodScheduled", "True") in {
            (each["type"], each["status"]) for each in bound["status"]["conditions"]
        }
        again = await api.call("POST", f"{pods}/a/binding", binding)
        assert again.status == 409
        assert 'already assigned to node "n1"' in again.json["message"]

    async def test_binding_checks_the_uid_and_the_version_that_it_names(self, api: Api, pods: str) -> None:
        made = (await api.make(pods, pod("a")))["metadata"]
        labels = {"metadata": {"labels": {"changed": "yes"}}}
        changed = (await api.call("PATCH", f"{pods}/a", labels, content_type=MERGE)).json["metadata"]
        outcomes = []
        for precondition in (
            {"uid": "another"},
            {"uid": made["uid"], "resourceVersion": made["resourceVersion"]},
            {"uid": made["uid"], "resourceVersion": changed["resourceVersion"]},
        ):
            binding = {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": "a", **precondition},
                "target": {"kind": "Node", "name": "n1"},
            }
            answer = await api.call("POST", f"{pods}/a/binding", binding)
            outcomes.append((answer.status, "Precondition failed" in answer.json.get("message", "")))
        assert outcomes == [(409, True), (409, True), (201, False)]

    async def test_spec_and_status_are_written_separately(self, api: Api, pods: str) -> None:
        made = await api.make(pods, {**pod("a"), "status": {"phase": "Running"}})
        assert made["status"]["phase"] == "Pending"
        made["status"]["phase"] = "Running"
        made["spec"]["nodeName"] = "n9"
        updated = (await api.call("PUT", f"{pods}/a/status", made)).json
        assert (updated["status"]["phase"], "nodeName" in updated["spec"]) == ("Running", False)

    async def test_most_fields_of_the_spec_of_a_pod_are_immutable(self, api: Api, pods: str) -> None:
        made = await api.make(pods, pod("a"))
        made["spec"]["hostNetwork"] = True
        answer = await api.call("PUT", f"{pods}/a", made)
        assert answer.status == 422
        assert answer.json["message"].startswith(
            'Pod "a" is invalid: spec: Forbidden: pod updates may not change fields'
        )

    # --- resource.k8s.io

    async def test_claims_are_defaulted(self, api: Api, claims: str) -> None:
        made = await api.make(claims, claim("a"))
        assert made["spec"]["devices"]["requests"][0]["exactly"] == {
            "deviceClassName": "c", "allocationMode": "ExactCount", "count": 1,
        }  # fmt: skip

    async def test_the_spec_of_a_claim_is_immutable(self, api: Api, claims: str) -> None:
        made = await api.make(claims, claim("a"))
        made["spec"]["devices"]["requests"][0]["exactly"]["count"] = 2
        answer = await api.call("PUT", f"{claims}/a", made)
        assert answer.status == 422
        assert "field is immutable" in answer.json["message"]
        assert answer.json["details"]["causes"][0]["field"] == "spec"

    async def test_every_broken_rule_of_a_slice_is_named(self, api: Api) -> None:
        body = resource_slice(
            "bad", devices=[{"name": "Bad.Name"}, {"name": "d", "attributes": {"v": {"version": "x"}}}]
        )
        body["spec"]["pool"]["resourceSliceCount"] = 0
        answer = await api.call("POST", f"{DRA}/resourceslices", body)
        assert (answer.status, answer.json["reason"]) == (422, "Invalid")
        fields = {each["field"] for each in answer.json["details"]["causes"]}
        assert fields == {
            "spec.pool.resourceSliceCount", "spec.devices[0].name", "spec.devices[1].attributes[v].version",
        }  # fmt: skip

    async def test_exactly_one_node_selection_is_required(self, api: Api) -> None:
        body = resource_slice("bad", allNodes=True)
        answer = await api.call("POST", f"{DRA}/resourceslices", body)
        assert (
            "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
            in answer.json["message"]
        )

    async def test_counters_and_devices_are_in_separate_slices(self, api: Api) -> None:
        counters = [{"name": "set", "counters": {"memory": {"value": "1Gi"}}}]
        answer = await api.call("POST", f"{DRA}/resourceslices", resource_slice("bad", sharedCounters=counters))
        assert "only one of `sharedCounters` or `devices` is allowed" in answer.json["message"]

    async def test_a_slice_holds_128_devices_or_64_that_consume_counters(self, api: Api) -> None:
        plain = [{"name": f"d{index}"} for index in range(129)]
        answer = await api.call("POST", f"{DRA}/resourceslices", resource_slice("bad", devices=plain))
        assert "spec.devices: Too many: 129: must have at most 128 items" in answer.json["message"]
        uses = [{"counterSet": "set", "counters": {"m": {"value": "1"}}}]
        consuming = [{"name": f"d{index}", "consumesCounters": uses} for index in range(65)]
        answer = await api.call("POST", f"{DRA}/resourceslices", resource_slice("bad", devices=consuming))
        assert "must have at most 64 items" in answer.json["message"]

    async def test_binding_conditions_need_failure_conditions(self, api: Api) -> None:
        devices = [{"name": "d", "bindingConditions": ["a"]}]
        answer = await api.call("POST", f"{DRA}/resourceslices", resource_slice("bad", devices=devices))
        assert "bindingFailureConditions are required to use bindingConditions" in answer.json["message"]

    async def test_a_changed_slice_counts_its_generation(self, api: Api) -> None:
        name = f"s-{uuid.uuid4().hex[:8]}"
        made = await api.make(f"{DRA}/resourceslices", resource_slice(name))
        made["spec"]["pool"]["generation"] = 2
        changed = (await api.call("PUT", f"{DRA}/resourceslices/{name}", made)).json
        assert (made["metadata"]["generation"], changed["metadata"]["generation"]) == (1, 2)
        await api.call("DELETE", f"{DRA}/resourceslices/{name}")

    async def test_device_status_is_removed_with_the_allocation(self, api: Api, claims: str) -> None:
        await api.make(claims, claim("a"))
        status = json.loads(b'{"status":{"allocation":' + allocation() + b"}}")
        status["status"]["devices"] = [
            {"driver": "d.example.com", "pool": "p", "device": "dev-0", "data": {"k": 1}}
        ]
        status["status"]["reservedFor"] = [{"resource": "pods", "name": "p", "uid": "u"}]
        assert (await api.call("PATCH", f"{claims}/a/status", status, content_type=MERGE)).status == 200
        refused = await api.call(
            "PATCH", f"{claims}/a/status", {"status": {"allocation": None}}, content_type=MERGE
        )
        assert "reservedFor" in refused.json["message"]
        gone = {"status": {"allocation": None, "reservedFor": None}}
        left = (await api.call("PATCH", f"{claims}/a/status", gone, content_type=MERGE)).json
        assert left.get("status", {}) == {}

    async def test_an_allocation_never_changes(self, api: Api, claims: str) -> None:
        await api.make(claims, claim("a"))
        body = b'{"status":{"allocation":' + allocation() + b"}}"
        made = (await api.call("PATCH", f"{claims}/a/status", body, content_type=MERGE)).json
        made["status"]["allocation"]["devices"]["results"][0]["device"] = "dev-1"
        answer = await api.call("PUT", f"{claims}/a/status", made)
        assert answer.status == 422
        assert "field cannot be modified once set" in answer.json["message"]

    async def test_an_allocation_without_a_time_never_gets_one(self, api: Api, claims: str) -> None:
        """kube-scheduler tries that with the next reservation (`bindClaim`)."""
        await api.make(claims, claim("a"))
        body = b'{"status":{"allocation":' + allocation() + b"}}"
        made = (await api.call("PATCH", f"{claims}/a/status", body, content_type=MERGE)).json
        made["status"]["allocation"]["allocationTimestamp"] = "2026-01-01T00:00:00Z"
        made["status"]["reservedFor"] = [{"resource": "pods", "name": "p", "uid": "u"}]
        answer = await api.call("PUT", f"{claims}/a/status", made)
        assert answer.status == 422
        assert "field cannot be modified once set" in answer.json["message"]

    @pytest.mark.parametrize("way", ["put", "merge", "strategic", "apply"])
    @pytest.mark.parametrize("stored", list(BYTES))
    async def test_opaque_parameters_are_compared_byte_by_byte(
        self, api: Api, claims: str, stored: str, way: str
    ) -> None:
        """The allocation was stored with these bytes; a client adds device entries to the status."""
        parameters, expected = BYTES[stored]
        made = await api.make(claims, claim("a"))
        status = b'"status":{"allocation":' + allocation(parameters) + b"}"
        body = json.dumps({key: made[key] for key in ("apiVersion", "kind", "metadata", "spec")}).encode()
        put = await api.call("PUT", f"{claims}/a/status", body[:-1] + b"," + status + b"}")
        assert put.status == 200, put.raw
        devices = [{"driver": "d.example.com", "pool": "p", "device": "dev-0"}]
        answer = await self.write_status(api, f"{claims}/a", way, devices)
        assert answer.status == expected[way], answer.raw

    @pytest.mark.parametrize(("way", "strategic"), [("merge", 200), ("strategic", 200), ("json", 422)], ids=str)
    async def test_a_patch_with_parameters_sets_their_bytes(
        self, api: Api, claims: str, way: str, strategic: int
    ) -> None:
        """A merge patch sorts their keys, so that later patches pass; a JSON patch keeps the order."""
        await api.make(claims, claim("a"))
        value = allocation(b'{"b": 1, "a": "<"}')
        kind = {"merge": MERGE, "strategic": STRATEGIC, "json": JSON_PATCH}[way]
        body = b'{"status":{"allocation":' + value + b"}}"
        if way == "json":
            body = b'[{"op":"add","path":"/status/allocation","value":' + value + b"}]"
        answer = await api.call("PATCH", f"{claims}/a/status", body, content_type=kind)
        stored = b'{"b":1,"a":"\\u003c"}' if way == "json" else b'{"a":"\\u003c","b":1}'
        assert stored in answer.raw
        devices = [{"driver": "d.example.com", "pool": "p", "device": "dev-0"}]
        assert (await self.write_status(api, f"{claims}/a", "strategic", devices)).status == strategic

    async def write_status(self, api: Api, path: str, way: str, devices: list[Json]) -> Answer:
        if way == "put":
            current = (await api.call("GET", path)).json
            current["status"]["devices"] = devices
            # As a Go client: compact, escaped, Go's numbers (1.0 is written 1).
            text = json.dumps(go_numbers(current), separators=(",", ":"))
            return await api.call(
                "PUT", f"{path}/status", text.replace("<", "\\u003c").replace(">", "\\u003e").encode()
            )
        if way == "apply":
            head = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "a"}}
            return await self.apply(api, f"{path}/status", {**head, "status": {"devices": devices}}, "driver")
        kind = MERGE if way == "merge" else STRATEGIC
        return await api.call("PATCH", f"{path}/status", {"status": {"devices": devices}}, content_type=kind)

    # --- custom resources

    async def test_a_custom_kind_is_served_with_its_status(self, api: Api) -> None:
        group = f"g{uuid.uuid4().hex[:8]}.example.com"
        schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
        definition = {
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": f"things.{group}"},
            "spec": {
                "group": group, "scope": "Cluster", "names": {"plural": "things",
                "kind": "Thing", "singular": "thing"},
                "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema,
                "subresources": {"status": {}}}],
            },
        }  # fmt: skip
        await api.make("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
        path = f"/apis/{group}/v1/things"
        for _ in range(100):
            if (await api.call("GET", path)).status == 200:
                break
            await asyncio.sleep(0.1)
        thing = {
            "apiVersion": f"{group}/v1",
            "kind": "Thing",
            "metadata": {"name": "a"},
            "spec": {"x": 1},
            "status": {"y": 1},
        }
        made = await api.make(path, thing)
        assert "status" not in made
        status = {"status": {"y": 2}, "spec": {"x": 2}}
        changed = (await api.call("PATCH", f"{path}/a/status", status, content_type=MERGE)).json
        assert (changed["status"], changed["spec"]) == ({"y": 2}, {"x": 1})
        await api.call("DELETE", f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.{group}")

    async def test_a_protected_group_needs_an_approval(self, api: Api) -> None:
        schema = {"openAPIV3Schema": {"type": "object"}}
        definition = {
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "things.none.k8s.io"},
            "spec": {
                "group": "none.k8s.io", "scope": "Cluster", "names": {"plural": "things", "kind": "Thing"},
                "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
            },
        }  # fmt: skip
        answer = await api.call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
        assert answer.status == 422
        assert "api-approved.kubernetes.io" in answer.json["message"]


def go_numbers(value: Any) -> Any:
    """Return the value with Go's numbers: a float without a fraction is an integer."""
    if isinstance(value, dict):
        return {key: go_numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [go_numbers(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
