"""Run in a guest: a process dies after any write to the kernel, and the next one continues."""

import os
import signal
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from dradriver_fabric_cxl.memory import Memory, MemoryMode
from dradriver_fabric_cxl.memory.sysfs import SysfsMemory, kernel
from tests.drivers.fabric_cxl.guest.controls import count_memory, eject, plug
from tests.drivers.fabric_cxl.memory_suite import MODES, SERIAL
from tests.drivers.processes import run_forked

SIZE = 256 << 20


@pytest.fixture
def memory() -> Iterator[SysfsMemory]:
    plug(SERIAL, SIZE)
    memory = SysfsMemory()
    yield memory
    memory.take_back(SERIAL)
    eject(SERIAL)


def die_after(writes: int, action: Callable[[Memory], object]) -> None:
    """Do something, but die after some writes to the kernel."""
    left = writes

    def dying(write: Callable[..., object]) -> Callable[..., object]:
        def write_and_die(*arguments: object) -> object:
            nonlocal left
            result = write(*arguments)
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return write_and_die

    for name in ("write", "write_all"):
        setattr(kernel, name, dying(getattr(kernel, name)))
    action(SysfsMemory())


def deaths(action: Callable[[Memory], object]) -> Iterator[int]:
    """Let processes die during an action, each after one write more; end when one did not die."""
    writes = 1
    while (status := run_forked(partial(die_after, writes, action))) != 0:
        assert status == -signal.SIGKILL
        yield writes
        writes += 1
    assert writes > 5


@pytest.mark.parametrize("mode", MODES)
def test_memory_is_made_after_a_death_at_any_write(memory: SysfsMemory, mode: MemoryMode) -> None:
    own = count_memory()
    for _ in deaths(lambda dying: dying.make(SERIAL, mode)):
        usable = memory.make(SERIAL, mode)
        assert (usable.mode, usable.bytes) == (mode, SIZE)
        memory.take_back(SERIAL)
        assert count_memory() == own


@pytest.mark.parametrize("mode", MODES)
def test_memory_is_taken_back_after_a_death_at_any_write(memory: SysfsMemory, mode: MemoryMode) -> None:
    own = count_memory()
    memory.make(SERIAL, mode)
    for _ in deaths(lambda dying: dying.take_back(SERIAL)):
        memory.take_back(SERIAL)
        [device] = memory.devices()
        assert device.usable is None
        assert memory.remove_abandoned() == ()
        assert count_memory() == own
        memory.make(SERIAL, mode)
