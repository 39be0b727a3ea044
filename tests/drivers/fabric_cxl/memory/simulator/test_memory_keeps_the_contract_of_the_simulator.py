"""The contract of `Memory` on the simulator, and what only a simulator can show."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dradriver_fabric_cxl.memory import (
    CxlMemoryError,
    Memory,
    MemoryDevice,
    MemoryHealth,
    MemoryMode,
    NoAddressSpaceError,
    NodeUnsupportedError,
)
from dradriver_fabric_cxl.memory.kernel import DaxDriver
from dradriver_fabric_cxl.memory.simulator import MemoryCall, MemoryFileStore, SimulatedMemory
from dradriver_fabric_cxl.memory.simulator.kernel import SimulatedKernel
from tests.drivers.fabric_cxl.memory_suite import DATA, MODES, OTHER, SERIAL, HotplugSuite, UseSuite, find, get

GIB = 1 << 30


class SimulatedBench:
    size = GIB
    seconds = 5.0

    def __init__(self, path: Path) -> None:
        self.store = MemoryFileStore(path)
        self.memory = SimulatedMemory(self.store)
        self.memory.open()
        self.data: dict[int, bytes] = {}

    def another(self) -> Memory:
        return SimulatedMemory(self.store)

    def plug(self, serial: int, size: int) -> None:
        self.memory.plug(serial, size)

    def unplug(self, serial: int) -> None:
        self.memory.unplug(serial)

    @contextmanager
    def occupy(self, device: MemoryDevice) -> Iterator[None]:
        self.memory.set_in_use(device.serial, in_use=True)
        yield
        self.memory.set_in_use(device.serial, in_use=False)

    def write(self, device: MemoryDevice, data: bytes) -> None:
        assert not self.memory.is_clear(device.serial)
        self.data[device.serial] = data

    def read(self, device: MemoryDevice, size: int) -> bytes:
        return bytes(size) if self.memory.is_clear(device.serial) else self.data[device.serial][:size]

    def ram_bytes(self) -> int:
        return self.memory.ram_bytes


@pytest.fixture
def bench(tmp_path: Path) -> SimulatedBench:
    return SimulatedBench(tmp_path / "memory.json")


class TestUse(UseSuite):
    pass


class TestHotplug(HotplugSuite):
    pass


@pytest.fixture
def kernel(bench: SimulatedBench) -> SimulatedKernel:
    bench.plug(SERIAL, GIB)
    return SimulatedKernel(bench.store, lambda _call, _moment: None)


def test_the_kernel_would_remove_a_region_below_memory_that_is_online(
    bench: SimulatedBench, kernel: SimulatedKernel
) -> None:
    """Without this danger, the tests of `take_back` would show nothing."""
    usable = bench.memory.make(SERIAL, MemoryMode.SYSTEM_RAM)
    kernel.unbind_region(usable.region)
    kernel.uncommit(usable.region)
    kernel.delete_region(usable.region)
    assert bench.memory.phantom_bytes == GIB


def test_the_kernel_brings_memory_online_by_itself_and_not_as_movable(
    bench: SimulatedBench, kernel: SimulatedKernel
) -> None:
    device = kernel.read().memdevs[0]
    region = kernel.create_region(device.roots[0])
    kernel.set_size(region, GIB)
    kernel.set_target(region, device.decoders[0].name)
    kernel.commit(region)
    kernel.bind_region(region)
    (found,) = kernel.read().regions
    assert found.dax[0].driver is DaxDriver.KMEM
    assert all(block.online and not block.movable for block in found.blocks)
    assert get(bench).usable is None
    for mode in MODES:
        assert bench.memory.make(SERIAL, mode).mode is mode
    assert bench.memory.phantom_bytes == 0


@pytest.mark.parametrize("mode", MODES)
def test_memory_of_a_device_that_is_pulled_in_use_stays_until_the_reboot(
    bench: SimulatedBench, mode: MemoryMode
) -> None:
    bench.plug(SERIAL, GIB)
    usable = bench.memory.make(SERIAL, mode)
    bench.memory.set_in_use(SERIAL, in_use=True)
    bench.unplug(SERIAL)
    lost = mode is MemoryMode.SYSTEM_RAM
    assert bench.memory.remove_abandoned() == (() if lost else (usable.region,))
    assert bench.memory.phantom_bytes == (GIB // 4 if lost else 0)  # one block has pages of the program
    bench.memory.reboot()
    assert bench.memory.remove_abandoned() == ()
    assert bench.memory.phantom_bytes == 0


def test_devices_stay_plugged_in_after_a_reboot_and_regions_do_not(bench: SimulatedBench) -> None:
    bench.plug(SERIAL, GIB)
    bench.memory.make(SERIAL, MemoryMode.DEVDAX)
    bench.memory.reboot()
    assert get(bench).usable is None


def test_a_device_is_plugged_in_once(bench: SimulatedBench) -> None:
    """The hook that plugs it in is called again after a crash."""
    bench.plug(SERIAL, GIB)
    bench.plug(SERIAL, GIB)
    assert len(bench.memory.devices()) == 1
    bench.unplug(SERIAL)
    bench.unplug(SERIAL)
    assert find(bench) is None


def test_memory_that_does_not_fit_into_the_window_is_not_made(bench: SimulatedBench) -> None:
    bench.memory.set_window(GIB)
    bench.plug(SERIAL, GIB)
    bench.plug(OTHER, GIB)
    bench.memory.make(SERIAL, MemoryMode.DEVDAX)
    with pytest.raises(NoAddressSpaceError, match="1024 MiB"):
        bench.memory.make(OTHER, MemoryMode.DEVDAX)
    bench.memory.take_back(SERIAL)
    bench.memory.make(OTHER, MemoryMode.DEVDAX)


def test_a_region_of_a_pulled_device_does_not_keep_addresses(bench: SimulatedBench) -> None:
    bench.memory.set_window(GIB)
    bench.plug(SERIAL, GIB)
    bench.memory.make(SERIAL, MemoryMode.DEVDAX)
    bench.unplug(SERIAL)
    bench.plug(OTHER, GIB)
    assert bench.memory.make(OTHER, MemoryMode.DEVDAX).bytes == GIB


def test_a_node_that_can_use_no_memory_names_the_reason(bench: SimulatedBench) -> None:
    bench.plug(SERIAL, GIB)
    assert bench.memory.find_problem() == ""
    bench.memory.set_virtual(virtual=True)
    assert "virtual machine" in bench.memory.find_problem()
    with pytest.raises(NodeUnsupportedError, match="virtual machine"):
        bench.memory.make(SERIAL, MemoryMode.DEVDAX)
    bench.memory.set_window(0)
    assert "cxl_acpi" in bench.memory.find_problem()


def test_the_health_of_a_device_is_reported(bench: SimulatedBench) -> None:
    bench.plug(SERIAL, GIB)
    bench.memory.set_health(SERIAL, MemoryHealth.FAILED)
    assert get(bench).health is MemoryHealth.FAILED


@pytest.mark.parametrize("call", [MemoryCall.ONLINE, MemoryCall.BIND_DAX])
def test_memory_that_does_not_come_online_goes_back(bench: SimulatedBench, call: MemoryCall) -> None:
    bench.plug(SERIAL, GIB)
    bench.memory.make(SERIAL, MemoryMode.DEVDAX)
    bench.memory.fail(call)
    with pytest.raises(CxlMemoryError, match="movable"):
        bench.memory.make(SERIAL, MemoryMode.SYSTEM_RAM)
    assert get(bench).usable is None
    assert bench.memory.ram_bytes == 0
    assert bench.memory.make(SERIAL, MemoryMode.SYSTEM_RAM).mode is MemoryMode.SYSTEM_RAM


def test_data_of_the_last_owner_comes_with_the_device(bench: SimulatedBench) -> None:
    bench.plug(SERIAL, GIB)
    bench.memory.make(SERIAL, MemoryMode.DEVDAX)
    bench.memory.clear(SERIAL, lambda _: True)
    bench.unplug(SERIAL)
    bench.plug(SERIAL, GIB)
    bench.write(get(bench), DATA)
