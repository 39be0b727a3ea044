"""Failures of a real kube-apiserver: the driver waits, reports them, and its slices are correct at the end."""

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
from tests.conformance.apiserver.suite import DRA, Api
from tests.e2e.bed import api_server_clients
from tests.e2e.bed.api_server_bed import NODE, ApiServerBed, api_server_bed
from tests.e2e.publishing.running_plugin import BOUND, PARTS, TAINTED, RunningPlugin, StaticDriver, run_plugin
from tests.unit.node.plugin_world import dial, request

MORE: Final = Pool("more", (Device("new"),))
OWN: Final = f"node:{NODE}"
"""Administrators are neither refused nor limited, whatever the options say."""


@pytest.fixture
def bed() -> Iterator[ApiServerBed]:
    with api_server_bed() as bed:
        bed.serve()
        yield bed


async def unprepare(node: RunningPlugin, claim: object) -> str:
    claims = request(claim).claims
    async with dial(node.plugin.sockets.service) as channel:
        stub = dra_v1_grpc.DRAPluginStub(channel)
        answer = await stub.NodeUnprepareResources(dra_v1.NodeUnprepareResourcesRequest(claims=claims))
    return str(answer.claims[claims[0].uid].error)


async def published(node: RunningPlugin, *pools: Pool) -> None:
    for pool in pools:
        await node.wait_for_state(pool.name, PoolState.PUBLISHED)
        assert set(await node.devices(pool.name)) == {device.name for device in pool.devices}


async def test_without_a_server_prepare_fails_and_unprepare_works(bed: ApiServerBed, tmp_path: Path) -> None:
    """The kubelet also reads a claim before it calls prepare, so no cached answer is possible."""
    async with run_plugin(bed, tmp_path, StaticDriver(PARTS, BOUND), patience=12) as node:
        await published(node, PARTS, BOUND)
        first, second = [await node.allocate_claim("parts", f"part-{n}", f"claim-{n}") for n in range(2)]
        assert await node.prepare(first) == ""
        await asyncio.to_thread(bed.end, "kube-apiserver", signal.SIGKILL)
        path = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/claim-1"
        subject = f"claim default/claim-1 (UID {second.metadata.uid})"
        words = f"{subject} cannot be looked up: GET {path} at {bed.url}: Connection refused"
        assert await node.prepare(second) == words
        assert await unprepare(node, first) == ""
        node.offer(PARTS, MORE)
        await asyncio.to_thread(bed.serve)
        await published(node, PARTS, MORE)
        await node.wait_for_devices("bound")
        assert await node.prepare(second) == ""
        assert node.prepared() == {"claim-1"}


async def test_a_compacted_watch_is_followed_by_a_list(
    bed: ApiServerBed, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "dradriver.kube.cache")
    async with run_plugin(bed, tmp_path, StaticDriver(PARTS)) as node:
        await published(node, PARTS)
        await asyncio.to_thread(bed.end, "kube-apiserver", signal.SIGKILL)
        await asyncio.to_thread(_compact, bed.etcd)
        await asyncio.to_thread(bed.serve)
        for item in (await node.client.list(SLICES, into=dict)).items:
            await node.client.delete(SLICES, item["metadata"]["name"])
        await node.wait_for_devices("parts", *(device.name for device in PARTS.devices))
    assert "resourceslices: the watch is too old, listing again" in caplog.messages


def _compact(etcd: str) -> None:
    """Write something, and compact all earlier revisions."""
    key = base64.b64encode(b"/elsewhere").decode()
    revision = _post(f"{etcd}/v3/kv/put", {"key": key, "value": key})["header"]["revision"]
    _post(f"{etcd}/v3/kv/compaction", {"revision": revision, "physical": True})


def _post(url: str, body: Mapping[str, object]) -> dict[str, dict[str, str]]:
    with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode()), timeout=10) as answer:
        return dict(json.load(answer))


@pytest.mark.parametrize(("status", "words"), [(401, "Unauthorized"), (403, "forbidden")])
async def test_a_server_that_rejects_the_credentials_for_some_time(
    status: int, words: str, bed: ApiServerBed, tmp_path: Path
) -> None:
    """As during its start, or while its webhooks are unreachable."""
    (tmp_path / "tokens").write_text(f'{bed.credentials.token("admin")},admin,admin,"system:masters"\n')
    trouble = {401: {"--token-auth-file": f"{tmp_path}/tokens"}, 403: {"--authorization-mode": "RBAC"}}
    async with run_plugin(bed, tmp_path, StaticDriver(PARTS, TAINTED), user=OWN, patience=2) as node:
        await published(node, PARTS, TAINTED)
        await asyncio.to_thread(bed.serve, trouble[status])
        node.offer(PARTS, MORE)
        assert words in (await node.wait_for_state("more", PoolState.REFUSED)).message
        await asyncio.to_thread(bed.serve)
        await published(node, PARTS, MORE)
        await node.wait_for_devices("tainted")


async def test_an_overloaded_server(bed: ApiServerBed, tmp_path: Path) -> None:
    busy = {
        "--enable-priority-and-fairness": "false", "--max-requests-inflight": "1",
        "--max-mutating-requests-inflight": "1",
    }  # fmt: skip
    pools = [Pool(f"pool-{n}", (Device("a"), Device("b"))) for n in range(20)]
    await asyncio.to_thread(bed.serve, busy)
    async with (
        api_server_clients.real(bed) as api,
        api_server_clients.real(bed, OWN) as other_client,
        asyncio.TaskGroup() as tasks,
    ):
        refused = tasks.create_task(_overload(other_client, api))
        async with run_plugin(bed, tmp_path, StaticDriver(*pools), user=OWN) as node:
            await refused
            await published(node, *pools)


async def _overload(other_client: Api, api: Api) -> None:
    """Send requests until the server has rejected more than those sent here."""
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    own = 0
    while await _count_rejected(api) <= own:
        answers = await asyncio.gather(
            *(other_client.call("GET", f"{DRA}/resourceslices") for _ in range(4)),
            *(
                other_client.call("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", review)
                for _ in range(4)
            ),
        )
        own += sum(answer.status == 429 for answer in answers)


async def _count_rejected(api: Api) -> float:
    """Return the number of requests that were answered with 429."""
    lines = (await api.call("GET", "/metrics")).raw.decode().splitlines()
    return sum(
        float(line.rpartition(" ")[2])
        for line in lines
        if line.startswith("apiserver_request_terminations_total") and 'code="429"' in line
    )
