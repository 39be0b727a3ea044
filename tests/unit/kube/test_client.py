"""The request and the result of each call of the client."""

import pytest

from dradriver.kube import CLAIMS, PODS, SLICES, AlreadyExists, Client, Conflict, Invalid, NotFound, PatchKind
from dradriver.model.core.meta import ObjectMeta
from dradriver.model.resource.device import Device
from dradriver.model.resource.slices import PoolReference, ResourceSlice, ResourceSliceSpec
from tests.unit.kube.scripted import Answer, ScriptedServer, status

SLICE = ResourceSlice(
    metadata=ObjectMeta(name="s"),
    spec=ResourceSliceSpec(
        driver="d.example.com",
        pool=PoolReference(name="p", generation=1, resource_slice_count=1),
        devices=[Device("gpu-0", {"model": "<A&B>"})],
    ),
)
SLICES_PATH = "/apis/resource.k8s.io/v1/resourceslices"
POD = {"metadata": {"name": "p", "namespace": "n"}}


async def test_get_decodes_into_the_wanted_type(server: ScriptedServer, client: Client) -> None:
    server.serves("v1")
    server.on("GET", f"{SLICES_PATH}/s", Answer(body={"metadata": {"name": "s"}, "spec": _spec()}))
    got = await client.get(SLICES, "s", into=ResourceSlice)
    assert got.spec.devices == [Device("gpu-0")]
    raw = await client.get(SLICES, "s", into=dict)
    assert raw["spec"]["driver"] == "d"
    assert (await client.get(SLICES, "s", into=bytes)).startswith(b"{")


async def test_a_body_is_canonical_json_with_its_kind(server: ScriptedServer, client: Client) -> None:
    server.serves("v1")
    server.on("POST", SLICES_PATH, Answer(201, {"metadata": {"name": "s"}, "spec": _spec()}))
    await client.create(SLICES, SLICE, into=ResourceSlice)
    (asked,) = server.calls("POST", SLICES_PATH)
    assert asked.body.startswith(b'{"apiVersion":"resource.k8s.io/v1","kind":"ResourceSlice","metadata":')
    assert rb"\u003cA\u0026B\u003e" in asked.body
    assert asked.headers["Content-Type"] == "application/json"
    assert asked.headers["Authorization"] == "Bearer t"


async def test_an_older_server_gets_objects_of_its_version(server: ScriptedServer, client: Client) -> None:
    server.serves("v1alpha3", "v1beta1")
    older = {"metadata": {"name": "s"}, "spec": {**_spec(), "devices": [{"name": "gpu-0", "basic": {}}]}}
    path = "/apis/resource.k8s.io/v1beta1/resourceslices"
    server.on("POST", path, Answer(201, older))
    created = await client.create(SLICES, SLICE, into=ResourceSlice)
    assert created.spec.devices == [Device("gpu-0")]
    (asked,) = server.calls("POST", path)
    assert asked.json["apiVersion"] == "resource.k8s.io/v1beta1"
    assert asked.json["spec"]["devices"][0]["basic"]["attributes"] == {"model": {"string": "<A&B>"}}
    assert len(server.calls("GET", "/apis/resource.k8s.io")) == 1


async def test_a_list_follows_its_pages(server: ScriptedServer, client: Client) -> None:
    server.on(
        "GET",
        "/api/v1/pods",
        Answer(body={"metadata": {"continue": "next", "resourceVersion": "7"}, "items": [POD]}),
        Answer(body={"metadata": {"resourceVersion": "7"}, "items": [POD]}),
    )
    listing = await client.list(PODS, into=dict, fields="spec.nodeName=a", limit=1)
    assert len(listing.items) == 2
    assert listing.resource_version == "7"
    first, second = server.calls("GET", "/api/v1/pods")
    assert first.query == {"limit": "1", "fieldSelector": "spec.nodeName=a"}
    assert second.query["continue"] == "next"


async def test_a_page_that_expired_starts_the_list_again(server: ScriptedServer, client: Client) -> None:
    server.on(
        "GET",
        "/api/v1/pods",
        Answer(body={"metadata": {"continue": "next"}, "items": [POD]}),
        status(410, "Expired"),
        Answer(body={"metadata": {"resourceVersion": "9"}, "items": [POD]}),
    )
    assert len((await client.list(PODS, into=dict)).items) == 1


async def test_an_unreadable_object_does_not_fail_a_list(server: ScriptedServer, client: Client) -> None:
    server.serves("v1")
    bad = {"metadata": {"name": "bad"}, "spec": {**_spec(), "devices": "none"}}
    good = {"metadata": {"name": "good"}, "spec": _spec()}
    server.on("GET", SLICES_PATH, Answer(body={"metadata": {}, "items": [bad, good]}))
    listing = await client.list(SLICES, into=ResourceSlice)
    assert [item.metadata.name for item in listing.items] == ["good"]
    assert str(listing.unreadable["bad"]).startswith("ResourceSlice bad: spec.devices: ")


@pytest.mark.parametrize(
    ("code", "reason", "error"),
    [(404, "NotFound", NotFound), (409, "AlreadyExists", AlreadyExists), (409, "Conflict", Conflict)],
)
async def test_an_error_has_the_type_of_its_reason(
    code: int, reason: str, error: type[Exception], server: ScriptedServer, client: Client
) -> None:
    server.on("PUT", "/api/v1/namespaces/n/pods/p", status(code, reason, "the server's words"))
    with pytest.raises(error, match=r"^the server's words$"):
        await client.replace(PODS, POD, "n", into=dict)


async def test_an_invalid_object_names_the_broken_rules(server: ScriptedServer, client: Client) -> None:
    causes = [{"reason": "FieldValueRequired", "field": "spec.driver", "message": "Required value"}]
    server.on("POST", "/api/v1/namespaces/n/pods", status(422, "Invalid", "words", name="p", causes=causes))
    with pytest.raises(Invalid) as caught:
        await client.create(PODS, POD, "n", into=dict)
    assert caught.value.details.causes[0].field == "spec.driver"


async def test_a_patch_has_the_content_type_of_its_kind(server: ScriptedServer, client: Client) -> None:
    server.serves("v1")
    path = "/apis/resource.k8s.io/v1/namespaces/n/resourceclaims/c/status"
    server.on("PATCH", path, Answer(body={}))
    apply = {"metadata": {"name": "c"}}
    await client.patch(
        CLAIMS, "c", "n", apply, PatchKind.APPLY, subresource="status", into=dict, field_manager="m", force=True
    )
    await client.patch(CLAIMS, "c", "n", {"a": None}, PatchKind.MERGE, subresource="status", into=dict)
    applied, merged = server.calls("PATCH", path)
    assert applied.query == {"fieldManager": "m", "force": "true"}
    assert applied.json["kind"] == "ResourceClaim"
    assert applied.headers["Content-Type"] == "application/apply-patch+yaml"
    assert merged.body == b'{"a":null}'


async def test_delete_returns_whether_the_object_existed(server: ScriptedServer, client: Client) -> None:
    path = "/api/v1/namespaces/n/pods/p"
    server.on("DELETE", path, Answer(body={}), status(404, "NotFound"))
    assert await client.delete(PODS, "p", "n", uid="u", resource_version="3", grace_seconds=0)
    assert not await client.delete(PODS, "p", "n")
    assert server.calls("DELETE", path)[0].json == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "gracePeriodSeconds": 0,
        "preconditions": {"uid": "u", "resourceVersion": "3"},
    }


def _spec() -> dict[str, object]:
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    return {"driver": "d", "pool": pool, "devices": [{"name": "gpu-0"}]}
