"""kube-scheduler and an extender on an API server with long faults, in virtual time.

The API server is away for a whole minute, all watches are cut again and again, and storms of 409, 410, 429 and
500 last for half a minute. The laws are those of `test_the_extender_under_faults`. All pods come to rest soon
after the last fault. SEED in the environment is the first seed.
"""

import asyncio
import os
from typing import Final

import pytest

from dradriver.kube.errors import Conflict, TooManyRequests, Unavailable
from tests.properties.extender.test_the_extender_under_faults import QUIET, RandomRun
from tests.properties.extender.virtual_time import run

FIRST_SEED: Final = int(os.environ.get("SEED") or 0)
SEEDS: Final = range(FIRST_SEED, FIRST_SEED + max(6, int(os.environ.get("KILLS", "0")) // 10))
FAULTS: Final = ("away", "cut", "409", "429", "500")
AWAY_SECONDS: Final = 60.0
STORM_SECONDS: Final = 30.0
RECOVERY_SECONDS: Final = 120.0
"""Virtual seconds for a request that still hangs (30 s), and for backoffs and expired plans of several pods."""


class RandomLongRun(RandomRun):
    """One run with each fault once, in a random order."""

    async def execute(self) -> None:
        async with self.scheduler:
            await self.restart()
            self.scheduler.impatience = self.chance.choice([0.0, 0.2])
            for fault in self.chance.sample(FAULTS, len(FAULTS)):
                await self.change_for(self.chance.uniform(0, 20))
                await self.suffer(fault)
            start = asyncio.get_running_loop().time()
            await self.settle()
            assert asyncio.get_running_loop().time() - start < QUIET + RECOVERY_SECONDS
            self.check()
            await self.extender.kill()

    async def suffer(self, fault: str) -> None:
        if fault == "away":
            self.api.is_away = True
            ending = asyncio.get_running_loop().call_later(AWAY_SECONDS, self.end_outage)
            while self.api.is_away:
                await asyncio.sleep(self.chance.uniform(0, 20))
                if self.chance.random() < 0.3:
                    await self.restart()
            ending.cancel()
            return
        self.api.cuts_watches = fault == "cut"
        self.api.storm = {"409": Conflict, "429": TooManyRequests, "500": Unavailable}.get(fault)
        await self.change_for(STORM_SECONDS)
        self.api.cuts_watches, self.api.storm = False, None

    def end_outage(self) -> None:
        self.api.is_away = False

    async def change_for(self, seconds: float) -> None:
        """Change objects, and kill the extender at times."""
        end = asyncio.get_running_loop().time() + seconds
        while asyncio.get_running_loop().time() < end:
            await self.event()
            await asyncio.sleep(self.chance.choice([0, 0.5, 5.0, 5.0]))


@pytest.mark.parametrize("seed", SEEDS)
def test_no_long_fault_loses_a_pod_or_a_device(seed: int) -> None:
    run(RandomLongRun(seed).execute())
