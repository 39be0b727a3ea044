"""Hostile requests: the answer is a Status with the client's mistake, and the server continues.

Each case is one request and the code and message of kube-apiserver's answer.
"""

import asyncio
import json
import logging

import pytest

from dradriver.cluster.apiserver import ApiServer
from tests.conformance.apiserver.suite import APPLY, JSON_PATCH, MERGE, STRATEGIC, Api, config_map
from tests.unit.cluster.apiserver.conftest import Connect
from tests.unit.cluster.apiserver.raw_requests import Raw, RawClient

DEFAULT = "/api/v1/namespaces/default"
MAPS = f"{DEFAULT}/configmaps"
MAP = f"{MAPS}/a"
YAML = "application/yaml"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DEPTH = "exceeded max depth"


def make_body(data: bytes) -> bytes:
    return b'{"metadata":{"name":"made"},"data":' + data + b"}"


def operations(*listed: object) -> bytes:
    return json.dumps(list(listed)).encode()


NINES = b"9" * 5000
LAYERS = b"\n".join(b"l%d: &l%d [%s]" % (i, i, b",".join([b"*l%d" % (i - 1)] * 9)) for i in range(1, 12))
BOMB = b"metadata: {name: made}\nl0: &l0 [x]\n" + LAYERS
MERGES = b"metadata: {name: made}\nm0: &m0 {a: b}\n" + b"\n".join(
    b"m%d: &m%d {<<: [%s]}" % (i, i, b",".join([b"*m%d" % (i - 1)] * 9)) for i in range(1, 12)
)
LARGE_BOMB = b"metadata: {name: made}\nl: &l %s\nm: [%s]" % (b"x" * 100_000, b",".join([b"*l"] * 500))
COPIES = operations(*({"op": "copy", "from": "/data", "path": f"/data/x{i}"} for i in range(30)))
GROWING = operations(*({"op": "copy", "from": "", "path": f"/x{i}"} for i in range(30)))

CASES: dict[str, tuple[Raw, int, str]] = {
    # Who asks.
    "token not ASCII": (Raw("GET", MAPS, token="ä.ö".encode()), 401, "Unauthorized"),
    "token not UTF-8": (Raw("GET", MAPS, token=b"\xff\xfe.\xff"), 401, "Unauthorized"),
    "hash of the token not ASCII": (Raw("GET", MAPS, token="YWRtaW4.ö".encode()), 401, "Unauthorized"),
    "no token": (Raw("GET", MAPS, token=b""), 401, "Unauthorized"),
    # Where.
    "empty part of a path": (Raw("GET", "/apis/a//b"), 404, "could not find"),
    "end of a path": (Raw("GET", "/apis/a/b/"), 404, "could not find"),
    "empty version": (Raw("GET", "/api//v1/pods"), 404, "could not find"),
    "path of one byte": (Raw("OPTIONS", "*"), 405, "does not allow this method"),
    "name that is not UTF-8": (Raw("GET", b"/api/v1/namespaces/default/pods/%ff%fe"), 404, "not found"),
    "method without meaning": (Raw("TRACE", MAPS), 405, "does not allow this method"),
    "log without a kubelet": (Raw("GET", f"{DEFAULT}/pods/p/log"), 400, "no kubelet serves its logs"),
    # Options.
    "limit of 5,000 digits": (Raw("GET", f"{MAPS}?limit={NINES.decode()}"), 400, "value out of range"),
    "limit in another script": (Raw("GET", f"{MAPS}?limit=%D9%A3"), 400, "invalid syntax"),
    "limit below zero": (Raw("GET", f"{MAPS}?limit=-5"), 200, ""),
    "endless watch": (Raw("GET", f"{MAPS}?watch=1&timeoutSeconds={'9' * 400}"), 400, "value out of range"),
    "revision of 5,000 digits": (Raw("GET", f"{MAPS}?resourceVersion={NINES.decode()}"), 400, "out of range"),
    "negative revision": (Raw("GET", f"{MAPS}?resourceVersion=-1"), 400, "invalid syntax"),
    "continue that is not ASCII": (Raw("GET", f"{MAPS}?continue=%ff"), 400, "invalid continue token"),
    "continue of another type": (Raw("GET", f"{MAPS}?continue=eyJ2IjoxfQ"), 400, "invalid continue token"),
    "selector of parentheses": (Raw("GET", f"{MAPS}?labelSelector={'(,' * 3500}"), 400, "unable to parse"),
    "selector of spaces": (Raw("GET", f"{MAPS}?labelSelector=a{'+' * 7000}b"), 400, "unable to parse"),
    "field that is not UTF-8": (Raw("GET", f"{MAPS}?fieldSelector=%ed%a0%80%3Da"), 400, "not a known field"),
    "manager that can't be printed": (
        Raw("POST", f"{MAPS}?fieldManager=%00", make_body(b"{}")),
        422,
        "fieldManager: Invalid value",
    ),
    "client that can't be printed": (
        Raw("POST", f"{MAPS}?dryRun=All", make_body(b"{}"), headers=b"User-Agent: \xff\xfe\r\n"),
        201,
        "",
    ),
    # Bodies.
    "deep list": (Raw("POST", MAPS, b"[" * 100_000), 400, DEPTH),
    "deep object": (Raw("POST", MAPS, make_body(b'{"a":' * 900 + b"1" + b"}" * 900)), 400, DEPTH),
    "deep parameters": (
        Raw(
            "POST",
            "/apis/resource.k8s.io/v1/deviceclasses",
            (
                b'{"metadata":{"name":"made"},"spec":{"config":[{"opaque":{"driver":"d.example.com","parameters":'
                + b'{"a":' * 300
                + b"1"
                + b"}" * 300
                + b"}}]}}"
            ),
        ),
        400,
        DEPTH,
    ),
    "number of 5,000 digits": (Raw("POST", MAPS, make_body(NINES)), 400, "json parse error"),
    "number beyond 64 bits": (
        Raw("POST", MAPS, b'{"metadata":{"name":"made","generation":99999999999999999999}}'),
        400,
        "int64",
    ),
    "quantity of 5,000 digits": (
        Raw(
            "POST",
            f"{DEFAULT}/resourcequotas",
            b'{"metadata":{"name":"made"},"spec":{"hard":{"pods":"' + NINES + b'"}}}',
        ),
        400,
        "quantities must match the regular expression",
    ),
    "number beyond any float": (Raw("POST", MAPS, make_body(b"1e999")), 400, "json parse error"),
    "half a character": (Raw("POST", MAPS, make_body(b'{"a":"\\ud800"}')), 400, "json parse error"),
    "warning that no header holds": (
        Raw("POST", f"{MAPS}?dryRun=All", b'{"metadata":{"name":"made"},"x\\ny":1}'),
        201,
        "",
    ),
    "null": (Raw("POST", MAPS, b"null"), 400, "cannot unmarshal"),
    "null metadata": (Raw("POST", MAPS, b'{"metadata":null}'), 422, "name or generateName is required"),
    "name that is a number": (Raw("POST", MAPS, b'{"metadata":{"name":5}}'), 400, "of type string"),
    "object larger than etcd takes": (
        Raw(
            "POST",
            "/api/v1/namespaces/default/secrets",
            json.dumps(
                {
                    "metadata": {"name": "made", "annotations": {}},
                    "unknown": 1,
                    "stringData": {f"k{i}": "x" * 400_000 for i in range(5)},
                }
            ).encode(),
        ),
        413,
        "too large",
    ),
    "body larger than 3 MiB": (
        Raw("POST", MAPS, make_body(b'"' + b"x" * 3_200_000 + b'"')),
        413,
        "limit is 3145728",
    ),
    "compressed body": (Raw("POST", MAPS, b"\x1f\x8b", headers=b"Content-Encoding: gzip\r\n"), 400, "json"),
    "chunk of no size": (Raw("POST", MAPS, b"ZZ\r\n\r\n", headers=b"Transfer-Encoding: chunked\r\n"), 400, ""),
    "media type that is none": (Raw("POST", MAPS, b"{}", "text/;;=,/"), 415, "unknown format"),
    "protobuf that ends": (
        Raw("POST", MAPS, b"k8s\0\xff\xff\xff", "application/vnd.kubernetes.protobuf"),
        400,
        "",
    ),
    # YAML.
    "YAML that contains itself": (Raw("POST", MAPS, b"a: &a [*a]", YAML), 400, "value contains itself"),
    "map that contains itself": (Raw("POST", MAPS, b"&a {metadata: *a}", YAML), 400, "value contains itself"),
    "bomb of aliases": (Raw("POST", MAPS, BOMB, YAML), 400, "excessive aliasing"),
    "bomb of merges": (Raw("POST", MAPS, MERGES, YAML), 400, "excessive aliasing"),
    "few aliases of much": (Raw("POST", MAPS, LARGE_BOMB, YAML), 413, "limit is 3145728"),
    "bomb that is applied": (Raw("PATCH", f"{MAP}?fieldManager=m", BOMB, APPLY), 400, "excessive aliasing"),
    "deep YAML": (Raw("POST", MAPS, b"[" * 100_000, YAML), 400, DEPTH),
    "deep YAML by indentation": (Raw("POST", MAPS, b"- " * 100_000, YAML), 400, DEPTH),
    "YAML number of 5,000 digits": (Raw("POST", MAPS, b"data: " + NINES, YAML), 400, "cannot unmarshal"),
    "YAML number to the base of 60": (
        Raw("POST", MAPS, b"data: 1" + b":59" * 9000, YAML),
        400,
        "cannot unmarshal",
    ),
    "not a number": (Raw("POST", MAPS, b"data: .nan", YAML), 400, "unsupported value"),
    "key that is a list": (Raw("POST", MAPS, b"[1]: 2", YAML), 400, "unsupported map key"),
    "key that is null": (Raw("POST", MAPS, b"null: 2", YAML), 400, "unsupported map key"),
    "tag of another language": (Raw("POST", MAPS, b"!!python/object:os.system x", YAML), 400, "tag"),
    "binary that is none": (Raw("POST", MAPS, b"a: !!binary x", YAML), 400, "binary"),
    "two documents": (Raw("POST", MAPS, b"a: 1\n---\nb: 2", YAML), 400, "single document"),
    "YAML that is not UTF-8": (Raw("POST", MAPS, b"a: \xff", YAML), 400, "error converting YAML"),
    # Patches.
    "thirty copies": (Raw("PATCH", MAP, GROWING, JSON_PATCH), 422, "accumulated size increase of copy"),
    "copies into itself": (Raw("PATCH", MAP, COPIES, JSON_PATCH), 422, "accumulated size increase of copy"),
    "10,001 operations": (
        Raw("PATCH", MAP, operations(*[{"op": "test", "path": ""}] * 10_001), JSON_PATCH),
        413,
        "10000, got 10001",
    ),
    "move into itself": (
        Raw("PATCH", MAP, operations({"op": "move", "from": "/data", "path": "/data/x"}), JSON_PATCH),
        422,
        "itself",
    ),
    "copy from a number": (
        Raw("PATCH", MAP, operations({"op": "copy", "from": 5, "path": "/x"}), JSON_PATCH),
        422,
        "JSON pointer",
    ),
    "test inside text": (
        Raw("PATCH", MAP, operations({"op": "test", "path": "/data/a/0"}), JSON_PATCH),
        422,
        "neither an object",
    ),
    "remove everything": (Raw("PATCH", MAP, operations({"op": "remove", "path": ""}), JSON_PATCH), 422, ""),
    "replace by a number": (
        Raw("PATCH", MAP, operations({"op": "replace", "path": "", "value": 5}), JSON_PATCH),
        400,
        "cannot unmarshal",
    ),
    "patch deeper and deeper": (
        Raw(
            "PATCH",
            MAP,
            operations(*({"op": "add", "path": "/x" * (i + 1), "value": {}} for i in range(300))),
            JSON_PATCH,
        ),
        422,
        DEPTH,
    ),
    "patch that is text": (Raw("PATCH", MAP, b'"x"', JSON_PATCH), 400, "error decoding patch"),
    "merge of a list": (Raw("PATCH", MAP, b"[]", MERGE), 400, "error decoding patch"),
    "directive of another type": (
        Raw("PATCH", MAP, b'{"$retainKeys":5}', STRATEGIC),
        400,
        "invalid patch format",
    ),
    "deletion that is no list": (
        Raw("PATCH", MAP, b'{"metadata":{"$deleteFromPrimitiveList/finalizers":5}}', STRATEGIC),
        400,
        "invalid patch format",
    ),
    "applied list": (Raw("PATCH", f"{MAP}?fieldManager=m", b"[]", APPLY), 400, "cannot unmarshal"),
    "apply of nothing": (Raw("PATCH", f"{MAP}?fieldManager=m", b"", APPLY), 400, ""),
    # What is not stored.
    "grace that is text": (Raw("DELETE", MAP, b'{"gracePeriodSeconds":"x"}'), 400, "gracePeriodSeconds"),
    "grace beyond every date": (
        Raw("DELETE", f"{DEFAULT}/pods/p?gracePeriodSeconds=99999999999999&dryRun=All"),
        200,
        "",
    ),
    "preconditions of another type": (Raw("DELETE", MAP, b'{"preconditions":5}'), 400, "preconditions"),
    "token for text": (
        Raw("POST", f"{DEFAULT}/serviceaccounts/default/token", b'{"spec":{"expirationSeconds":"x"}}'),
        400,
        "int64",
    ),
    "token for ever": (
        Raw(
            "POST", f"{DEFAULT}/serviceaccounts/default/token", b'{"spec":{"expirationSeconds":9999999999999}}'
        ),
        422,
        "larger than 2^32 seconds",
    ),
    "token of a number": (
        Raw("POST", f"{DEFAULT}/serviceaccounts/default/token", b'{"spec":{"boundObjectRef":5}}'),
        400,
        "boundObject",
    ),
    "token of a list": (Raw("POST", f"{DEFAULT}/serviceaccounts/default/token", b"[]"), 400, "not an object"),
    "review of a number": (
        Raw(
            "POST",
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            b'{"spec":{"resourceAttributes":5}}',
        ),
        400,
        "resourceAttributes",
    ),
    "binding to a number": (Raw("POST", f"{DEFAULT}/pods/p/binding", b'{"target":5}'), 400, "target"),
    "definition of a number": (Raw("POST", DEFINITIONS, b'{"metadata":{"name":"a.b"},"spec":5}'), 400, "spec"),
}


@pytest.fixture
async def raw(server: ApiServer, api: Api) -> RawClient:
    await api.make(MAPS, {**config_map("a"), "data": {"a": "x" * 2000}})
    pod = {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
    }  # fmt: skip
    await api.make(f"{DEFAULT}/pods", pod)
    while (await api.call("GET", f"{DEFAULT}/serviceaccounts/default")).status != 200:
        await asyncio.sleep(0.005)
    return RawClient(server)


async def test_hostile_requests_are_answered_in_kubernetes_words(
    raw: RawClient, server: ApiServer, api: Api, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    wrong = []
    for name, (request, code, words) in CASES.items():
        got = await raw.send(request)
        if got.code != code or words not in got.message:
            wrong.append(f"{name}: {got.code} {got.message[:200]}, expected {code} {words}")
    assert not wrong
    assert not caplog.records
    assert (await api.call("GET", MAPS)).status == 200
    assert [each["metadata"]["name"] for each in (await api.call("GET", MAPS)).json["items"]] == ["a"]


async def test_bytes_that_are_not_a_request_are_rejected(raw: RawClient, api: Api) -> None:
    for data in (
        b"\x00\x01\x02\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET /api HTTP/1.1\r\nX: " + b"a" * 100_000 + b"\r\n\r\n",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    ):
        assert (await raw.send_bytes(data)).code == 400
    assert (await api.call("GET", MAPS)).status == 200


async def test_a_node_bound_user_gets_the_same_answers(server: ApiServer, connect: Connect) -> None:
    kubelet = RawClient(server, "node:node-1")
    assert (await kubelet.send(Raw("POST", f"{DEFAULT}/pods", b"a: &a [*a]", YAML))).code in {400, 403}
    assert (await kubelet.send(Raw("GET", f"{MAPS}?limit={NINES.decode()}"))).code == 400
    assert (await connect(server).call("GET", MAPS)).status == 200
