"""Protobuf bodies, and unset fields, which Go clients write and other clients omit."""

import json
from typing import Any

import pytest

from dradriver.cluster.apiserver.schema.protobuf import ProtobufError, decode, unwrap
from tests.conformance.apiserver.suite import DRA, MERGE, Api, allocation, claim, resource_slice

CLAIMS = f"{DRA}/namespaces/default/resourceclaims"
SLICES = f"{DRA}/resourceslices"
PROTOBUF = "application/vnd.kubernetes.protobuf"


async def test_an_allocation_without_devices_equals_the_one_that_go_writes(api: Api) -> None:
    await api.make(CLAIMS, claim("a"))
    selector = {
        "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]
    }
    body = {"status": {"allocation": {"nodeSelector": selector}}}
    await api.call("PATCH", f"{CLAIMS}/a/status", body, content_type=MERGE)
    current = (await api.call("GET", f"{CLAIMS}/a")).json
    current["status"]["allocation"] = {"devices": {}, "nodeSelector": selector}
    assert (await api.call("PUT", f"{CLAIMS}/a/status", current)).status == 200


async def test_a_slice_without_a_generation_has_generation_zero(api: Api) -> None:
    body = resource_slice("s")
    del body["spec"]["pool"]["generation"]
    made = await api.make(SLICES, body)
    assert made["spec"]["pool"]["generation"] == 0
    made["spec"]["pool"] = {"name": "n1", "resourceSliceCount": 1}
    assert (await api.call("PUT", f"{SLICES}/s", made)).json["metadata"]["generation"] == 1


async def test_null_and_empty_optional_fields_are_not_stored(api: Api) -> None:
    body = resource_slice(
        "s", devices=[{"name": "d", "attributes": {}, "taints": None, "consumesCounters": []}]
    )
    assert (await api.make(SLICES, body))["spec"]["devices"] == [{"name": "d"}]


def field(number: int, value: bytes | int) -> bytes:
    """One protobuf field, short enough for one-byte lengths."""
    if isinstance(value, int):
        return bytes([number << 3, value])
    return bytes([number << 3 | 2, len(value)]) + value


def wrap(version: str, kind: str, message: bytes) -> bytes:
    meta = field(1, version.encode()) + field(2, kind.encode())
    return b"k8s\x00" + field(1, meta) + field(2, message)


async def test_a_protobuf_body_is_read(api: Api) -> None:
    metadata = field(1, b"m") + field(11, field(1, b"app") + field(2, b"x"))
    message = field(1, metadata) + field(2, field(1, b"a") + field(2, b"1"))
    answer = await api.call(
        "POST", "/api/v1/namespaces/default/configmaps", wrap("v1", "ConfigMap", message), content_type=PROTOBUF
    )
    assert answer.status == 201
    assert (answer.json["data"], answer.json["metadata"]["labels"]) == ({"a": "1"}, {"app": "x"})


async def test_a_broken_protobuf_body_is_a_bad_request(api: Api) -> None:
    for body in (b"nonsense", wrap("v1", "ConfigMap", b"\x0a\x7f"), wrap("v1", "Secret", b"")):
        answer = await api.call("POST", "/api/v1/namespaces/default/configmaps", body, content_type=PROTOBUF)
        assert (answer.status, answer.json["reason"]) == (400, "BadRequest")


def test_protobuf_decodes_embedded_messages_numbers_times_and_raw_bytes() -> None:
    parameters = field(1, b'{"b": 1,  "a":2}')
    opaque = field(1, b"d.example.com") + field(2, parameters)
    config = decode("resource.DeviceClaimConfiguration", field(1, b"r") + field(2, field(1, opaque)))
    assert config["requests"] == ["r"]
    assert bytes(config["opaque"]["parameters"]) == b'{"b": 1,  "a":2}'
    taint = decode("resource.DeviceTaint", field(1, b"k") + field(4, field(1, 60)))
    assert taint == {"key": "k", "timeAdded": "1970-01-01T00:01:00.000000Z"}
    negative = bytes([3 << 3]) + b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"
    assert decode("resource.ResourcePool", field(1, b"p") + negative) == {"name": "p", "resourceSliceCount": -1}


@pytest.mark.parametrize("body", [b"", b"k8s", b"xxxx"])
def test_an_invalid_envelope_is_rejected(body: bytes) -> None:
    with pytest.raises(ProtobufError):
        unwrap(body)


@pytest.mark.parametrize(
    ("stored", "way", "status"),
    [
        (b'{"a":"x","b":1}', "merge", 200),
        (b'{"a": "x"}', "merge", 422),
        (b'{"b":1,"a":"x"}', "merge", 200),
        (b'{"b":1,"a":"x"}', "strategic", 422),
        (b'{"a":"<"}', "merge", 422),
        (b'{"b":1.0}', "merge", 200),
        (b'{"b":1.0}', "strategic", 422),
    ],
)
async def test_metadata_patches_of_a_claim_with_noncanonical_parameters_fail_alike(
    api: Api, stored: bytes, way: str, status: int
) -> None:
    await api.make(CLAIMS, claim("a", stored))
    patch: Any = {"metadata": {"annotations": {"x": "y"}}}
    kind = f"application/{'merge' if way == 'merge' else 'strategic-merge'}-patch+json"
    answer = await api.call("PATCH", f"{CLAIMS}/a", patch, content_type=kind)
    assert answer.status == status
    if status == 422:
        assert "field is immutable" in answer.json["message"]


async def test_clearing_an_allocation_with_noncanonical_parameters_is_allowed(api: Api) -> None:
    await api.make(CLAIMS, claim("a"))
    body = b'{"status":{"allocation":' + allocation(b'{ "z" : 1 }') + b"}}"
    await api.call("PATCH", f"{CLAIMS}/a/status", body, content_type=MERGE)
    current = (await api.call("GET", f"{CLAIMS}/a")).json
    current["status"] = {}
    assert (await api.call("PUT", f"{CLAIMS}/a/status", json.loads(json.dumps(current)))).status == 200


async def test_protobuf_clients_read_opaque_parameters_unchanged(api: Api) -> None:
    """Kubernetes escapes them in JSON only: a protobuf client must be able to write back the same bytes."""
    parameters = b'{ "b": "<&>" }'
    body = json.loads(claim("a"))
    body["spec"]["devices"]["config"] = [{"opaque": {"driver": "d.example.com", "parameters": 0}}]
    await api.call("POST", CLAIMS, json.dumps(body).encode().replace(b"0}", parameters + b"}"))
    plain = await api.call("GET", f"{CLAIMS}/a")
    assert b'{"b":"\\u003c\\u0026\\u003e"}' in plain.raw
    other = await api.call("GET", f"{CLAIMS}/a", accept=f"{PROTOBUF},application/json")
    assert parameters in other.raw
