"""A process is killed before and after each change of the kernel (without `make faults`: each third time)."""

import os
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from dradriver_fabric_cxl.memory import MemoryMode
from dradriver_fabric_cxl.memory.simulator import MemoryFileStore, MemoryHook, SimulatedMemory
from tests.drivers.fabric_cxl.memory_suite import MODES, SERIAL
from tests.drivers.processes import run_forked

GIB = 1 << 30
STRIDE = 1 if "KILLS" in os.environ else 3


def kill_at(moment: int) -> MemoryHook:
    left = moment

    def hook(_call: str, _when: str) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    return hook


def act(memory: SimulatedMemory, action: Callable[[SimulatedMemory], object]) -> None:
    action(memory)


def killed_nodes(
    path: Path, prepare: Callable[[SimulatedMemory], object], action: Callable[[SimulatedMemory], object]
) -> Iterator[SimulatedMemory]:
    """Yield a node for each moment at which the process dies during the action."""
    moment = 1
    while True:
        store = MemoryFileStore(path / f"{moment}.json")
        memory = SimulatedMemory(store)
        memory.plug(SERIAL, GIB)
        prepare(memory)
        if (status := run_forked(partial(act, SimulatedMemory(store, hook=kill_at(moment)), action))) == 0:
            assert moment > 10
            return
        assert status == -signal.SIGKILL
        yield memory
        moment += STRIDE


def assert_nothing_is_left(memory: SimulatedMemory) -> None:
    memory.take_back(SERIAL)
    assert memory.devices()[0].usable is None
    assert (memory.ram_bytes, memory.phantom_bytes, memory.remove_abandoned()) == (0, 0, ())
    # A name that stuck to a driver would decide the driver of the next region.
    assert memory.make(SERIAL, MemoryMode.DEVDAX).dax == "dax0.0"


def make_ram(memory: SimulatedMemory) -> None:
    """Make system RAM: on its way, the memory is a character device."""
    memory.make(SERIAL, MemoryMode.SYSTEM_RAM)


def test_making_is_continued(tmp_path: Path) -> None:
    for memory in killed_nodes(tmp_path, lambda _: None, make_ram):
        make_ram(memory)
        assert memory.devices()[0].usable is not None
        assert memory.phantom_bytes == 0
        assert memory.remove_abandoned() == ()


def test_making_is_undone(tmp_path: Path) -> None:
    for memory in killed_nodes(tmp_path, lambda _: None, make_ram):
        assert_nothing_is_left(memory)


@pytest.mark.parametrize("mode", MODES)
def test_taking_back_is_continued(tmp_path: Path, mode: MemoryMode) -> None:
    def make(memory: SimulatedMemory) -> None:
        memory.make(SERIAL, mode)

    for memory in killed_nodes(tmp_path, make, lambda killed: killed.take_back(SERIAL)):
        assert_nothing_is_left(memory)


def test_memory_is_used_again_after_taking_back_was_killed(tmp_path: Path) -> None:
    for memory in killed_nodes(tmp_path, make_ram, lambda killed: killed.take_back(SERIAL)):
        assert memory.make(SERIAL, MemoryMode.DEVDAX).mode is MemoryMode.DEVDAX
        assert memory.phantom_bytes == 0


def test_removal_of_an_abandoned_region_is_continued(tmp_path: Path) -> None:
    def pull(memory: SimulatedMemory) -> None:
        memory.make(SERIAL, MemoryMode.DEVDAX)
        memory.unplug(SERIAL)

    store = MemoryFileStore(tmp_path / "memory.json")
    memory = SimulatedMemory(store)
    for moment in range(1, 5):
        memory.plug(SERIAL, GIB)
        pull(memory)
        killed = SimulatedMemory(store, hook=kill_at(moment))
        assert run_forked(partial(act, killed, SimulatedMemory.remove_abandoned)) == -signal.SIGKILL
        memory.remove_abandoned()
        assert memory.remove_abandoned() == ()
