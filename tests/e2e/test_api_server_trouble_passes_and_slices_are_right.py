"""A real kube-apiserver on a bad day: the driver waits, says so, and its slices are right at the end."""

import asyncio
import base64
import json
import logging
import signal
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

from dradriver.kube import SLICES
from dradriver.model.resource.device import Device
from dradriver.model.resource.pool import Pool
from dradriver.publish import PoolState
from dradriver.wire import dra_v1
from dradriver.wire.stubs import dra_v1_grpc
from tests.conformance.apiserver_suite import DRA, Api
from tests.e2e import servers
from tests.e2e.api_servers import NODE, ApiServerBed, api_server_bed
from tests.e2e.rack import BOUND, PARTS, TAINTED, Rack, RackDriver, rack
from tests.unit.node.plugin_world import dial, request

MORE: Final = Pool("more", (Device("new"),))
OWN: Final = f"node:{NODE}"
"""Administrators are neither refused nor limited, whatever the options say."""


@pytest.fixture
def bed() -> Iterator[ApiServerBed]:
    with api_server_bed() as bed:
        bed.serve()
        yield bed


async def unprepare(node: Rack, claim: object) -> str:
    claims = request(claim).claims
    async with dial(node.plugin.sockets.service) as channel:
        stub = dra_v1_grpc.DRAPluginStub(channel)
        answer = await stub.NodeUnprepareResources(dra_v1.NodeUnprepareResourcesRequest(claims=claims))
    return str(answer.claims[claims[0].uid].error)


async def published(node: Rack, *pools: Pool) -> None:
    for pool in pools:
        await node.told(pool.name, PoolState.PUBLISHED)
        assert set(await node.devices(pool.name)) == {device.name for device in pool.devices}


async def test_while_it_is_away_prepare_says_so_and_unprepare_works(bed: ApiServerBed, tmp_path: Path) -> None:
    """The kubelet looks a claim up too before it asks for it: there is nothing to answer from."""
    async with rack(bed, tmp_path, RackDriver(PARTS, BOUND), patience=0.5) as node:
        await published(node, PARTS, BOUND)
        first, second = [await node.allocated("parts", f"part-{n}", f"claim-{n}") for n in range(2)]
        assert await node.prepare(first) == ""
        await asyncio.to_thread(bed.end, "kube-apiserver", signal.SIGKILL)
        path = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/claim-1"
        subject = f"claim default/claim-1 (UID {second.metadata.uid})"
        words = f"{subject} can't be looked up: GET {path} at {bed.url}: Connection refused"
        assert await node.prepare(second) == words
        assert await unprepare(node, first) == ""
        node.offer(PARTS, MORE)
        await asyncio.to_thread(bed.serve)
        await published(node, PARTS, MORE)
        await node.until_devices("bound")
        assert await node.prepare(second) == ""
        assert node.prepared() == {"claim-1"}


async def test_what_was_compacted_away_is_listed_anew(
    bed: ApiServerBed, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "dradriver.kube.cache")
    async with rack(bed, tmp_path, RackDriver(PARTS)) as node:
        await published(node, PARTS)
        await asyncio.to_thread(bed.end, "kube-apiserver", signal.SIGKILL)
        await asyncio.to_thread(_compact, bed.etcd)
        await asyncio.to_thread(bed.serve)
        for item in (await node.client.list(SLICES, into=dict)).items:
            await node.client.delete(SLICES, item["metadata"]["name"])
        await node.until_devices("parts", *(device.name for device in PARTS.devices))
    assert "resourceslices: watch is too old, listing again" in caplog.messages


def _compact(etcd: str) -> None:
    """Writes something, and forgets all that was before."""
    key = base64.b64encode(b"/elsewhere").decode()
    revision = _ask(f"{etcd}/v3/kv/put", {"key": key, "value": key})["header"]["revision"]
    _ask(f"{etcd}/v3/kv/compaction", {"revision": revision, "physical": True})


def _ask(url: str, body: Mapping[str, object]) -> dict[str, dict[str, str]]:
    with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode()), timeout=10) as answer:
        return dict(json.load(answer))


@pytest.mark.parametrize(("status", "words"), [(401, "Unauthorized"), (403, "forbidden")])
async def test_a_server_that_knows_nobody_for_a_while(
    status: int, words: str, bed: ApiServerBed, tmp_path: Path
) -> None:
    """As during its start, or while its webhooks are away."""
    (tmp_path / "tokens").write_text(f'{bed.credentials.token("admin")},admin,admin,"system:masters"\n')
    trouble = {401: {"--token-auth-file": f"{tmp_path}/tokens"}, 403: {"--authorization-mode": "RBAC"}}
    async with rack(bed, tmp_path, RackDriver(PARTS, TAINTED), user=OWN, patience=2) as node:
        await published(node, PARTS, TAINTED)
        await asyncio.to_thread(bed.serve, trouble[status])
        node.offer(PARTS, MORE)
        assert words in (await node.told("more", PoolState.REFUSED)).message
        await asyncio.to_thread(bed.serve)
        await published(node, PARTS, MORE)
        await node.until_devices("tainted")


async def test_a_server_that_has_too_much_to_do(bed: ApiServerBed, tmp_path: Path) -> None:
    busy = {
        "--enable-priority-and-fairness": "false", "--max-requests-inflight": "1",
        "--max-mutating-requests-inflight": "1",
    }  # fmt: skip
    pools = [Pool(f"pool-{n}", (Device("a"), Device("b"))) for n in range(20)]
    await asyncio.to_thread(bed.serve, busy)
    async with servers.real(bed) as api, servers.real(bed, OWN) as crowd, asyncio.TaskGroup() as tasks:
        refused = tasks.create_task(_crowd_out(crowd, api))
        async with rack(bed, tmp_path, RackDriver(*pools), user=OWN) as node:
            await refused
            await published(node, *pools)


async def _crowd_out(crowd: Api, api: Api) -> None:
    """Asks beside the driver until the server has refused more than what was asked here."""
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    own = 0
    while await _refused(api) <= own:
        answers = await asyncio.gather(
            *(crowd.call("GET", f"{DRA}/resourceslices") for _ in range(4)),
            *(
                crowd.call("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", review)
                for _ in range(4)
            ),
        )
        own += sum(answer.status == 429 for answer in answers)


async def _refused(api: Api) -> float:
    """How many requests were answered with 429."""
    lines = (await api.call("GET", "/metrics")).raw.decode().splitlines()
    return sum(
        float(line.rpartition(" ")[2])
        for line in lines
        if line.startswith("apiserver_request_terminations_total") and 'code="429"' in line
    )
