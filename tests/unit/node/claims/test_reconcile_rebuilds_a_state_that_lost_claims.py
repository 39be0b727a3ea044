"""A state file that lost its newest transactions (a bad disk cut its WAL) knows less than specs and driver."""

import asyncio
import os
import shutil
import sqlite3
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager, closing
from pathlib import Path

import msgspec
import pytest

from dradriver.kube.errors import Unavailable
from dradriver.node.errors import DeviceInUseError, IncompleteStateError, InProgressError
from dradriver.node.files.cdi import CdiNames
from dradriver.node.state.claim_states import ClaimState
from dradriver.node.state.rows import Rows
from tests.unit.node.world import DRIVER, Process, World, allocated, ref


@asynccontextmanager
async def losing_the_newest(world: World) -> AsyncIterator[tuple[Process, Callable[[], None]]]:
    """A process that is killed at the end; its WAL is cut to what it was when the function was called."""
    wal = Path(f"{world.state_file}-wal")
    sizes: list[int] = []
    copy = world.root / "copy"
    copy.mkdir()
    async with world.running() as process:
        yield process, lambda: sizes.append(wal.stat().st_size)
        for part in (world.state_file, wal):
            shutil.copy(part, copy)
    for part in copy.iterdir():
        shutil.copy(part, world.root)
    os.truncate(wal, *sizes)


async def lose(world: World, name: str) -> None:
    """Prepares claim `kept` on lamp-0 and then this one on lamp-1, whose transactions are lost."""
    async with losing_the_newest(world) as (process, cut_here):
        await process.prepare(world.api.add(allocated("kept", "lamp-0")))
        cut_here()
        await process.prepare(world.api.add(allocated(name, "lamp-1")))


def uid(world: World, name: str) -> str:
    return world.api.claims["default", name].metadata.uid


@pytest.mark.parametrize("witness", ["spec and driver", "spec", "driver"])
async def test_the_device_of_a_lost_claim_is_given_to_no_other(world: World, witness: str) -> None:
    await lose(world, "first")
    if witness == "spec":
        del world.hardware[uid(world, "first")]
    if witness == "driver":
        (world.cdi_dir / CdiNames(DRIVER).file(uid(world, "first"))).unlink()
    async with world.running(complete=False) as process:
        assert [row.record.name for row in await process.rows()] == ["kept"]
        await process.rebuilder.ensure_complete()
        with pytest.raises(DeviceInUseError, match="lamp-1 is prepared for claim default/first"):
            await process.prepare(allocated("second", "lamp-1"))
        assert {row.record.name: row.state for row in await process.rows()} == {
            "kept": ClaimState.PREPARED,
            "first": ClaimState.PREPARED,
        }
    assert world.specs() == set(world.hardware) == {uid(world, "kept"), uid(world, "first")}


async def test_nothing_is_prepared_before_the_state_is_compared_with_specs_and_driver(world: World) -> None:
    await lose(world, "first")
    rival = allocated("second", "lamp-1")
    async with world.running(complete=False, deadline=0.01) as process:
        world.api.failure = Unavailable("connection refused")
        completing = asyncio.create_task(process.rebuilder.ensure_complete())
        while await process.state.read(Rows.is_marked_complete):
            with pytest.raises(InProgressError, match="waits: the prepared state is being rebuilt"):
                await process.prepare(rival)
        completing.cancel()
        await asyncio.gather(completing, return_exceptions=True)
    # The next process has nothing but the mark in the file to go by.
    world.hardware.clear()
    for path in world.cdi_dir.iterdir():
        path.unlink()
    world.api.failure = None
    async with world.running(complete=False) as process:
        await process.rebuilder.ensure_complete()
        with pytest.raises(DeviceInUseError, match="lamp-1 is prepared for claim default/first"):
            await process.prepare(rival)


async def test_a_lost_claim_that_is_gone_is_unprepared_and_its_device_is_free(world: World) -> None:
    await lose(world, "first")
    world.api.delete(world.api.claims["default", "first"])
    async with world.running(complete=False) as process:
        await process.rebuilder.ensure_complete()
        assert process.driver.calls == ["unprepare "]
        assert world.specs() == set(world.hardware) == {uid(world, "kept")}
        await process.prepare(allocated("second", "lamp-1"))


async def test_a_stale_record_takes_no_device_from_the_claim_that_has_it_now(
    world: World,
) -> None:
    async with losing_the_newest(world) as (process, cut_here):
        before = world.api.add(allocated("before", "lamp-0"))
        await process.prepare(before)
        cut_here()
        world.api.delete(before)
        await process.unprepare(ref(before))
        await process.prepare(world.api.add(allocated("now", "lamp-0")))
    async with world.running(complete=False) as process:
        assert [row.record.name for row in await process.rows()] == ["before"]
        await process.rebuilder.ensure_complete()
        await process.reconciler.collect()
        assert {row.record.name: row.state for row in await process.rows()} == {"now": ClaimState.PREPARED}
        assert process.driver.calls == ["prepare now"]
    assert world.specs() == set(world.hardware) == {uid(world, "now")}


async def test_a_record_whose_end_was_lost_is_unprepared(world: World) -> None:
    async with losing_the_newest(world) as (process, cut_here):
        before = world.api.add(allocated("before", "lamp-0"))
        await process.prepare(before)
        cut_here()
        world.api.delete(before)
        await process.unprepare(ref(before))
        await process.prepare(world.api.add(allocated("now", "lamp-1")))
    async with world.running(complete=False) as process:
        await process.rebuilder.ensure_complete()
        assert [row.record.name for row in await process.rows()] == ["now"]
        assert process.driver.calls == ["unprepare before", "prepare now"]


async def test_the_record_of_a_claim_that_is_still_allocated_stays(world: World) -> None:
    """It has no spec, no node selector, and the driver does not report it: only the record keeps its device."""
    kept = allocated("kept", "lamp-0")
    assert kept.status.allocation is not None
    allocation = msgspec.structs.replace(kept.status.allocation, node_selector=None)
    kept = msgspec.structs.replace(kept, status=msgspec.structs.replace(kept.status, allocation=allocation))
    async with losing_the_newest(world) as (process, cut_here):
        await process.prepare(world.api.add(kept))
        cut_here()
        await process.prepare(world.api.add(allocated("first", "lamp-1")))
    del world.hardware[uid(world, "kept")]
    (world.cdi_dir / CdiNames(DRIVER).file(uid(world, "kept"))).unlink()
    async with world.running(complete=False) as process:
        await process.rebuilder.ensure_complete()
        with pytest.raises(DeviceInUseError, match="lamp-0 is prepared for claim default/kept"):
            await process.prepare(allocated("second", "lamp-0"))


async def test_a_complete_state_causes_no_request_to_the_api_server(world: World) -> None:
    async with world.running() as process:
        await process.prepare(world.api.add(allocated("claim", "lamp-0")))
    world.api.failure = Unavailable("connection refused")
    async with world.running(complete=False) as process:
        await process.rebuilder.ensure_complete()
        assert process.claims.state_complete.is_set()


async def test_a_claim_that_another_instance_unprepares_meanwhile_is_not_lost(world: World) -> None:
    claim = world.api.add(allocated("claim", "lamp-0"))
    async with world.running() as one, world.running(complete=False) as two:
        await one.prepare(claim)
        known = two.driver.prepared_claims

        async def unprepared_right_after() -> Collection[str]:
            found = known()
            await one.unprepare(ref(claim))
            return found

        two.driver.prepared_claims = unprepared_right_after  # type: ignore[method-assign, assignment]
        world.api.failure = Unavailable("connection refused")
        await two.rebuilder.ensure_complete()


async def test_a_file_that_is_opened_again_is_compared_again(world: World) -> None:
    async with world.running() as process:
        claim = world.api.add(allocated("claim", "lamp-0"))
        await process.prepare(claim)
        old = world.root / "old.db"
        with closing(sqlite3.connect(world.state_file)) as source, closing(sqlite3.connect(old)) as target:
            source.backup(target)
        await process.prepare(world.api.add(allocated("first", "lamp-1")))
        old.replace(world.state_file)  # an admin puts a backup back
        for part in ("-wal", "-shm"):
            Path(f"{world.state_file}{part}").unlink()
        with pytest.raises(IncompleteStateError, match="is checked or rebuilt first"):
            await process.prepare(allocated("second", "lamp-1"))
        await process.rebuilder.ensure_complete()
        with pytest.raises(DeviceInUseError, match="lamp-1 is prepared for claim default/first"):
            await process.prepare(allocated("second", "lamp-1"))
