"""A server with one version of resource.k8s.io: the client discovers it, and a driver sees no difference."""

import json
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from dradriver.kube import CLAIMS
from dradriver.model.encoding.codec import builtins
from dradriver.model.resource.claim import ResourceClaim
from dradriver.publish import PoolState
from dradriver.testing.builders import CLASS
from tests.conformance.apiserver.suite import MERGE, STRATEGIC, Api
from tests.e2e.bed import api_server_clients, control_plane
from tests.e2e.bed.api_server_bed import NODE, ApiServerBed, api_server_bed, serve_only
from tests.e2e.publishing.running_plugin import DRIVER, POOLS, RunningPlugin, StaticDriver, run_plugin, until

GROUP: Final = "/apis/resource.k8s.io"
PARAMETERS: Final = b'{"apiVersion":"rack.example.com/v1","kind":"Mode","words":["\\u003ca\\u0026b\\u003e"]}'
"""Canonical JSON: `<`, `&` and `>` as Go writes them."""
STATUS: Final = {
    "allocation": {
        "devices": {
            "results": [{"request": "one", "driver": DRIVER, "pool": "tainted", "device": "plain"}],
            "config": [{"source": "FromClaim", "opaque": {"driver": DRIVER, "parameters": "PARAMETERS"}}],
        },
        "nodeSelector": {
            "nodeSelectorTerms": [
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [NODE]}]}
            ]
        },
    },
    "reservedFor": [{"resource": "pods", "name": "pod", "uid": "uid"}],
}


@pytest.fixture(scope="module", params=["v1", "v1beta2", "v1beta1"])
def bed(request: pytest.FixtureRequest) -> Iterator[ApiServerBed]:
    with api_server_bed() as bed:
        bed.serve(serve_only(request.param), control_plane.ALL_GATES)
        yield bed


@pytest.fixture
def version(bed: ApiServerBed) -> str:
    (served,) = bed.get(GROUP)["versions"]
    return str(served["version"])


@pytest.fixture
async def api(bed: ApiServerBed) -> AsyncIterator[Api]:
    async with api_server_clients.real(bed) as api:
        yield api


@pytest.fixture
async def node(bed: ApiServerBed) -> AsyncIterator[RunningPlugin]:
    with tempfile.TemporaryDirectory() as folder:
        async with run_plugin(bed, Path(folder), StaticDriver(*POOLS)) as node:
            yield node


async def test_every_field_of_a_pool_is_stored(node: RunningPlugin, api: Api, version: str) -> None:
    for pool in POOLS:
        status = await node.wait_for_state(pool.name, PoolState.PUBLISHED)
        assert status.dropped == frozenset()
        stored = await node.devices(pool.name)
        for device in pool.devices:
            assert _without_times(stored[device.name]) == _without_times(device)
    slices = (await api.call("GET", f"{GROUP}/{version}/resourceslices")).json["items"]
    devices = [device for item in slices for device in item["spec"].get("devices", [])]
    assert len(devices) == sum(len(pool.devices) for pool in POOLS)
    assert all(("basic" in device) == (version == "v1beta1") for device in devices)


async def test_a_claim_is_prepared_and_its_opaque_bytes_are_kept(
    node: RunningPlugin, api: Api, version: str
) -> None:
    path = f"{GROUP}/{version}/namespaces/default/resourceclaims"
    await api.call("POST", path, _claim(version))
    answer = await api.call("PATCH", f"{path}/mine/status", _raw({"status": STATUS}), content_type=MERGE)
    assert answer.status == 200, answer.raw
    claim = await node.client.get(CLAIMS, "mine", "default", into=ResourceClaim)
    assert claim.spec.devices.requests[0].exactly is not None
    await node.wait_for_state("tainted", PoolState.PUBLISHED)
    assert await node.prepare(claim) == ""
    (spec,) = (node.folder / "cdi").glob("*.json")
    assert "WORDS=<a&b>" in json.loads(spec.read_bytes())["devices"][0]["containerEdits"]["env"]

    async def is_reported() -> bool:
        stored = await api.call("GET", f"{path}/mine")
        return bool(stored.json["status"].get("devices")) and stored.raw.count(PARAMETERS) >= 2

    await until(is_reported)
    (entry,) = (await api.call("GET", f"{path}/mine")).json["status"]["devices"]
    assert (entry["device"], entry["data"]) == ("plain", {"name": "plain"})
    # The next write of the claim is compared byte by byte.
    written = await api.call(
        "PATCH", f"{path}/mine", {"metadata": {"labels": {"a": "b"}}}, content_type=STRATEGIC
    )
    assert written.status == 200, written.raw


def _raw(body: object) -> bytes:
    return json.dumps(body, separators=(",", ":")).encode().replace(b'"PARAMETERS"', PARAMETERS)


def _claim(version: str) -> bytes:
    exact = {"deviceClassName": CLASS}
    request = {"name": "one", **(exact if version == "v1beta1" else {"exactly": exact})}
    config = {"opaque": {"driver": DRIVER, "parameters": "PARAMETERS"}}
    return _raw(
        {
            "apiVersion": f"resource.k8s.io/{version}",
            "kind": "ResourceClaim",
            "metadata": {"name": "mine"},
            "spec": {"devices": {"requests": [request], "config": [config]}},
        }
    )


def _without_times(device: object) -> Any:
    plain = builtins(device)
    for taint in plain.get("taints", ()):
        taint.pop("timeAdded", None)
    return plain
