"""Cost of a driver on a node: start, repair, prepare, memory."""

import asyncio
import contextlib
import time
from collections.abc import Sequence
from typing import Final
from uuid import uuid4

from benchmarks.bed import Bed, Running
from benchmarks.peers import Peer
from benchmarks.report import Report, percentile
from benchmarks.servers import NODE
from dradriver.kube import CLAIMS, NODES, SLICES, AlreadyExists, PatchKind
from dradriver.model.resource.claim import ResourceClaim
from dradriver.model.resource.slices import ResourceSlice
from dradriver.wire import dra_v1

__all__ = ["measure"]

SIDE_BY_SIDE = 8

_PUBLISH_SECONDS: Final = 90.0
"""Time limit. The Go library checks its published slices again after half a minute."""

_CALL_SECONDS: Final = 30.0


async def measure(bed: Bed, peer: Peer, prepares: int, report: Report) -> None:
    """Run one round: start the driver, measure every figure, and stop it."""
    with contextlib.suppress(AlreadyExists):
        await bed.client.create(
            NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}}, into=bytes
        )
    await _delete_slices(bed, peer)
    started = time.perf_counter()
    async with bed.running(peer) as driver:
        await _published(bed, peer)
        report.add("process start to first slice, s", peer.title, time.perf_counter() - started)
        claims = [await _claim(bed, peer, index) for index in range(SIDE_BY_SIDE)]
        for claim in claims:
            await _prepare(driver, claim)
            await _unprepare(driver, claim)
        await _one_by_one(driver, claims, prepares, peer, report)
        await _side_by_side(driver, claims, prepares, peer, report)
        report.add("memory of the process, MiB", peer.title, driver.resident_mebibytes())
        begin = time.perf_counter()
        await _delete_slices(bed, peer)
        await _published(bed, peer)
        report.add("a deleted slice is back, s", peer.title, time.perf_counter() - begin)


async def _one_by_one(
    driver: Running, claims: Sequence[dra_v1.Claim], prepares: int, peer: Peer, report: Report
) -> None:
    latencies, cpu = [], []
    for number in range(prepares):
        claim = claims[number % len(claims)]
        before = driver.cpu_milliseconds()
        latencies.append(1000 * await _prepare(driver, claim))
        cpu.append(driver.cpu_milliseconds() - before)
        await _unprepare(driver, claim)
    report.add("prepare, p50, ms", peer.title, percentile(latencies, 50))
    report.add("prepare, p99, ms", peer.title, percentile(latencies, 99))
    report.add("prepare, p50 of the driver's CPU time, ms", peer.title, percentile(cpu, 50))


async def _side_by_side(
    driver: Running, claims: Sequence[dra_v1.Claim], prepares: int, peer: Peer, report: Report
) -> None:
    """Make one call for each claim at the same time, because each call of the kubelet is for one pod."""
    latencies, cpu = [], []
    for _ in range(max(2, prepares // len(claims))):
        before = driver.cpu_milliseconds()
        begin = time.perf_counter()
        await asyncio.gather(*(_prepare(driver, claim) for claim in claims))
        latencies.append(1000 * (time.perf_counter() - begin))
        cpu.append(driver.cpu_milliseconds() - before)
        await asyncio.gather(*(_unprepare(driver, claim) for claim in claims))
    report.add("eight prepares side by side, p50, ms", peer.title, percentile(latencies, 50))
    report.add("eight side by side, p50 of the driver's CPU time, ms", peer.title, percentile(cpu, 50))


async def _published(bed: Bed, peer: Peer) -> None:
    async with asyncio.timeout(_PUBLISH_SECONDS):
        while not await _slices(bed, peer):
            await asyncio.sleep(0.002)


async def _slices(bed: Bed, peer: Peer) -> list[ResourceSlice]:
    listing = await bed.client.list(SLICES, fields=f"spec.driver={peer.driver}", into=ResourceSlice)
    return [item for item in listing.items if item.spec.devices]


async def _delete_slices(bed: Bed, peer: Peer) -> None:
    for item in await _slices(bed, peer):
        await bed.client.delete(SLICES, item.metadata.name)


async def _claim(bed: Bed, peer: Peer, index: int) -> dra_v1.Claim:
    """Return a claim that has the driver's device with this index."""
    name = f"claim-{index}-{uuid4().hex[:8]}"
    exactly = {"deviceClassName": "any"}
    created = await bed.client.create(
        CLAIMS,
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"devices": {"requests": [{"name": "device", "exactly": exactly}]}},
        },
        "default",
        into=ResourceClaim,
    )
    result = {"request": "device", "driver": peer.driver, "pool": NODE, "device": f"device-{index}"}
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [NODE]}]}
    status = {
        "allocation": {"devices": {"results": [result]}, "nodeSelector": {"nodeSelectorTerms": [term]}},
        "reservedFor": [{"resource": "pods", "name": "bench", "uid": str(uuid4())}],
    }
    await bed.client.patch(
        CLAIMS, name, "default", {"status": status}, PatchKind.MERGE, subresource="status", into=bytes
    )
    return dra_v1.Claim(namespace="default", name=name, uid=created.metadata.uid)


async def _prepare(driver: Running, claim: dra_v1.Claim) -> float:
    begin = time.perf_counter()
    answer = await driver.plugin.NodePrepareResources(
        dra_v1.NodePrepareResourcesRequest(claims=[claim]), timeout=_CALL_SECONDS
    )
    elapsed = time.perf_counter() - begin
    if error := answer.claims[claim.uid].error:
        raise RuntimeError(error)
    return elapsed


async def _unprepare(driver: Running, claim: dra_v1.Claim) -> None:
    answer = await driver.plugin.NodeUnprepareResources(
        dra_v1.NodeUnprepareResourcesRequest(claims=[claim]), timeout=_CALL_SECONDS
    )
    if error := answer.claims[claim.uid].error:
        raise RuntimeError(error)
