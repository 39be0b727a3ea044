"""A real process is killed at random points, again and again, in one folder; after each the views agree."""

import asyncio
import random
import subprocess
import sys
from pathlib import Path

import pytest

from dradriver.node.state.claim_states import ClaimState
from tests.unit.node.killed import FolderDriver, claims
from tests.unit.node.world import World, ref

KILLS = 6


@pytest.mark.timeout(60 + 10 * KILLS)
async def test_after_each_kill_every_claim_is_prepared_once_or_not_at_all(tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")  # shown when the test fails
    chance = random.Random(seed)
    for _ in range(KILLS):
        await kill_one(tmp_path, chance)
        await assert_converges(tmp_path, chance)


async def kill_one(root: Path, chance: random.Random) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.unit.node.killed",
        str(root),
        str(chance.randrange(2**32)),
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"working\n"
    await asyncio.sleep(chance.uniform(0, 0.05))
    process.kill()
    await process.wait()


async def assert_converges(root: Path, chance: random.Random) -> None:
    world, known = World(root), claims()
    kept = [claim for n, claim in enumerate(known) if n % 2 == chance.randrange(2)]
    for claim in kept:
        world.api.add(claim)
    driver = FolderDriver(root / "hardware")
    async with world.running(driver=driver) as process:
        await process.reconciler.collect()
        await process.reconciler.sweep()
        wanted = {claim.results[0].device: claim for claim in kept}.values()
        for unwanted in set(map(ref, kept)) - set(map(ref, wanted)):
            await process.unprepare(unwanted)
        for claim in wanted:
            await process.prepare(claim)
        rows = await process.rows()
        assert {row.state for row in rows} <= {ClaimState.PREPARED}
        uids = {claim.metadata.uid for claim in wanted}
        assert uids == {row.uid for row in rows} == world.specs() == driver.prepared_claims()
