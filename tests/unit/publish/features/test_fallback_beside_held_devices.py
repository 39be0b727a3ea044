"""Counted devices and their fallback share hardware: a held device blocks devices of the other layout."""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from dradriver.errors import DraError
from dradriver.model.resource.claim import DeviceId
from dradriver.model.resource.counters import CounterConsumption, CounterSet
from dradriver.model.resource.device import Device
from dradriver.model.resource.pool import Pool
from dradriver.publish import PoolState, pool_worker
from tests.unit.publish.conftest import Reports, a_world, offers
from tests.unit.publish.holds.test_pinned_changes import Claims

GATE = "DRAPartitionableDevices"


def part(name: str, memory: int) -> Device:
    return Device(name, consumes_counters=[CounterConsumption("gpu", {"memory": memory})])


COUNTED = Pool(
    "gpus", (part("part-0", 2), part("part-1", 2), part("whole", 4)), (CounterSet("gpu", {"memory": 4}),)
)
WHOLE = Pool("gpus", (Device("whole"),))
FIXED = Pool("gpus", (Device("fixed"),))
PARTS = Pool("gpus", (Device("part-0"), Device("part-1")))


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_worker, "_HELD_SECONDS", (0.02, 0.02))


def change_attributes(pool: Pool) -> Pool:
    """Return the pool with another attribute, so that a slice is written."""
    return replace(pool, devices=(*pool.devices[:-1], replace(pool.devices[-1], attributes={"touched": True})))


@pytest.mark.parametrize("restart", [False, True])
async def test_a_fallback_waits_while_a_claim_holds_a_device_that_it_omits(
    tmp_path: Path, restart: bool
) -> None:
    claims, reports = Claims("part-0"), Reports()
    options: dict[str, Any] = {
        "allocation_lookup": claims,
        "on_status": reports,
        "on_dropped": offers(WHOLE),
    }
    async with a_world(tmp_path) as world, AsyncExitStack() as stack:
        async with AsyncExitStack() as first:
            publisher = await first.enter_async_context(world.publisher(**options))
            publisher.want([COUNTED])
            await publisher.wait_settled(40)
            await world.regate(**{GATE: False})
            if not restart:
                stack.push_async_exit(first.pop_all())
        if restart:
            publisher = await stack.enter_async_context(world.publisher(**options))
        publisher.want([change_attributes(COUNTED)])
        held = await reports.until(lambda status: status.state is PoolState.HELD)
        assert held.held_by == ("ns/part-0",)
        assert "the fallback omits part-0" in held.message
        assert await world.devices() == []
        claims.held.clear()
        await reports.until(lambda status: status.state is PoolState.FALLBACK)
        assert await world.devices() == ["whole"]


async def test_a_fallback_that_offers_the_held_devices_is_published_at_once(tmp_path: Path) -> None:
    async with a_world(tmp_path, **{GATE: False}) as world:
        async with world.publisher(allocation_lookup=Claims("part-0"), on_dropped=offers(PARTS)) as publisher:
            publisher.want([COUNTED])
            assert (await publisher.wait_settled(40))["gpus"].state is PoolState.FALLBACK
        assert await world.devices() == ["part-0", "part-1"]


async def test_a_fallback_waits_while_the_claims_cannot_be_read(tmp_path: Path) -> None:
    async def fail(_: object) -> Mapping[DeviceId, str]:
        raise DraError("no answer")

    reports = Reports()
    async with a_world(tmp_path, **{GATE: False}) as world:
        options: dict[str, Any] = {"allocation_lookup": fail, "on_dropped": offers(WHOLE)}
        async with world.publisher(on_status=reports, **options) as publisher:
            publisher.want([COUNTED])
            held = await reports.until(lambda status: status.state is PoolState.HELD)
        assert held.held_by == ("unknown",)
        assert await world.devices() == []


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("fallback", [WHOLE, FIXED], ids=["same name", "another name"])
async def test_counted_devices_wait_while_a_claim_holds_a_device_of_the_fallback(
    tmp_path: Path, fallback: Pool, restart: bool
) -> None:
    """The part of the hardware that the claim uses is not counted."""
    claims, reports, (held,) = Claims(), Reports(), [device.name for device in fallback.devices]
    options: dict[str, Any] = {
        "allocation_lookup": claims,
        "on_status": reports,
        "on_dropped": offers(fallback),
    }
    async with a_world(tmp_path) as world, AsyncExitStack() as stack:
        async with AsyncExitStack() as first:
            publisher = await first.enter_async_context(world.publisher(**options))
            publisher.want([COUNTED])
            await publisher.wait_settled(40)
            await world.regate(**{GATE: False})
            publisher.want([change_attributes(COUNTED)])
            await reports.until(lambda status: status.state is PoolState.FALLBACK)
            claims.held.add(held)
            await world.regate(**{GATE: True})
            if not restart:
                stack.push_async_exit(first.pop_all())
        if restart:
            publisher = await stack.enter_async_context(world.publisher(**options))
        publisher.want([COUNTED])
        status = await reports.until(lambda status: status.state is PoolState.HELD)
        assert status.held_by == (f"ns/{held}",)
        assert await world.devices() == [held]
        claims.held.clear()
        await reports.until(lambda status: status.state is PoolState.PUBLISHED)
        assert await world.devices() == ["part-0", "part-1", "whole"]
