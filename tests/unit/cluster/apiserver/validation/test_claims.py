"""Rules of claims, classes and templates that the conformance suite does not test one by one."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from dradriver.cluster.apiserver.validation.claims import (
    check_claim_spec,
    check_claim_status,
    check_device_class,
)
from dradriver.cluster.apiserver.validation.field import Causes
from tests.conformance.apiserver.suite import DRA, Api, claim
from tests.unit.cluster.apiserver.conftest import Connect, StartServer

Json = dict[str, Any]
CLAIMS = f"{DRA}/namespaces/default/resourceclaims"


def request(**exactly: Any) -> Json:
    return {
        "name": "r",
        "exactly": {"deviceClassName": "c", "allocationMode": "ExactCount", "count": 1, **exactly},
    }


def with_constraint(**constraint: Any) -> Json:
    return {"requests": [request()], "constraints": [constraint]}


def with_derived_attribute(name: str) -> Json:
    attributes = [{"name": name, "expression": "device.attributes"}]
    return {
        **with_constraint(matchAttribute="d.example.com/a"),
        "requests": [request(derivedAttributes=attributes)],
    }


PRIORITIZED = {
    "name": "r",
    "firstAvailable": [{**request()["exactly"], "name": f"s{index}"} for index in range(9)],
}


def collect(causes: Causes) -> set[tuple[str, str]]:
    return {(cause.field, cause.message.partition(":")[0]) for cause in causes}


@pytest.mark.parametrize(
    ("devices", "field", "problem"),
    [
        ({"requests": [{"name": "r"}]}, "requests[0]", "Required value"),
        ({"requests": [request(), request()]}, "requests[1]", "Duplicate value"),
        ({"requests": [{**request(), "name": "A"}]}, "requests[0].name", "Invalid value"),
        ({"requests": [request(deviceClassName="")]}, "....deviceClassName", "Required value"),
        ({"requests": [request(count=-1)]}, "....count", "Invalid value"),
        ({"requests": [request(allocationMode="All")]}, "....count", "Invalid value"),
        ({"requests": [request(allocationMode="Some")]}, "....allocationMode", "Unsupported value"),
        ({"requests": [request(selectors=[{}])]}, "....selectors[0].cel", "Required value"),
        ({"requests": [{**request(), "name": f"r{i}"} for i in range(33)]}, "requests", "Too many"),
        ({"requests": [PRIORITIZED]}, "requests[0].firstAvailable", "Too many"),
        (with_constraint(requests=["x"], matchAttribute="d/a"), "constraints[0].requests[0]", "Invalid value"),
        (with_constraint(matchAttribute="a"), "constraints[0].matchAttribute", "Invalid value"),
        (with_constraint(), "constraints[0]", "Required value"),
        (with_derived_attribute("d.example.com/b"), "....derivedAttributes[0].name", "Invalid value"),
        (with_derived_attribute(""), "....derivedAttributes[0].name", "Required value"),
        ({"requests": [request()], "config": [{}]}, "config[0].opaque", "Required value"),
        ({"requests": [request(tolerations=[{"key": "a", "operator": "Exists", "value": "v"}])]},
         "....tolerations[0].value", "Invalid value"),
    ],
)  # fmt: skip
def test_an_invalid_claim_is_rejected_with_the_field(devices: Json, field: str, problem: str) -> None:
    field = field.replace("...", "requests[0].exactly")
    assert collect(check_claim_spec({"devices": devices}, "spec", None)) == {(f"spec.devices.{field}", problem)}


def test_subrequests_are_referenced_by_both_names() -> None:
    sub = {**request()["exactly"], "name": "s"}
    devices: Json = {
        "requests": [{"name": "r", "firstAvailable": [sub]}],
        "constraints": [{"requests": ["r/s", "r"], "matchAttribute": "d.example.com/a"}],
    }
    assert check_claim_spec({"devices": devices}, "spec", None) == []
    devices["constraints"][0]["requests"] = ["r/t"]
    assert collect(check_claim_spec({"devices": devices}, "spec", None)) == {
        ("spec.devices.constraints[0].requests[0]", "Invalid value")
    }


@pytest.mark.parametrize("size", [10 * 1024, 10 * 1024 + 1])
async def test_opaque_parameters_are_limited_to_10_kib(api: Api, size: int) -> None:
    parameters = json.dumps({"a": "x" * (size - len('{"a":""}'))}, separators=(",", ":")).encode()
    answer = await api.call("POST", CLAIMS, claim("a", parameters))
    assert answer.status == (201 if size == 10 * 1024 else 422)
    if answer.status == 422:
        assert "parameters: Too long: may not be more than 10240 bytes" in answer.json["message"]


@pytest.mark.parametrize("parameters", [b"[]", b"1", b'"x"', b"null"])
async def test_opaque_parameters_must_be_an_object(api: Api, parameters: bytes) -> None:
    assert (await api.call("POST", CLAIMS, claim("a", parameters))).status == 422


async def test_a_cel_check_is_optional(start_server: StartServer, connect: Connect) -> None:
    refuse: Callable[[str], str | None] = lambda text: "does not compile" if "nonsense" in text else None  # noqa: E731
    api = connect(await start_server(cel_check=refuse))
    body = {
        "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "c"},
        "spec": {"selectors": [{"cel": {"expression": "nonsense("}}]},
    }  # fmt: skip
    answer = await api.call("POST", f"{DRA}/deviceclasses", body)
    assert (
        'spec.selectors[0].cel.expression: Invalid value: "nonsense(": does not compile'
        in answer.json["message"]
    )


def test_a_cel_expression_is_limited_to_10_kib() -> None:
    spec = {"selectors": [{"cel": {"expression": "x" * (10 * 1024 + 1)}}]}
    assert collect(check_device_class({"spec": spec}, None, None)) == {
        ("spec.selectors[0].cel.expression", "Too long")
    }


@pytest.mark.parametrize(
    ("name", "valid"),
    [
        ("example.com/gpu", True),
        ("gpu", False),
        ("kubernetes.io/gpu", False),
        ("requests.example.com/x", False),
        ("a/b/c", False),
    ],
)
def test_extended_resource_names(name: str, valid: bool) -> None:
    assert (check_device_class({"spec": {"extendedResourceName": name}}, None, None) == []) == valid


OTHER = {"driver": "d.example.com", "pool": "p", "device": "other"}
RESULT = {"request": "r", "driver": "d.example.com", "pool": "p", "device": "dev-0"}


def pod(uid: str) -> Json:
    return {"resource": "pods", "name": "p", "uid": uid}


def status_problems(status: Json, old: Json | None = None, **metadata: Any) -> set[tuple[str, str]]:
    spec = {"devices": {"requests": [request()]}}
    return collect(
        check_claim_status({"metadata": metadata, "spec": spec, "status": status}, {"status": old or {}})
    )


NO_LABEL_VALUE = {
    "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["no spaces"]}]}]
}


def results(*items: Json) -> Json:
    return {"allocation": {"devices": {"results": list(items)}}}


@pytest.mark.parametrize(
    ("status", "field", "problem"),
    [
        (results(*[RESULT] * 33), "allocation.devices.results", "Too many"),
        (results({**RESULT, "request": "x"}), "allocation.devices.results[0].request", "Invalid value"),
        (
            {"allocation": {"devices": {}, "nodeSelector": NO_LABEL_VALUE}},
            "allocation.nodeSelector.nodeSelectorTerms[0].matchExpressions[0].values[0]",
            "Invalid value",
        ),
        (results({**RESULT, "pool": ""}), "allocation.devices.results[0].pool", "Required value"),
        (results({**RESULT, "shareID": "X"}), "allocation.devices.results[0].shareID", "Invalid value"),
        ({"reservedFor": [pod("u")]}, "reservedFor", "Forbidden"),
        ({**results(RESULT), "reservedFor": [pod(str(i)) for i in range(257)]}, "reservedFor", "Too many"),
        ({**results(RESULT), "reservedFor": [pod("u"), pod("u")]}, "reservedFor[1]", "Duplicate value"),
        ({**results(RESULT), "devices": [OTHER]}, "devices[0]", "Invalid value"),
    ],
)  # fmt: skip
def test_an_invalid_status_is_rejected_with_the_field(status: Json, field: str, problem: str) -> None:
    assert status_problems(status) == {(f"status.{field}", problem)}


def test_a_claim_that_is_being_deleted_takes_no_new_reservation() -> None:
    one, two = [pod(uid) for uid in ("1", "2")]
    old = {**results(RESULT), "reservedFor": [one]}
    assert status_problems({**old, "reservedFor": []}, old, deletionTimestamp="x") == set()
    more = {**old, "reservedFor": [one, two]}
    assert status_problems(more, old, deletionTimestamp="x") == {("status.reservedFor", "Forbidden")}


def test_an_allocation_may_be_empty() -> None:
    assert status_problems({"allocation": {"devices": {}}}) == set()
