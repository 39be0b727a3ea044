"""A process is killed around each change of the simulated fabric; the next process continues."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from dradriver_fabric_cxl.fabric import AttachmentIdentity, AttachRequest, MemoryRequest
from dradriver_fabric_cxl.fabric.simulator import FabricCall, FabricFileStore, FabricHook, SimulatedFabric
from tests.drivers.fabric_cxl.fabric_suite import PACE
from tests.drivers.processes import run_forked

IDENTITY = AttachmentIdentity("claim", "pool", "device", "now")
REQUEST = AttachRequest(IDENTITY, "host-1", MemoryRequest("pool-a", 1024))
MOMENTS = ["before", "after"]


def kill_at(call: FabricCall, moment: str, number: int) -> FabricHook:
    left = number

    def hook(name: str, when: str) -> None:
        nonlocal left
        if (name, when) == (call.value, moment):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    return hook


@pytest.fixture(params=[0, 2], ids=["at once", "as a task"])
def looks(request: pytest.FixtureRequest) -> int:
    looks: int = request.param
    return looks


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("call", [FabricCall.CREATE_CHUNK, FabricCall.CREATE_CONNECTION])
def test_an_attach_that_was_killed_is_continued(
    tmp_path: Path, call: FabricCall, moment: str, looks: int
) -> None:
    store = FabricFileStore(tmp_path / "fabric.json")
    killed = SimulatedFabric(store, hook=kill_at(call, moment, 1), pace=PACE, task_looks=looks)
    assert run_forked(lambda: asyncio.run(attach(killed))) == -signal.SIGKILL
    next_one = SimulatedFabric(store, pace=PACE, task_looks=looks)
    assert run_forked(lambda: asyncio.run(attach(next_one))) == 0
    assert count_objects(store) == 2


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_detach_that_was_killed_is_continued(tmp_path: Path, number: int, moment: str, looks: int) -> None:
    store = FabricFileStore(tmp_path / "fabric.json")
    hook = kill_at(FabricCall.DELETE, moment, number)
    killed = SimulatedFabric(store, hook=hook, pace=PACE, task_looks=looks)
    assert run_forked(lambda: asyncio.run(attach(killed))) == 0
    assert run_forked(lambda: asyncio.run(killed.detach(IDENTITY.tag))) == -signal.SIGKILL
    next_one = SimulatedFabric(store, pace=PACE, task_looks=looks)
    assert run_forked(lambda: asyncio.run(next_one.detach(IDENTITY.tag))) == 0
    assert count_objects(store) == 0


async def attach(fabric: SimulatedFabric) -> None:
    assert (await fabric.attach(REQUEST)).connected


def count_objects(store: FabricFileStore) -> int:
    with store.change() as state:
        return len(state.objects)
