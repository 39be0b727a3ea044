"""A process that dies between any two side effects: the next one brings the claim to the same end."""

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from dradriver import ContainerEdits, PreparedDevice
from dradriver.model.resource.claim import ResourceClaim
from dradriver.node.crash_points import CrashPoint
from dradriver.node.state.claim_states import ClaimState
from tests.unit.node.world import LampDriver, Process, World, allocated, ref

PREPARE = [step for step in CrashPoint if step.name.startswith("PREPARE")]
UNPREPARE = [step for step in CrashPoint if step.name.startswith("UNPREPARE")]


class Killed(BaseException):
    """The process is gone: nothing catches this."""


class KillAt:
    """Kills at one step, once."""

    def __init__(self, step: CrashPoint) -> None:
        self.step = step
        self.killed = False

    def __call__(self, step: CrashPoint, uid: str) -> None:
        if step is self.step and not self.killed:
            self.killed = True
            raise Killed


async def prepared_then_killed(world: World, claim: ResourceClaim, step: CrashPoint) -> None:
    kill = KillAt(step)
    process = await world.start(observe=kill)
    try:
        with suppress(Killed):
            await process.prepare(claim)
            await process.unprepare(ref(claim))
    finally:
        await process.die()
    assert kill.killed


async def assert_prepared(world: World, process: Process, claim: ResourceClaim) -> None:
    """Prepared set = state = CDI folder = hardware."""
    uid = claim.metadata.uid
    assert [(row.uid, row.state) for row in await process.rows()] == [(uid, ClaimState.PREPARED)]
    assert world.specs() == set(world.hardware) == {uid}


async def assert_absent(world: World, process: Process) -> None:
    assert await process.rows() == []
    assert world.specs() == set()
    assert world.hardware == {}
    assert not any((world.root / "metadata").glob("*"))


@pytest.mark.parametrize("step", PREPARE)
async def test_a_prepare_that_was_killed_is_finished_by_the_next(world: World, step: CrashPoint) -> None:
    claim = allocated("claim", "lamp-0")
    await prepared_then_killed(world, claim, step)
    async with world.running() as process:
        assert await process.prepare(claim)
        await assert_prepared(world, process, claim)


@pytest.mark.parametrize("step", [*PREPARE, *UNPREPARE])
async def test_a_killed_operation_can_be_unprepared(world: World, step: CrashPoint) -> None:
    claim = allocated("claim", "lamp-0")
    await prepared_then_killed(world, claim, step)
    async with world.running() as process:
        await process.unprepare(ref(claim))
        await assert_absent(world, process)


@pytest.mark.parametrize("step", UNPREPARE)
async def test_an_unprepare_that_was_killed_is_ended_before_a_new_prepare(
    world: World, step: CrashPoint
) -> None:
    claim = allocated("claim", "lamp-0")
    await prepared_then_killed(world, claim, step)
    async with world.running() as process:
        assert await process.prepare(claim)
        await assert_prepared(world, process, claim)


@pytest.mark.parametrize("step", [*PREPARE, *UNPREPARE])
async def test_a_killed_operation_whose_claim_is_gone_is_collected(world: World, step: CrashPoint) -> None:
    await prepared_then_killed(world, allocated("claim", "lamp-0"), step)
    async with world.running() as process:
        await process.reconciler.collect()
        await process.reconciler.sweep()
        await assert_absent(world, process)


@pytest.mark.parametrize("step", PREPARE)
async def test_a_partly_prepared_claim_keeps_its_device(world: World, step: CrashPoint) -> None:
    await prepared_then_killed(world, allocated("claim", "lamp-0"), step)
    async with world.running() as process:
        with pytest.raises(Exception, match="is prepared for claim default/claim"):
            await process.prepare(allocated("rival", "lamp-0"))


@pytest.mark.parametrize("step", PREPARE)
async def test_a_new_state_file_is_filled_from_other_sources(world: World, step: CrashPoint) -> None:
    """The process dies and its state file is lost: the API server, the specs and the driver remember."""
    claim = world.api.add(allocated("claim", "lamp-0"))
    await prepared_then_killed(world, claim, step)
    lose_state(world.root)
    async with world.running(complete=False) as process:
        await process.rebuilder.ensure_complete()
        await process.prepare(claim)
        await assert_prepared(world, process, claim)
        await process.reconciler.collect()
        await assert_prepared(world, process, claim)


def lose_state(root: Path) -> None:
    for path in root.glob("state.db*"):
        path.unlink()


async def test_the_driver_prepares_again_after_a_reboot(world: World) -> None:
    claim = allocated("claim", "lamp-0")
    async with world.running() as process:
        first = await process.prepare(claim)
    world.boot_id = "boot-2"
    world.hardware.clear()
    for path in world.cdi_dir.iterdir():  # /var/run is empty after a reboot
        path.unlink()
    async with world.running() as process:
        await process.reconciler.sweep()
        assert world.specs() == set(), "its edits may be different ones in this boot"
        assert await process.prepare(claim) == first
        await assert_prepared(world, process, claim)
        await process.prepare(claim)
        assert process.driver.calls == ["prepare claim"]


@pytest.mark.parametrize("kept", [0, 20], ids=["empty", "cut off"])
async def test_incomplete_files_after_a_crash_of_the_machine_are_written_again(world: World, kept: int) -> None:
    claim = allocated("claim", "lamp-0")
    files = [world.cdi_dir, world.root / "metadata"]
    driver = LampDriver(world.hardware)
    driver.answer = lambda device: PreparedDevice(ContainerEdits(env=["LAMP=on"]), metadata={"color": "red"})
    async with world.running(driver=driver) as process:
        await process.prepare(claim)
        whole = {path: path.read_bytes() for folder in files for path in folder.rglob("*.json")}
    assert len(whole) == 2
    world.boot_id = "boot-2"
    world.hardware.clear()
    for path, text in whole.items():
        path.write_bytes(text[:kept])
    async with world.running(driver=driver) as process:
        await process.prepare(claim)
        await assert_prepared(world, process, claim)
    assert {path: path.read_bytes() for path in whole} == whole


async def test_a_claim_of_an_earlier_boot_keeps_its_device(world: World) -> None:
    async with world.running() as process:
        await process.prepare(allocated("claim", "lamp-0"))
    world.boot_id = "boot-2"
    async with world.running() as process:
        with pytest.raises(Exception, match="is prepared for claim default/claim"):
            await process.prepare(allocated("rival", "lamp-0"))


async def test_work_that_a_stop_abandoned_is_adopted_by_the_next_process(world: World) -> None:
    claim = allocated("claim", "lamp-0")
    process = await world.start()
    process.driver.gate = asyncio.Event()
    preparing = asyncio.create_task(process.prepare(claim))
    while not process.driver.calls:
        await asyncio.sleep(0.01)
    await process.die()
    with pytest.raises(Exception, match="was interrupted"):
        await preparing
    async with world.running() as process:
        await process.prepare(claim)
        await assert_prepared(world, process, claim)
