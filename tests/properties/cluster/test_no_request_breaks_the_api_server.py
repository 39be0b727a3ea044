"""The API server rejects or obeys any damaged request, and keeps working.

Objects of many kinds are written in all ways, with a part of the object, the patch, the options or the bytes
replaced by a hostile value. HOSTILE_REQUESTS in the environment is the number of requests (default 200); SEED
repeats a run.
"""

import asyncio
import json
import logging
import os
import random
from collections.abc import AsyncIterator, Iterator
from copy import deepcopy
from itertools import chain
from pathlib import Path
from typing import Any, Final

import pytest

from dradriver.cluster.apiserver import ApiServer
from tests.conformance.apiserver.suite import APPLY, JSON_PATCH, MERGE, STRATEGIC
from tests.seeds import choose_seed
from tests.unit.cluster.apiserver.raw_requests import JSON, Raw, RawClient

COUNT = int(os.environ.get("HOSTILE_REQUESTS", "200"))
SEED = choose_seed()

CORE, DRA = "/api/v1", "/apis/resource.k8s.io/v1"
DEFAULT = f"{CORE}/namespaces/default"
SCHEMA: Final[dict[str, Any]] = {
    "type": "object", "x-kubernetes-preserve-unknown-fields": True, "required": ["spec"],
    "properties": {
        "spec": {
            "type": "object", "x-kubernetes-preserve-unknown-fields": True, "maxProperties": 20,
            "properties": {
                "text": {"type": "string", "minLength": 1, "maxLength": 5, "pattern": "^[a-z]", "default": "a"},
                "number": {"type": "number", "minimum": 1, "maximum": 9, "exclusiveMaximum": True},
                "choice": {"type": "string", "enum": ["A", "B"], "nullable": True},
                "either": {"x-kubernetes-int-or-string": True},
                "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                "map": {
                    "type": "object",
                    "additionalProperties": {"type": "object", "properties": {"v": {"type": "integer"}}},
                },
                "atomic": {
                    "type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": True,
                },
                "fixed": {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf"}]},
                "list": {
                    "type": "array", "maxItems": 9, "minItems": 1, "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {
                        "type": "object", "required": ["name"],
                        "properties": {
                            "name": {"type": "string"},
                            "nodes": {"type": "array", "maxItems": 3, "items": {"type": "string"}},
                        },
                    },
                },
            },
        },
    },
}  # fmt: skip
OBJECTS: Final[dict[str, dict[str, Any]]] = {
    f"{DEFAULT}/configmaps": {"data": {"a": "b"}, "binaryData": {"c": "ZGVm"}},
    f"{DEFAULT}/secrets": {"type": "Opaque", "stringData": {"a": "b"}},
    f"{DEFAULT}/pods": {
        "spec": {
            "nodeName": "n",
            "containers": [{
                "name": "c", "image": "i", "command": ["true"], "env": [{"name": "A", "value": "b"}],
                "ports": [{"containerPort": 80, "protocol": "TCP"}],
                "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": 1.5}, "claims": [{"name": "d"}]},
            }],
            "resourceClaims": [{"name": "d", "resourceClaimName": "x"}],
            "tolerations": [{"key": "a", "operator": "Exists", "tolerationSeconds": 5}],
            "terminationGracePeriodSeconds": 5,
        },
        "status": {"conditions": [{"type": "Ready", "status": "True"}], "phase": "Running"},
    },
    f"{CORE}/nodes": {
        "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]},
        "status": {"capacity": {"cpu": "4"}, "conditions": [{"type": "Ready", "status": "True"}]},
    },
    f"{CORE}/namespaces": {"spec": {"finalizers": ["kubernetes"]}},
    f"{DEFAULT}/resourcequotas": {"spec": {"hard": {"pods": "5", "requests.cpu": 3}}},
    f"{DEFAULT}/serviceaccounts": {"secrets": [{"name": "a"}]},
    f"{DEFAULT}/events": {
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
        "lastTimestamp": "2026-01-01T00:00:00Z", "count": 2, "reason": "A", "message": "b", "type": "Normal",
    },
    "/apis/coordination.k8s.io/v1/namespaces/default/leases": {
        "spec": {"holderIdentity": "h", "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.5Z"}
    },
    f"{DRA}/deviceclasses": {
        "spec": {
            "selectors": [{"cel": {"expression": "true"}}],
            "config": [{"opaque": {"driver": "d.example.com", "parameters": {"a": [1, {"b": None}]}}}],
            "extendedResourceName": "example.com/gpu",
        }
    },
    f"{DRA}/namespaces/default/resourceclaims": {
        "spec": {
            "devices": {
                "requests": [
                    {"name": "r", "exactly": {
                        "deviceClassName": "c", "count": 2, "allocationMode": "ExactCount",
                        "selectors": [{"cel": {"expression": "device.driver == 'd'"}}],
                        "tolerations": [{"key": "a", "operator": "Exists"}],
                        "capacity": {"requests": {"memory": "1Gi"}}}},
                    {"name": "s", "firstAvailable": [{"name": "t", "deviceClassName": "c"}]},
                ],
                "constraints": [{"requests": ["r"], "matchAttribute": "d.example.com/a"}],
                "config": [{"requests": ["r"], "opaque": {"driver": "d.example.com", "parameters": {"a": 1}}}],
            }
        },
        "status": {
            "allocation": {"devices": {"results": [
                {"request": "r", "driver": "d.example.com", "pool": "p", "device": "x",
                 "bindingConditions": ["a"], "consumedCapacity": {"m": "1"}}]},
                "nodeSelector": {"nodeSelectorTerms": [
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]}},
            "reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}],
            "devices": [{"driver": "d.example.com", "pool": "p", "device": "x", "data": {"a": 1},
                         "networkData": {"ips": ["10.0.0.1/8"]}, "conditions": []}],
        },
    },
    f"{DRA}/resourceslices": {
        "spec": {
            "driver": "d.example.com", "nodeName": "n",
            "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
            "devices": [{
                "name": "x", "attributes": {"a": {"int": 1}, "b": {"version": "1.0.0"}, "c": {"string": "s"}},
                "capacity": {"m": {"value": "1Gi", "requestPolicy": {"default": "1", "validValues": ["1"]}}},
                "taints": [{"key": "a", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}],
                "allowMultipleAllocations": True, "bindingConditions": ["a"], "bindingFailureConditions": ["b"],
            }],
        }
    },
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions": {
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing", "shortNames": ["th"], "categories": ["all"]},
            "versions": [{
                "name": "v1", "served": True, "storage": True, "subresources": {"status": {}},
                "additionalPrinterColumns": [{"name": "A", "type": "string", "jsonPath": ".spec.a"}],
                "schema": {"openAPIV3Schema": SCHEMA},
            }],
        }
    },
    "/apis/example.com/v1/namespaces/default/things": {
        "spec": {
            "a": [1, {"b": "c"}], "text": "abc", "set": ["a", "b"], "map": {"k": {"v": 1}}, "either": "5%",
            "list": [{"name": "x", "nodes": ["n"]}], "atomic": {"a": 1}, "fixed": "a", "choice": "A",
        },
        "status": {"d": 1.5},
    },
}  # fmt: skip
NAMES: Final = {"customresourcedefinitions": "things.example.com"}
HOSTILE: Final[tuple[Any, ...]] = (
    None, True, 0, -1, 1.5, 2**31, 2**63, -(2**63), 10**25, 1e300, "", "\u0000", "\ud800", "ä\u202e\n",
    "x" * 70_000,
    "..", "/", "a/b/c", "%s", "1e400", "1Ei1", "-0", "0001-01-01T00:00:00Z", "9999-99-99T99:99:99Z",
    "9999-12-31T23:59:59-23:59", "((((((((", "device.attributes[", [], {}, [None], [[]], [{}],
    {"": ""}, {"a": {}},
    [{"name": None}], ["a"] * 3000, [{"name": "a"}] * 300, {str(i): i for i in range(3000)},
    {"$patch": "delete"},
    {"$patch": "replace"}, {"$retainKeys": ["a"]}, {"f:a": {".": {}}}, {"uid": 5},
)  # fmt: skip
METADATA: Final[dict[str, Any]] = {
    "labels": {"a": "b"}, "annotations": {"a": "b"}, "finalizers": ["example.com/a"], "generateName": "a-",
    "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u",
    "blockOwnerDeletion": True}],
    "managedFields": [{"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
                       "fieldsV1": {"f:data": {"f:a": {}}}}],
    "resourceVersion": "1", "uid": "u", "deletionTimestamp": "2026-01-01T00:00:00Z", "generation": 5,
}  # fmt: skip
QUERIES: Final = (
    "labelSelector", "fieldSelector", "limit", "continue", "resourceVersion", "resourceVersionMatch", "watch",
    "timeoutSeconds", "sendInitialEvents", "allowWatchBookmarks", "dryRun", "fieldManager", "fieldValidation",
    "force", "gracePeriodSeconds", "propagationPolicy", "includeObject", "pretty",
)  # fmt: skip
VALUES: Final = (
    "", "1", "-1", "0", "true", "a", "a=b", "a in (b,c)", "a notin (", "!a", "metadata.name=a",
    "spec.nodeName!=n",
    "%00", "%ff", "%ed%a0%80", "%0a", "9" * 30, "All", "Orphan", "Foreground", "Exact", "NotOlderThan",
    "Strict",
    "Object", "None", "eyJydiI6MSwic3RhcnQiOlsiYSIsImIiXX0", "eyJydiI6LTksInN0YXJ0IjpbIiIsIiJdfQ", "((((,,,,",
)  # fmt: skip
ACCEPTS: Final = (
    "application/json", "application/json", "*/*", "application/json;as=Table;v=v1;g=meta.k8s.io", "*/*", "a/b",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", "application/vnd.kubernetes.protobuf",
)  # fmt: skip
TYPES: Final = (
    JSON,
    MERGE,
    STRATEGIC,
    JSON_PATCH,
    APPLY,
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
)


class Requests:
    """Damaged copies of valid requests. Equal seeds make equal requests."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def valid(self) -> Iterator[Raw]:
        """Return two valid objects of each kind, for the other requests to change."""
        for path in OBJECTS:
            for name in ("a", "b"):
                yield Raw(
                    "POST",
                    path,
                    json.dumps(self._object(path, NAMES.get(path.rpartition("/")[2], name))).encode(),
                )

    def _object(self, path: str, name: str) -> dict[str, Any]:
        obj: dict[str, Any] = {"metadata": {"name": name}, **deepcopy(OBJECTS[path])}
        return obj | ({"apiVersion": "example.com/v1", "kind": "Thing"} if "/things" in path else {})

    def make(self) -> Raw:
        """Return one request."""
        path = self.random.choice(list(OBJECTS))
        obj = self._object(path, self._name(path))
        for key in self.random.sample(list(METADATA), self.random.choice((0, 0, 0, 1))):
            obj["metadata"][key] = METADATA[key]
        for _ in range(self.random.choice((0, 1, 1, 1, 2))):
            self._spoil(obj)
        method = self.random.choice(("POST", "POST", "PUT", "PUT", "PATCH", "PATCH", "PATCH", "DELETE", "GET"))
        content_type, body = self._body(method, obj)
        if method != "POST" and self.random.random() < 0.9:
            path += "/" + self._name(path) + self.random.choice(("", "", "", "/status"))
        if self.random.random() < 0.05:
            path += self.random.choice(
                ("/", "//", "/binding", "/token", "/finalize", "/a/b/c", "/%2f", "/..", "%00")
            )
        return Raw(method, path + "?" + self._query(method), body, content_type, headers=self._headers())

    def _name(self, path: str) -> str:
        return NAMES.get(path.rpartition("/")[2]) or self.random.choice(("a", "b", "c"))

    def _spoil(self, part: Any) -> None:
        while True:
            keys = list(part) if isinstance(part, dict) else list(range(len(part)))
            if not keys:
                return
            key = self.random.choice(keys)
            if not isinstance(part[key], dict | list) or not part[key] or self.random.random() < 0.15:
                part[key] = deepcopy(self.random.choice(HOSTILE))
                return
            part = part[key]

    def _body(self, method: str, obj: Any) -> tuple[str, bytes]:
        right = {"PATCH": (MERGE, STRATEGIC, JSON_PATCH, APPLY), "DELETE": (JSON,), "GET": (JSON,)}
        content_type = self.random.choice(right.get(method, (JSON, JSON, "application/yaml")))
        if content_type == JSON_PATCH:
            obj = [self._operation(obj) for _ in range(self.random.randrange(1, 6))]
        elif method == "DELETE":
            obj = {"gracePeriodSeconds": 1, "preconditions": {"uid": "u"}, "propagationPolicy": "Orphan"}
            self._spoil(obj)
        body = b"" if method == "GET" else json.dumps(obj).encode()
        if self.random.random() < 0.05:
            content_type = self.random.choice(TYPES)
        if body and self.random.random() < 0.1:
            spoiled = bytearray(body)
            for _ in range(3):
                spoiled[self.random.randrange(len(spoiled))] = self.random.randrange(256)
            body = bytes(spoiled[: self.random.randrange(len(spoiled)) or None])
        return content_type, body

    def _operation(self, obj: Any) -> Any:
        paths = [
            "",
            "/metadata",
            "/metadata/name",
            "/spec",
            "/status",
            "/data/a",
            "/spec/devices/requests/0",
            "/a/-",
        ]
        operation = {
            "op": self.random.choice(("add", "remove", "replace", "move", "copy", "test", "x")),
            "path": self.random.choice(paths), "from": self.random.choice(paths),
            "value": deepcopy(self.random.choice((obj, *HOSTILE))),
        }  # fmt: skip
        if self.random.random() < 0.1:
            self._spoil(operation)
        return operation

    def _query(self, method: str) -> str:
        chosen = [] if self.random.random() < 0.8 else self.random.sample(QUERIES, self.random.randrange(1, 4))
        query = {key: self.random.choice(VALUES) for key in chosen}
        if method == "PATCH":
            query.setdefault("fieldManager", "m")
            query.setdefault("force", "true")
        if method == "GET":
            query["timeoutSeconds"] = "-1"  # so that a watch ends at once
        return "&".join(f"{key}={value.replace(' ', '+')}" for key, value in query.items())

    def _headers(self) -> bytes:
        return f"Accept: {self.random.choice(ACCEPTS)}\r\n".encode()


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[ApiServer]:
    started = ApiServer(tmp_path, history=50)
    await started.start()
    yield started
    await started.stop()


async def _namespace_works(client: RawClient) -> None:
    """Check that the controllers work: create a namespace, wait for its account, delete it."""
    path = f"{CORE}/namespaces/last"
    assert (await client.send(Raw("POST", f"{CORE}/namespaces", b'{"metadata":{"name":"last"}}'))).code == 201
    while (await client.send(Raw("GET", f"{path}/serviceaccounts/default"))).code != 200:
        await asyncio.sleep(0.01)
    assert (await client.send(Raw("DELETE", path))).code == 200
    while (await client.send(Raw("GET", path))).code != 404:
        await asyncio.sleep(0.01)


@pytest.mark.timeout(60 + COUNT)
async def test_no_request_breaks_the_api_server(server: ApiServer, caplog: pytest.LogCaptureFixture) -> None:
    print(f"SEED={SEED}")
    caplog.set_level(logging.WARNING)
    client, requests, codes = RawClient(server), Requests(SEED), set()
    for number, request in enumerate(chain(requests.valid(), (requests.make() for _ in range(COUNT)))):
        async with asyncio.timeout(20):
            got = await client.send(request)
        details = f"request {number} of SEED={SEED}: {request}\n{got.code} {got.message}"
        # kube-apiserver itself answers two client errors with 500, without the reason InternalError.
        assert got.code, details[:4000]
        assert got.reason != "InternalError", details[:4000]
        assert not [each for each in caplog.records if each.levelno >= logging.ERROR], details[:4000]
        codes.add(got.code)
        assert number >= 2 * len(OBJECTS) or got.code in {201, 409}, details
    assert {200, 201, 400, 404, 422} <= codes
    for path in OBJECTS:
        listed = await client.send(Raw("GET", path))
        assert listed.code in {200, 404}, listed.message
    await _namespace_works(client)
    assert not caplog.records
