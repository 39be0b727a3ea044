"""Extenders that are killed while their writes are on their way, which are stored after the next one has begun.

Some writes to claims are answered with 409. The laws are those of `test_the_extender_under_faults`, with one
difference: two claims may have one device until the present leader has reverted one of the allocations. SEED in
the environment is the first seed.
"""

import asyncio
import os
from typing import Final

import pytest

from dradriver.kube.errors import Conflict
from tests.properties.extender.test_the_extender_under_faults import RandomRun
from tests.properties.extender.virtual_time import run

FIRST_SEED: Final = int(os.environ.get("SEED") or 0)
SEEDS: Final = range(FIRST_SEED, FIRST_SEED + max(30, int(os.environ.get("KILLS", "0"))))
EVENTS: Final = 60
RESTARTS: Final = 0.3
"""The rate of events that are followed by a kill."""


class RandomLateRun(RandomRun):
    """One run with many kills."""

    async def execute(self) -> None:
        self.api.stores_late = True
        self.api.delays = [0.001, 0.1, 1.0, 3.0]
        async with self.scheduler:
            await self.restart()
            self.api.fault_rate = 0.05
            self.scheduler.impatience = self.chance.choice([0.0, 0.2])
            for _ in range(EVENTS):
                self.api.storm = self.chance.choice([None, None, None, Conflict])
                await self.event()
                await asyncio.sleep(self.chance.choice([0, 0.001, 0.05, 0.5, 5.0]))
                if self.chance.random() < RESTARTS:
                    await self.restart()
            self.api.storm = None
            await asyncio.gather(*self.api.late_writes)
            await self.settle()
            self.check()
            await self.extender.kill()


@pytest.mark.parametrize("seed", SEEDS)
def test_no_late_write_of_a_former_leader_gives_a_device_to_two_bound_pods(seed: int) -> None:
    run(RandomLateRun(seed).execute())
