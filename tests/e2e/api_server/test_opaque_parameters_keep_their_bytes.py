"""Opaque parameters, stored in every way: both servers keep the same bytes and reject the same later writes."""

import json
import re
from typing import Any, Final

import pytest

from tests.conformance.apiserver.suite import (
    APPLY,
    CANONICAL,
    DRA,
    JSON_PATCH,
    MERGE,
    STRATEGIC,
    Api,
    allocation,
    claim,
)  # fmt: skip

PARAMETERS: Final = {
    "canonical": CANONICAL,
    "unsorted": b'{"b":1,"a":"x"}',
    "spaces": b'{"a": "x", "b": 1}',
    "angle brackets": b'{"a":"<x>&","b":1}',
    "float": b'{"a":"x","b":1.0}',
    "exponent": b'{"a":"x","b":1e3}',
    "escapes": b'{"a":"\\u00e9\xc3\xa9\\u003c","b":1}',
    "large number": b'{"a":12345678901234567890,"b":1.50}',
    "nulls": b'{"a":null,"b":[1,null,{"z":1,"c":null}]}',
    "twice": b'{"a":1,"a":2}',
    "line separator": b'{"a":"\xe2\x80\xa8"}',
}
CLAIMS: Final = f"{DRA}/namespaces/default/resourceclaims"
TYPES: Final = {"merge": MERGE, "strategic": STRATEGIC, "apply": APPLY, "json": JSON_PATCH}
STORED: Final = re.compile(rb'"parameters":(\{.*?\})\}+\]')


async def store(api: Api, way: str, parameters: bytes) -> int:
    """Allocate the claim `opaque` with parameters, by one of the ways to write a status."""
    path, value = f"{CLAIMS}/opaque/status", allocation(parameters)
    head = b'{"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaim","metadata":{"name":"opaque"}'
    status = b',"status":{"allocation":' + value + b"}}"
    if way == "put":
        current = (await api.call("GET", f"{CLAIMS}/opaque")).json
        text = head + b',"spec":' + json.dumps(current["spec"], separators=(",", ":")).encode() + status
        return (await api.call("PUT", path, text)).status
    body = {
        "json": b'[{"op":"add","path":"/status/allocation","value":' + value + b"}]",
        "apply": head + status,
    }.get(way, b"{" + status[1:])
    params = {"fieldManager": "test"}
    return (await api.call("PATCH", path, body, content_type=TYPES[way], params=params)).status


async def store_and_update(api: Api, way: str, parameters: bytes) -> list[Any]:
    """Store an allocation in one way, and update it; return bytes and codes."""
    await api.make(CLAIMS, claim("opaque"))
    try:
        seen: list[Any] = [await store(api, way, parameters)]
        path = f"{CLAIMS}/opaque"
        raw = (await api.call("GET", path)).raw
        seen.append(STORED.findall(raw[raw.rindex(b'"status":{') :]))
        for kind in ("merge", "strategic", "apply"):
            status = {"devices": [{"driver": "d.example.com", "pool": "p", "device": "dev-0"}]}
            head = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "opaque"}}
            body = {**(head if kind == "apply" else {}), "status": status}
            params = (
                {"fieldManager": "other", "force": "true"} if kind == "apply" else {"fieldManager": "other"}
            )
            answer = await api.call("PATCH", f"{path}/status", body, content_type=TYPES[kind], params=params)
            seen.append((kind, answer.status))
        note = {"metadata": {"annotations": {"a": "b"}}}
        seen.append((await api.call("PATCH", path, note, content_type=STRATEGIC)).status)
        return seen
    finally:
        await api.call("DELETE", f"{CLAIMS}/opaque")


@pytest.mark.parametrize("way", ["put", *TYPES])
@pytest.mark.parametrize("parameters", PARAMETERS)
async def test_in_an_allocation(real: Api, embedded: Api, parameters: str, way: str) -> None:
    given = PARAMETERS[parameters]
    assert await store_and_update(embedded, way, given) == await store_and_update(real, way, given)


@pytest.mark.parametrize("way", ["create", "apply"])
@pytest.mark.parametrize("parameters", PARAMETERS)
async def test_in_a_spec(real: Api, embedded: Api, parameters: str, way: str) -> None:
    seen = []
    for api in (embedded, real):
        body, path = claim("spec", PARAMETERS[parameters]), f"{CLAIMS}/spec"
        if way == "create":
            answer = await api.call("POST", CLAIMS, body)
        else:
            answer = await api.call("PATCH", path, body, content_type=APPLY, params={"fieldManager": "test"})
        raw = (await api.call("GET", path)).raw
        await api.call("DELETE", path)
        seen.append((answer.status, STORED.findall(raw)))
    assert seen[0] == seen[1]
