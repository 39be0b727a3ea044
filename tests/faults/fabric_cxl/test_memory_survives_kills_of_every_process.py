"""kill -9 of the manager and of both halves of the driver for CXL memory, while pods come and go.

The manager is the emulator, which also fails on demand: lost tasks and answers, 409, 503, 507, sessions that
end. Its hook plugs memory into the nodes, and judges each change (`slots.py`). In times without kills and
failures, the memory on the manager must become what claims are allocated.

KILLS in the environment sets the number of kills of each of the three (`make faults`; without it, the test is
skipped). SEED repeats a run.
"""

import os
import random
from pathlib import Path
from typing import Final

import pytest

from tests.faults.fabric_cxl.fabric_cluster import run_fabric_cluster
from tests.seeds import choose_seed

KILLS: Final = int(os.environ.get("KILLS", "0"))
KILLS_BETWEEN_QUIETS: Final = 50
# The seeds of earlier failures are kept beside the tests and run first.
FAILED: Final = Path(__file__).with_name("failed_seeds.txt")
SEEDS: Final = [
    *map(int, FAILED.read_text().split() if FAILED.exists() else ()),
    int(os.environ.get("SEED", "0")),
]


@pytest.mark.skipif(not KILLS, reason="make faults runs it")
@pytest.mark.timeout(300 + 5 * KILLS)
@pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: str(seed or "random"))
async def test_after_kills_the_manager_has_the_memory_of_allocated_claims_only(
    seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", "dradriver.cluster.kubelet")  # shown if the test fails
    seed = seed or choose_seed()
    print(f"SEED={seed} KILLS={KILLS}")
    try:
        await kill_and_compare(seed)
    except BaseException:
        with FAILED.open("a") as kept:
            kept.write(f"{seed}\n")
        raise


async def kill_and_compare(seed: int) -> None:
    """Kill each part at random moments, and compare in times of quiet."""
    chance = random.Random(seed)
    async with run_fabric_cluster(chance) as cluster:
        await cluster.settle()
        for done in range(0, KILLS, KILLS_BETWEEN_QUIETS):
            async with cluster.load():
                for _ in range(min(KILLS_BETWEEN_QUIETS, KILLS - done)):
                    await cluster.kill_each()
            await cluster.settle()
        cluster.print_counts()
        assert cluster.slots.connections >= KILLS // 10, "too little happened between the kills"
        await cluster.end()
