"""Custom resource definitions: validation, served kinds, and deletion."""

from typing import Any

import pytest

from tests.conformance.apiserver.suite import APPLY, MERGE, Api
from tests.unit.cluster.apiserver.storage.test_namespaces import until

Json = dict[str, Any]
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
THINGS = "/apis/example.com/v1/namespaces/default/things"


ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def definition(group: str = "example.com", **spec: Any) -> Json:
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": ANYTHING}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"things.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [version],
            **spec,
        },
    }


def thing(name: str, **spec: Any) -> Json:
    return {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": name}, "spec": spec}


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"versions": []}, "spec.versions"),
        ({"versions": [{"name": "v1", "storage": True}]}, "spec.versions[0].schema.openAPIV3Schema"),
        ({"scope": "Galaxy"}, "spec.scope"),
        ({"names": {"plural": "others", "kind": "Other"}}, "metadata.name"),
    ],
)
async def test_an_invalid_definition_is_rejected_with_the_field(api: Api, spec: Json, field: str) -> None:
    answer = await api.call("POST", DEFINITIONS, definition(**spec))
    assert (answer.status, field in {each["field"] for each in answer.json["details"]["causes"]}) == (422, True)


@pytest.mark.parametrize("spec", [{"versions": "v1"}, {"names": []}, {"versions": [{"name": 1}]}])
async def test_a_definition_of_the_wrong_shape_is_a_bad_request(api: Api, spec: Json) -> None:
    assert (await api.call("POST", DEFINITIONS, definition(**spec))).status == 400


async def test_an_approved_protected_group_has_a_condition(api: Api) -> None:
    body = definition("dra.x-k8s.io")
    assert (await api.call("POST", DEFINITIONS, body)).status == 201, "x-k8s.io is not protected"
    body = definition("dra.k8s.io")
    body["metadata"]["annotations"] = {"api-approved.kubernetes.io": "https://example.com/pull/1"}
    conditions = {
        each["type"]: each["status"] for each in (await api.make(DEFINITIONS, body))["status"]["conditions"]
    }
    assert conditions == {
        "KubernetesAPIApprovalPolicyConformant": "True",
        "NamesAccepted": "True",
        "Established": "True",
    }


async def test_objects_of_a_custom_kind_are_stored_watched_and_applied(api: Api) -> None:
    await api.make(DEFINITIONS, definition())
    made = await api.make(THINGS, thing("a", x=1, list=[1, 2]))
    assert made["metadata"]["generation"] == 1
    applied = await api.call(
        "PATCH", f"{THINGS}/a", thing("a", y=2), content_type=APPLY, params={"fieldManager": "m"}
    )
    assert applied.json["spec"] == {"x": 1, "list": [1, 2], "y": 2}
    assert applied.json["metadata"]["generation"] == 2
    events = await api.watch(THINGS, 2, resourceVersion=str(int(made["metadata"]["resourceVersion"]) - 1))
    assert [each["type"] for each in events] == ["ADDED", "MODIFIED"]


async def test_a_strategic_patch_of_a_custom_kind_is_rejected(api: Api) -> None:
    await api.make(DEFINITIONS, definition())
    await api.make(THINGS, thing("a"))
    answer = await api.call("PATCH", f"{THINGS}/a", {}, content_type="application/strategic-merge-patch+json")
    assert answer.status == 415


async def test_deleting_a_definition_deletes_its_objects(api: Api) -> None:
    await api.make(DEFINITIONS, definition())
    await api.make(THINGS, thing("a"))
    await api.make(THINGS, {**thing("b"), "metadata": {"name": "b", "finalizers": ["example.com/hold"]}})
    await api.call("DELETE", f"{DEFINITIONS}/things.example.com")
    await until(api, f"{THINGS}/a", 404)
    assert (await api.call("GET", f"{DEFINITIONS}/things.example.com")).status == 200
    await api.call("PATCH", f"{THINGS}/b", {"metadata": {"finalizers": None}}, content_type=MERGE)
    await until(api, f"{DEFINITIONS}/things.example.com", 404)
    await until(api, THINGS, 404)


async def test_two_versions_serve_the_same_objects(api: Api) -> None:
    schema = {"openAPIV3Schema": ANYTHING}
    versions = [
        {"name": name, "served": True, "storage": name == "v1", "schema": schema} for name in ("v1beta1", "v1")
    ]
    await api.make(DEFINITIONS, definition(versions=versions))
    await api.make(THINGS, thing("a", x=1))
    older = (await api.call("GET", f"{THINGS.replace('v1', 'v1beta1', 1)}/a")).json
    assert (older["apiVersion"], older["spec"]) == ("example.com/v1beta1", {"x": 1})
    group = (await api.call("GET", "/apis/example.com")).json
    assert group["preferredVersion"]["version"] == "v1"
