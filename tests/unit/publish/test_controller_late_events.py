"""Late events, writes in flight, and callbacks that end in unusual ways."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pytest
from msgspec.structs import replace

from dradriver.cluster.apiserver.faults import Fault
from dradriver.model.core.meta import ObjectMeta
from dradriver.model.resource.counters import CounterConsumption, CounterSet
from dradriver.model.resource.device import Device
from dradriver.model.resource.pool import Pool
from dradriver.model.resource.slices import PoolReference, ResourceSlice, ResourceSliceSpec
from dradriver.publish import DroppedField, PoolState
from dradriver.publish.context import PublishContext
from dradriver.publish.features import fallback
from dradriver.publish.pool_worker import PoolWorker
from tests.unit.publish.conftest import DRIVER, Reports, World, a_world

PART = Device("part", consumes_counters=[CounterConsumption("gpu", {"memory": 1})])
PARTS = Pool("gpus", (PART, Device("plain")), (CounterSet("gpu", {"memory": 4}),))
WHOLE = Pool("gpus", (Device("whole"),))
MANY = Pool("many", tuple(Device(f"d-{i}") for i in range(600)))


async def test_an_empty_inventory_settles(world: World) -> None:
    async with world.publisher() as publisher:
        publisher.want([])
        assert await publisher.wait_settled() == {}


async def test_withdraw_waits_for_writes_in_flight(world: World) -> None:
    reports = Reports()
    async with world.publisher(on_status=reports) as publisher:
        publisher.want([PARTS])
        await publisher.wait_settled(40)
        world.server.faults.add(Fault("create", "resourceslices", delay=0.1, count=-1))
        publisher.want([PARTS, MANY])
        await world.until(lambda slices: len(slices) > 2)
        await publisher.withdraw()
        reports.all.clear()
        assert await publisher.wait_settled(40) == {}
        assert {status.slices for status in reports.all} <= {0}
    assert await world.slices() == []


async def test_a_slice_that_appears_while_its_pool_is_deleted_is_deleted() -> None:
    """The event arrives with the answer to the last delete, after the slices to delete were listed."""
    first, late = _slice("first"), _slice("late")
    there = [first]
    deleted: list[str] = []

    async def delete(_resource: object, name: str, **_: str) -> bool:
        deleted.append(name)
        if name == "first":
            there.append(late)
            worker.repair()
        return True

    slices = SimpleNamespace(
        of=lambda _pool: list(there), wait_synced=AsyncMock(), apply_deleted=there.remove, problem=None
    )
    client = SimpleNamespace(delete=delete)
    context = _context(client, slices)
    worker = PoolWorker("gpus", context)
    worker.want(None)
    await worker.run()
    assert deleted == ["first", "late"]


async def test_a_pool_that_is_wanted_again_while_its_worker_ends_is_published(tmp_path: Path) -> None:
    """The worker waits for the end of the driver's fallback, which is no longer needed."""
    cancelled, may_end = asyncio.Event(), asyncio.Event()

    async def slow(_pool: str, _dropped: frozenset[DroppedField]) -> Sequence[Pool]:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
            await may_end.wait()
        return ()

    async with a_world(tmp_path, DRAPartitionableDevices=False) as world:
        async with world.publisher(on_dropped=slow) as publisher:
            publisher.want([PARTS])
            await world.until(lambda slices: len(slices) == 1)
            publisher.want([])
            await cancelled.wait()
            publisher.want([WHOLE])
            may_end.set()
            status = (await publisher.wait_settled(40))["gpus"]
            assert status.state is PoolState.PUBLISHED
        assert await world.devices() == ["whole"]


def _context(client: Any, slices: Any) -> PublishContext:
    unused: Any = None
    return PublishContext(
        client=client,
        driver=DRIVER,
        node="node",
        slices=slices,
        owner=unused,
        features=unused,
        allocation_lookup=unused,
        on_dropped=None,
        wake_all=lambda: None,
        report=lambda _: None,
    )


def _slice(name: str) -> ResourceSlice:
    reference = PoolReference(name="gpus", generation=1, resource_slice_count=1)
    spec = ResourceSliceSpec(driver=DRIVER, pool=reference)
    return ResourceSlice(metadata=ObjectMeta(name=name, uid=name), spec=spec)


async def _cancelled(_pool: str, _dropped: frozenset[DroppedField]) -> Sequence[Pool]:
    task = asyncio.create_task(asyncio.sleep(1))
    task.cancel()
    await task
    return ()


async def _one_pool(_pool: str, _dropped: frozenset[DroppedField]) -> Pool:
    return PARTS


async def _list_of_strings(_pool: str, _dropped: frozenset[DroppedField]) -> list[str]:
    return ["gpus"]


@pytest.mark.parametrize("callback", [_cancelled, _one_pool, _list_of_strings])
async def test_an_invalid_fallback_counts_as_none(tmp_path: Path, callback: object) -> None:
    async with (
        a_world(tmp_path, DRAPartitionableDevices=False) as world,
        world.publisher(on_dropped=callback) as publisher,
    ):
        publisher.want([PARTS])
        status = (await publisher.wait_settled(40))["gpus"]
        assert status.state is PoolState.UNSAFE_WITHDRAWN
        assert await world.devices() == ["plain"]


async def test_the_end_waits_for_a_running_fallback(
    tmp_path: Path,
) -> None:
    ended: list[str] = []
    asked = asyncio.Event()

    async def slow(_pool: str, _dropped: frozenset[DroppedField]) -> Sequence[Pool]:
        asked.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            await asyncio.sleep(0.01)
            ended.append("cleaned up")
        return ()

    async with a_world(tmp_path, DRAPartitionableDevices=False) as world:
        async with world.publisher(on_dropped=slow) as publisher:
            publisher.want([PARTS])
            await asked.wait()
        assert ended == ["cleaned up"]


async def test_a_fallback_that_ignores_its_cancellation_does_not_block_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(fallback, "_CANCEL_SECONDS", 0.01)
    asked, let_go = asyncio.Event(), asyncio.Event()
    tasks: list[asyncio.Task[Any]] = []

    async def stubborn(_pool: str, _dropped: frozenset[DroppedField]) -> Sequence[Pool]:
        task = asyncio.current_task()
        assert task is not None
        tasks.append(task)
        asked.set()
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                continue
        return ()

    try:
        async with a_world(tmp_path, DRAPartitionableDevices=False) as world, asyncio.timeout(10):
            async with world.publisher(on_dropped=stubborn) as publisher:
                publisher.want([PARTS])
                await asked.wait()
            assert not tasks[0].done()
        assert "did not end after it was canceled" in caplog.text
    finally:
        let_go.set()
    await tasks[0]


async def test_retry_after_is_respected_while_the_inventory_changes(world: World) -> None:
    rounds = 20
    asked = world.server.faults.add(Fault("create", "resourceslices", code=429, retry_after=60, count=1000))
    reports = Reports()
    async with world.publisher(on_status=reports) as publisher:
        publisher.want([PARTS])
        await reports.until(lambda status: status.state is PoolState.PENDING and "Too" in status.message)
        before = asked.count
        for flip in range(rounds):
            publisher.want([replace(PARTS, devices=PARTS.devices[: flip % 2 + 1])])
            await asyncio.sleep(0.02)
        assert asked.count == before
