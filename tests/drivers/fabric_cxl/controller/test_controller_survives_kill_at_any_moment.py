"""The controller's process is killed around each change of the fabric; the next process continues."""

import asyncio
import signal
from pathlib import Path

import pytest

from dradriver_fabric_cxl.fabric.simulator import FabricCall, FabricFileStore, FabricHook, SimulatedFabric
from tests.drivers.fabric_cxl.controller.controlled_claims import (
    CONTROLLER,
    SLICES,
    accelerator,
    allocate,
    driver_of,
    memory,
    pending,
    recorded,
)
from tests.drivers.fabric_cxl.fabric.simulator.test_fabric_survives_kill_at_any_moment import kill_at
from tests.drivers.fabric_cxl.fabric_suite import PACE
from tests.drivers.processes import run_forked

CLAIM = pending("uid-1", memory("1Gi"), accelerator())
MOMENTS = ["before", "after"]
ATTACHING = [
    (FabricCall.CREATE_CHUNK, 1),
    (FabricCall.CREATE_CONNECTION, 1),
    (FabricCall.CREATE_CONNECTION, 2),
]


@pytest.fixture(params=[0, 2], ids=["at once", "as a task"])
def looks(request: pytest.FixtureRequest) -> int:
    looks: int = request.param
    return looks


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize(("call", "number"), ATTACHING)
def test_an_allocation_is_completed_for_the_same_claim_with_the_same_devices(
    tmp_path: Path, call: FabricCall, number: int, moment: str, looks: int
) -> None:
    store = FabricFileStore(tmp_path / "fabric.json")
    assert in_a_fork(store, looks, kill_at(call, moment, number)) == -signal.SIGKILL
    begun = names_in(store)
    assert in_a_fork(store, looks) == 0
    assert begun <= names_in(store)
    assert count_objects(store) == 3  # a chunk, and two connections
    assert in_a_fork(store, looks) == 0
    assert count_objects(store) == 3


@pytest.mark.parametrize("settings", [CONTROLLER, SLICES])
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize(("call", "number"), ATTACHING)
def test_an_allocation_that_was_begun_is_taken_back_also_with_the_other_setting(
    tmp_path: Path, call: FabricCall, number: int, moment: str, settings: str, looks: int
) -> None:
    store = FabricFileStore(tmp_path / "fabric.json")
    assert in_a_fork(store, looks, kill_at(call, moment, number)) == -signal.SIGKILL
    assert take_back_in_a_fork(store, looks, settings) == 0
    assert count_objects(store) == 0


@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_deallocation_is_completed(tmp_path: Path, number: int, moment: str, looks: int) -> None:
    store = FabricFileStore(tmp_path / "fabric.json")
    assert in_a_fork(store, looks) == 0
    hook = kill_at(FabricCall.DELETE, moment, number)
    assert take_back_in_a_fork(store, looks, CONTROLLER, hook) == -signal.SIGKILL
    assert take_back_in_a_fork(store, looks, CONTROLLER) == 0
    assert count_objects(store) == 0


def in_a_fork(store: FabricFileStore, looks: int, hook: FabricHook = lambda *_: None) -> int:
    """Allocate the claim in a process of its own."""

    async def run() -> None:
        fabric = SimulatedFabric(store, hook=hook, pace=PACE, task_looks=looks)
        async with driver_of(fabric) as driver:
            (result,) = await allocate(driver, CLAIM)
            assert [each.request for each in result.devices] == ["memory", "gpu"]
            assert await driver.allocations() == {"uid-1"}

    return run_forked(lambda: asyncio.run(run()))


def take_back_in_a_fork(
    store: FabricFileStore, looks: int, settings: str, hook: FabricHook = lambda *_: None
) -> int:
    """Deallocate the claim in a process of its own, as the SDK does: for each claim that the fabric lists."""

    async def run() -> None:
        fabric = SimulatedFabric(store, hook=hook, pace=PACE, task_looks=looks)
        async with driver_of(fabric, settings) as driver:
            for uid in await driver.allocations():
                await driver.deallocate(recorded(uid))
            assert await driver.allocations() == set()

    return run_forked(lambda: asyncio.run(run()))


def names_in(store: FabricFileStore) -> set[str]:
    with store.change() as state:
        return {each.name for each in state.objects.values()}


def count_objects(store: FabricFileStore) -> int:
    with store.change() as state:
        return len(state.objects)
