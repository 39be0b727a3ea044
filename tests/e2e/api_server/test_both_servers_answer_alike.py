"""The life of a claim, and invalid requests: both servers answer alike, owners of fields included."""

import json
import re
from typing import Any, Final

from tests.conformance.apiserver.suite import (
    APPLY,
    DRA,
    JSON_PATCH,
    MERGE,
    STRATEGIC,
    Api,
    Json,
    allocation,
    claim,
    config_map,
    resource_slice,
)

CLAIMS: Final = f"{DRA}/namespaces/default/resourceclaims"
CLAIM: Final = f"{CLAIMS}/alike"
MAPS: Final = "/api/v1/namespaces/default/configmaps"
TIMED: Final = frozenset({"uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "time"})
UID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
HEAD: Final = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "alike"}}
DEVICE: Final = {"driver": "d.example.com", "pool": "p", "device": "dev-0"}
RESERVED: Final = [{"resource": "pods", "name": "p", "uid": "u"}]

Step = tuple[str, str, Any, dict[str, Any]]


def normalize(value: Any) -> Any:
    """Return an answer without values that differ between runs, and without nulls."""
    if isinstance(value, dict):
        kept = {key: item for key, item in value.items() if item is not None}
        return {key: "*" if key in TIMED else normalize(item) for key, item in kept.items()}
    if isinstance(value, list):
        return [normalize(item) for item in value]
    return UID.sub("*", value) if isinstance(value, str) else value


def condition(kind: str, **changed: str) -> Json:
    base = {
        "type": kind,
        "status": "True",
        "reason": "R",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    return {**base, **changed}


def status(way: str, manager: str, **fields: Any) -> Step:
    """Return a write of the claim's status."""
    body: Json = {"status": fields}
    params = {"fieldManager": manager}
    return (
        "PATCH",
        f"{CLAIM}/status",
        {**HEAD, **body} if way == APPLY else body,
        {"content_type": way, "params": params},
    )


def device(**fields: Any) -> list[Json]:
    return [{**DEVICE, **fields}]


LIFE: Final[tuple[Step, ...]] = (
    ("POST", CLAIMS, claim("alike"), {"params": {"fieldManager": "user"}}),
    ("PUT", CLAIM, {**HEAD, "spec": {}}, {}),
    ("PUT", CLAIM, {**HEAD, "metadata": {"name": "other"}, "spec": {}}, {}),
    status(MERGE, "driver", devices=device()),
    status(MERGE, "driver", reservedFor=RESERVED),
    status(MERGE, "scheduler", allocation=json.loads(allocation()), reservedFor=RESERVED),
    status(MERGE, "scheduler", allocation={**json.loads(allocation()), "nodeSelector": {"nodeSelectorTerms": [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]}}),
    status(MERGE, "scheduler", reservedFor=[*RESERVED, {"resource": "pods", "name": "q", "uid": "u"}]),
    status(MERGE, "scheduler", reservedFor=[{"resource": "", "name": "", "uid": ""}]),
    status(MERGE, "driver", devices=[{**DEVICE, "device": "dev-9"}]),
    status(MERGE, "driver", devices=device(conditions=[{"type": "A", "status": "Maybe"}])),
    status(MERGE, "driver", devices=device(conditions=[condition("A"), condition("A")])),
    status(MERGE, "driver", devices=device(conditions=[condition("A b", reason="not a reason")])),
    status(MERGE, "driver", devices=device(conditions=[condition(f"A{index}") for index in range(9)])),
    status(MERGE, "driver", devices=device(networkData={"ips": ["10.0.0.1", "2001:DB8::1/64"]})),
    status(MERGE, "driver", devices=device(data=[1])),
    status(MERGE, "driver", devices=device(data={"b": 1, "a": 2.0}, conditions=[condition("A")])),
    status(STRATEGIC, "other", devices=device(conditions=[condition("B")])),
    status(APPLY, "network", devices=device(networkData={"interfaceName": "eth0"})),
    status(APPLY, "network2", devices=device(networkData={"interfaceName": "eth1"})),
    status(APPLY, "network2", devices=[DEVICE, DEVICE]),
    status(APPLY, "network2", nope=1),
    status(APPLY, "", devices=device()),
    ("PATCH", CLAIM, {"metadata": {"finalizers": ["nodomain"]}}, {"content_type": MERGE}),
    ("PATCH", CLAIM, {"metadata": {"annotations": {"x y": "1"}}}, {"content_type": MERGE}),
    ("PATCH", CLAIM, {"metadata": {"finalizers": ["e.com/f"], "labels": {"x": "1"}}}, {"content_type": MERGE}),
    ("DELETE", CLAIM, None, {}),
    status(MERGE, "scheduler", reservedFor=[*RESERVED, {"resource": "pods", "name": "z", "uid": "z"}]),
    ("PATCH", CLAIM, {"metadata": {"finalizers": None}}, {"content_type": MERGE}),
    ("GET", CLAIM, None, {}),
)  # fmt: skip
WRONG: Final[tuple[Step, ...]] = (
    ("POST", MAPS, b"", {}),
    ("POST", MAPS, b"a: b", {"content_type": "text/plain"}),
    (
        "POST",
        MAPS,
        b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: y}",
        {"content_type": "application/yaml"},
    ),
    ("POST", MAPS, config_map("alike", resourceVersion="5"), {}),
    ("POST", MAPS, config_map("alike"), {"params": {"dryRun": "Some"}}),
    ("POST", MAPS, config_map("alike"), {"params": {"fieldValidation": "Some"}}),
    ("POST", MAPS, config_map("alike"), {"params": {"fieldManager": "x" * 129}}),
    ("POST", MAPS, config_map("alike", finalizers=["hold"]), {}),
    ("POST", MAPS, config_map("alike", labels={"a b": "c d"}), {}),
    ("POST", MAPS, config_map("Not_A_Name"), {}),
    ("PUT", f"{MAPS}/none", config_map("none"), {}),
    ("PATCH", f"{MAPS}/none", {}, {"content_type": MERGE}),
    ("PATCH", f"{CLAIMS}/none", {"a": 1}, {"content_type": JSON_PATCH}),
    ("DELETE", f"{MAPS}/none", None, {}),
    ("DELETE", f"{MAPS}/none", {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Nope"}, {}),
    ("GET", MAPS, None, {"params": {"fieldSelector": "a"}}),
    ("GET", MAPS, None, {"params": {"fieldSelector": "data.a=b"}}),
    ("GET", MAPS, None, {"params": {"limit": "x"}}),
    ("GET", MAPS, None, {"params": {"resourceVersion": "x"}}),
    ("GET", MAPS, None, {"params": {"resourceVersionMatch": "Exact"}}),
    ("GET", MAPS, None, {"params": {"resourceVersionMatch": "Nope", "resourceVersion": "1"}}),
    ("GET", MAPS, None, {"params": {"continue": "x"}}),
    (
        "POST",
        f"{DRA}/resourceslices",
        resource_slice("alike", taints=[]),
        {"params": {"fieldValidation": "Strict"}},
    ),
)


async def compare(real: Api, embedded: Api, steps: tuple[Step, ...]) -> None:
    """Fail with every step whose answers differ."""
    differing = []
    for number, (method, path, body, options) in enumerate(steps):
        ours, theirs = [
            (answer.status, normalize(answer.json))
            for answer in [await api.call(method, path, body, **options) for api in (embedded, real)]
        ]
        if ours != theirs:
            differing.append((number, method, path, ours, theirs))
    assert not differing


async def test_the_life_of_a_claim(real: Api, embedded: Api) -> None:
    await compare(real, embedded, LIFE)


async def test_invalid_requests(real: Api, embedded: Api) -> None:
    await compare(real, embedded, WRONG)
