"""kill -9 and SIGSTOP of `dradriver scheduler run`, on an API server that fails: no device is held twice.

Two processes take turns with a Lease. A stand-in for kube-scheduler calls the one that answers. Each round
creates pods, lets requests fail or cuts watches, and kills or stops the leader at a random moment. A leader
that was stopped for longer than its Lease continues beside its successor, until it ends itself. The number of
rounds is a 16th of KILLS in the environment (default 12); SEED repeats the random choices.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from dradriver.cluster.apiserver import Fault
from tests.faults.extender_processes import Stage, open_stage

ROUNDS: Final = max(1, int(os.environ.get("KILLS", "12")) // 16)


def fail(stage: Stage) -> None:
    """Let the API server fail until `clear`."""
    faults = [
        [Fault("watch", after=1, count=-1)],
        [Fault(drop=True, count=-1)],
        [Fault(drop=True, applied=True, count=5)],
        [Fault("patch", code=409, count=3), Fault("create", "pods/binding", code=500, applied=True)],
        [Fault("patch", delay=0.3, count=-1), Fault("watch", code=410, count=4)],
        [Fault(code=429, count=5, retry_after=1)],
    ]
    for fault in stage.random.choice(faults):
        stage.server.faults.add(fault)


async def disturb(stage: Stage) -> None:
    """Kill the leader, or stop it until another process leads."""
    leader = await stage.find_leader()
    fail(stage)
    await asyncio.sleep(stage.random.random() / 2)
    process, kills = stage.processes[leader], stage.random.random() < 0.5
    # On a slow machine, the failures may last longer than the Lease. Then the leader has ended itself.
    with suppress(ProcessLookupError):
        process.send_signal(signal.SIGKILL if kills else signal.SIGSTOP)
    if kills:
        await process.wait()
    stage.server.faults.clear()
    if kills:
        await stage.restart_ended()
    else:
        await stage.find_leader()
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGCONT)


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with open_stage(tmp_path) as made, made.run():
        yield made


@pytest.mark.timeout(120 + ROUNDS * 30)
async def test_no_device_is_held_twice_and_no_claim_is_left_behind(stage: Stage) -> None:
    for _ in range(ROUNDS):
        await stage.make_pods()
        await disturb(stage)
        assert not stage.twice
        await stage.end_pods(stage.random.randrange(4))
    await stage.find_leader()
    await stage.make_pods()
    pods = stage.caches.pods.items
    await stage.until(lambda: sum(bool(pod.spec.node_name) for pod in pods.values()) == min(4, len(pods)))
    await stage.check_claims()
    await stage.end_pods(1000)
    await stage.until_nothing_is_left()
    assert not stage.twice
