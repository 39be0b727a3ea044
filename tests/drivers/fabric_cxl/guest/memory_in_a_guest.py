"""Run in a guest: the contract of `Memory` on the kernel's own CXL memory."""

import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from dradriver_fabric_cxl.memory import Memory, MemoryDevice, MemoryMode
from dradriver_fabric_cxl.memory.sysfs import SysfsMemory
from tests.drivers.fabric_cxl.guest.controls import count_memory, eject, request_plug, request_unplug
from tests.drivers.fabric_cxl.guest.pinning import PAGE, count_file_pages, mounted_memory, pinned_memory
from tests.drivers.fabric_cxl.memory_suite import SERIAL, HotplugSuite, UseSuite, find, until

PATIENCE: Final = 30.0
"""Seconds until memory in use is reported."""


class GuestBench:
    size = 256 << 20
    seconds = 120.0

    def __init__(self) -> None:
        self.memory = SysfsMemory(offline_seconds=PATIENCE)

    def another(self) -> Memory:
        return SysfsMemory(offline_seconds=PATIENCE)

    def plug(self, serial: int, size: int) -> None:
        request_plug(serial, size)  # a no-op if an earlier test has plugged it in

    def unplug(self, serial: int) -> None:
        request_unplug(serial)

    @contextmanager
    def occupy(self, device: MemoryDevice) -> Iterator[None]:
        assert device.usable is not None
        if device.usable.mode is MemoryMode.DEVDAX:
            with device.usable.path.open("rb"):
                yield
        else:
            with pinned_memory(device.usable.numa_node):
                yield

    def write(self, device: MemoryDevice, data: bytes) -> None:
        with self._map(device) as memory:
            memory[: len(data)] = data

    def read(self, device: MemoryDevice, size: int) -> bytes:
        with self._map(device) as memory:
            return memory[:size]

    def ram_bytes(self) -> int:
        return count_memory()

    def take_all_back(self) -> None:
        """Leave no region."""
        for device in self.memory.devices():
            self.memory.take_back(device.serial)
        self.memory.remove_abandoned()

    def eject_all(self) -> None:
        """Leave nothing plugged in."""
        for device in self.memory.devices():
            eject(device.serial)

    @contextmanager
    def _map(self, device: MemoryDevice) -> Iterator[mmap.mmap]:
        assert device.usable is not None
        with device.usable.path.open("r+b") as file, mmap.mmap(file.fileno(), device.usable.align) as memory:
            yield memory


@pytest.fixture
def bench(request: pytest.FixtureRequest) -> Iterator[GuestBench]:
    bench = GuestBench()
    if request.cls is TestHotplugInTheGuest:
        bench.eject_all()
    bench.memory.open()
    yield bench
    bench.take_all_back()
    bench.memory.close()


class TestUseInTheGuest(UseSuite):
    pass


class TestHotplugInTheGuest(HotplugSuite):
    pass


def test_memory_in_use_moves_away_before_it_is_taken_back(bench: GuestBench, tmp_path: Path) -> None:
    bench.plug(SERIAL, bench.size)
    until(bench, lambda: find(bench) is not None)
    before = bench.ram_bytes()
    usable = bench.memory.make(SERIAL, MemoryMode.SYSTEM_RAM)
    data = os.urandom(PAGE) * 1024
    with mounted_memory(tmp_path / "files", usable.numa_node) as folder:
        (folder / "file").write_bytes(data)
        assert count_file_pages(usable.numa_node) > 512  # the kernel counts not quite exactly
        bench.memory.take_back(SERIAL)
        assert (folder / "file").read_bytes() == data
    assert bench.ram_bytes() == before
