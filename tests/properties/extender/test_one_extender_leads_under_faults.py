"""Pods of the scheduler on machines with wrong clocks, and an API server with long faults, in virtual time.

The wall clocks of the machines are up to 10 s wrong and are corrected at any time. The clocks that measure
durations begin at any time, and run up to 1 % too fast or too slow. At each write, the process that writes
holds the Lease of the extender. After the last fault, one process schedules, and goes on. SEED in the
environment is the first seed.
"""

import asyncio
import os
import random
from contextlib import AsyncExitStack

import pytest

from dradriver.kube import leader, leading
from tests.properties.extender.leases import (
    EXTENDER,
    KUBE_SCHEDULER,
    STORMS,
    LeaseServer,
    PodOfScheduler,
    WallClock,
    WatchdogTask,
)
from tests.properties.extender.virtual_time import run

FIRST_SEED = int(os.environ.get("SEED") or 0)
SEEDS = range(FIRST_SEED, FIRST_SEED + max(12, int(os.environ.get("KILLS", "0")) // 4))
FAULTS = 12
AWAY_SECONDS = 60.0
RECOVERY_SECONDS = 60.0


class RandomTerms:
    """One run of random faults."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.server = LeaseServer(self.chance)
        self.pods = [PodOfScheduler(f"pod-{number}", self.server, self.chance) for number in range(3)]

    async def execute(self) -> None:
        async with AsyncExitStack() as stack:
            for pod in self.pods:
                await stack.enter_async_context(pod)
            await asyncio.sleep(self.chance.uniform(1, 60))
            for _ in range(FAULTS):
                await self.disturb()
                assert not self.server.violations
                if self.chance.random() < 0.5:
                    self.calm()
                    await asyncio.sleep(self.chance.uniform(0, 30))
            self.calm()
            await asyncio.sleep(RECOVERY_SECONDS)
            await self.check()

    def calm(self) -> None:
        for pod in self.pods:
            pod.network.calm()

    async def disturb(self) -> None:
        """Begin a fault for all machines or for one of them; end a process, or correct a clock."""
        fault = self.chance.choice(["away", "storm", "slow", "kill", "kill", "stop", "clock"])
        affected = self.chance.choice([self.pods, [self.chance.choice(self.pods)]])
        if fault == "away":
            for pod in affected:
                pod.network.is_away = True
            await asyncio.sleep(AWAY_SECONDS)
            for pod in affected:
                pod.network.is_away = False
        elif fault == "storm":
            storm = self.chance.choice(STORMS)
            for pod in affected:
                pod.network.storm = storm
            await asyncio.sleep(20.0)
        elif fault == "slow":
            slowest = self.chance.choice([1.0, 4.0, 12.0])
            for pod in affected:
                pod.network.slowest = slowest
            await asyncio.sleep(30.0)
        elif fault == "kill":
            self.chance.choice(self.pods).kill(self.chance.choice([EXTENDER, KUBE_SCHEDULER]))
        elif fault == "stop":
            await self.stop(affected)
        else:
            self.chance.choice(self.pods).wall_offset[0] = self.chance.uniform(-10, 10)

    async def stop(self, pods: list[PodOfScheduler]) -> None:
        """Stop extenders while their writes are on their way."""
        for pod in self.pods:
            pod.network.slowest = max(1.0, pod.network.slowest)
        await asyncio.sleep(5.0)
        for pod in pods:
            pod.stop_extender()
        await asyncio.sleep(5.0)

    async def check(self) -> None:
        """Check that one process schedules for some time, in the pod whose kube-scheduler leads."""
        for _ in range(60):
            ready = [number for number, pod in enumerate(self.pods) if pod.is_ready]
            assert len(ready) == 1, f"{ready} schedule"
            holders = {self.server.holder(name).rpartition("_")[0] for name in (EXTENDER, KUBE_SCHEDULER)}
            assert holders == {f"pod-{ready[0]}"}
            before = self.server.writes
            await asyncio.sleep(2.0)
            assert self.server.writes > before
        assert not self.server.violations


@pytest.mark.parametrize("seed", SEEDS)
def test_one_extender_leads_under_faults(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader, "datetime", WallClock)
    monkeypatch.setattr(leading, "Watchdog", WatchdogTask)
    run(RandomTerms(seed).execute())
