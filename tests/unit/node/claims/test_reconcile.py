"""Repairs that no call requests: claims that are gone, lost files, files without a claim."""

import asyncio

import pytest

from dradriver.driver import Claim
from dradriver.errors import DraError
from dradriver.kube.errors import Unavailable
from dradriver.model.resource.claim import ResourceClaim
from dradriver.node.state.claim_states import ClaimState
from tests.unit.node.world import Answers, World, allocated


@pytest.fixture
def outage() -> Unavailable:
    return Unavailable("connection refused")


async def test_a_claim_that_was_deleted_is_unprepared(world: World) -> None:
    claim = world.api.add(allocated("claim", "lamp-0"))
    async with world.running() as process:
        await process.prepare(claim)
        world.api.delete(claim)
        await process.reconciler.collect()
        assert await process.rows() == []
    assert (world.hardware, world.specs()) == ({}, set())


async def test_a_claim_that_was_replaced_is_unprepared(world: World) -> None:
    old = allocated("claim", "lamp-0")
    async with world.running() as process:
        await process.prepare(old)
        world.api.add(allocated("claim", "lamp-1"))
        await process.reconciler.collect()
        assert await process.rows() == []


@pytest.mark.parametrize("now", [allocated("claim"), allocated("claim", "lamp-0", node="node-2")])
async def test_a_claim_that_is_no_longer_allocated_here_is_unprepared(world: World, now: ResourceClaim) -> None:
    async with world.running() as process:
        await process.prepare(allocated("claim", "lamp-0", uid=now.metadata.uid))
        world.api.add(now)
        await process.reconciler.collect()
        assert await process.rows() == []


async def test_a_claim_that_still_exists_stays_prepared(world: World) -> None:
    claim = world.api.add(allocated("claim", "lamp-0"))
    async with world.running() as process:
        await process.prepare(claim)
        await process.reconciler.collect()
        await process.reconciler.sweep()
        assert [row.state for row in await process.rows()] == [ClaimState.PREPARED]
        assert process.driver.calls == ["prepare claim"]


async def test_nothing_is_collected_while_the_api_server_is_unavailable(
    world: World, outage: Unavailable
) -> None:
    async with world.running() as process:
        await process.prepare(allocated("claim", "lamp-0"))
        world.hardware["left-behind"] = ("lamp-1",)
        world.api.failure = outage
        await process.reconciler.collect()
        assert len(await process.rows()) == 1
    assert "left-behind" in world.hardware


async def test_an_error_of_one_claim_does_not_affect_others(world: World, outage: Unavailable) -> None:
    async with world.running() as process:
        for n in range(2):
            await process.prepare(allocated(f"claim-{n}", f"lamp-{n}"))
        world.api.failures["claim-0"] = outage
        await process.reconciler.collect()
        assert [row.record.name for row in await process.rows()] == ["claim-0"]


async def test_a_failed_unprepare_is_repeated_by_the_next_collection(world: World) -> None:
    async with world.running() as process:
        await process.prepare(allocated("claim", "lamp-0"))
        process.driver.failure = OSError("device is busy")
        await process.reconciler.collect()
        assert [row.state for row in await process.rows()] == [ClaimState.UNPREPARING]
        process.driver.failure = None
        await process.reconciler.collect()
        assert await process.rows() == []


async def test_a_claim_that_only_the_hardware_has_is_unprepared(world: World) -> None:
    known = world.api.add(allocated("claim", "lamp-1"))
    world.hardware |= {"left-behind": ("lamp-0",), known.metadata.uid: ("lamp-1",)}
    async with world.running() as process:
        await process.reconciler.collect()
    assert set(world.hardware) == {known.metadata.uid}


async def test_a_lost_spec_is_written_again_by_the_sweep(world: World) -> None:
    claim = allocated("claim", "lamp-0")
    async with world.running() as process:
        await process.prepare(claim)
        before = world.spec(claim)
        for path in world.cdi_dir.iterdir():
            path.unlink()
        await process.reconciler.sweep()
        assert world.spec(claim) == before
        assert process.driver.calls == ["prepare claim"]


async def test_a_lost_spec_is_written_again_by_the_next_prepare(world: World) -> None:
    claim = allocated("claim", "lamp-0")
    async with world.running() as process:
        await process.prepare(claim)
        before = world.spec(claim)
        for path in world.cdi_dir.iterdir():
            path.unlink()
        world.cdi_dir.rmdir()
        await process.prepare(claim)
        assert world.spec(claim) == before


async def test_a_spec_that_someone_changed_is_restored(world: World) -> None:
    claim = allocated("claim", "lamp-0")
    async with world.running() as process:
        await process.prepare(claim)
        before = world.spec(claim)
        for path in world.cdi_dir.iterdir():
            path.write_text("")
        await process.reconciler.sweep()
        assert world.spec(claim) == before


async def test_orphaned_specs_are_removed_and_foreign_files_stay(world: World) -> None:
    world.cdi_dir.mkdir()
    orphans = ["lamp.example.com-claim_uid-1.json", ".lamp.example.com-claim_uid-2.json.tmp"]
    foreign = [
        "lamp.example.com-claim.json",
        "lamp.example.com-claim_uid-1.yaml",
        "lamp.example.com.other-claim_uid-1.json",
        "other.example.com-claim_uid-1.json",
        "nvidia.json",
    ]
    for name in (*orphans, *foreign):
        (world.cdi_dir / name).write_text("{}")
    async with world.running() as process:
        await process.reconciler.sweep()
    assert {path.name for path in world.cdi_dir.iterdir()} == set(foreign)


async def test_a_full_disk_does_not_end_the_sweeps(world: World) -> None:
    claim = allocated("claim", "lamp-0")
    async with world.running() as process:
        await process.prepare(claim)
        for path in world.cdi_dir.iterdir():
            path.unlink()
        world.cdi_dir.rmdir()
        world.cdi_dir.write_text("in the way")
        await process.reconciler.sweep()
        world.cdi_dir.unlink()
        await process.reconciler.sweep()
        assert world.spec(claim)


async def test_a_claim_that_cannot_be_prepared_again_does_not_keep_the_state_incomplete(world: World) -> None:
    good, bad = world.api.add(allocated("good", "lamp-0")), world.api.add(allocated("bad", "lamp-1"))
    world.hardware |= {good.metadata.uid: ("lamp-0",), bad.metadata.uid: ("lamp-1",)}

    async with world.running(complete=False) as process:
        prepare = process.driver.prepare

        async def fails_for_bad(claim: Claim) -> Answers:
            if claim.name == "bad":
                raise DraError("it is stuck")
            return await prepare(claim)

        process.driver.prepare = fails_for_bad  # type: ignore[method-assign]
        await process.rebuilder.ensure_complete()
        states = {row.record.name: row.state for row in await process.rows()}
    assert states == {"good": ClaimState.PREPARED, "bad": ClaimState.PREPARING}


async def test_a_slow_prepare_does_not_delay_the_sweep(world: World) -> None:
    claim, slow = allocated("claim", "lamp-0"), allocated("slow", "lamp-1")
    async with world.running() as process:
        await process.prepare(claim)
        process.driver.gate = asyncio.Event()
        preparing = asyncio.create_task(process.prepare(slow))
        while len(process.driver.calls) < 2:
            await asyncio.sleep(0.01)
        for path in world.cdi_dir.iterdir():
            path.unlink()
        await process.reconciler.sweep()
        assert world.specs() == {claim.metadata.uid}
        process.driver.gate.set()
        await preparing
        assert world.specs() == {claim.metadata.uid, slow.metadata.uid}
