"""Contract of `Memory`: for the simulator, and for the kernel of a guest.

To run it on a kernel, write a module with a fixture `bench` and two classes without a body:

    @pytest.fixture
    def bench() -> Iterator[MemoryBench]: ...   # SysfsMemory(); opened, nothing plugged in, no regions

    class TestUse(UseSuite): pass
    class TestHotplug(HotplugSuite): pass

`size` is small there (256 MiB, the smallest that the kernel takes). `plug` and `unplug` ask for it (QMP
`device_add`, `device_del`) and return: the suite waits for the effect, for `seconds` at most. Pulling a device
takes seconds there: between the tests of `UseSuite` a bench can leave devices plugged in, after `take_back`, if
`plug` is then a no-op for them. `ram_bytes` is MemTotal of /proc/meminfo. A bench that cannot make system RAM
unmovable calls `pytest.skip` in `occupy`.
"""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

import pytest

from dradriver_fabric_cxl.memory import (
    CxlMemoryError,
    Memory,
    MemoryDevice,
    MemoryDeviceNotFoundError,
    MemoryHealth,
    MemoryInUseError,
    MemoryMode,
)

SERIAL, OTHER = 0x1234, 0xFEDC_BA98_7654_3210
NEVER_PLUGGED = 0x9999
DATA = b"the last tenant's bytes"
MODES = [MemoryMode.DEVDAX, MemoryMode.SYSTEM_RAM]


class MemoryBench(Protocol):
    """Memory of a node, and changes of its hardware.

    Attributes:
        memory: the memory, open.
        size: size of the devices to plug in.
        seconds: time limit until a device is plugged in or pulled.
    """

    @property
    def memory(self) -> Memory: ...
    @property
    def size(self) -> int: ...
    @property
    def seconds(self) -> float: ...

    def another(self) -> Memory:
        """The same memory as another process has it."""
        ...

    def plug(self, serial: int, size: int) -> None: ...
    def unplug(self, serial: int) -> None: ...

    def occupy(self, device: MemoryDevice) -> AbstractContextManager[None]:
        """Let a program use the memory in its present mode, so that it cannot be taken back."""
        ...

    def write(self, device: MemoryDevice, data: bytes) -> None:
        """Write to the beginning of memory in the mode devdax."""
        ...

    def read(self, device: MemoryDevice, size: int) -> bytes:
        """Read the beginning of memory in the mode devdax."""
        ...

    def ram_bytes(self) -> int:
        """Bytes of system RAM that the kernel counts on."""
        ...


class Reports:
    """Numbers of cleared bytes; clearing stops after the first one if `stops`."""

    def __init__(self, *, stops: bool = False) -> None:
        self.cleared: list[int] = []
        self._stops = stops

    def __call__(self, cleared: int) -> bool:
        self.cleared.append(cleared)
        return not self._stops


def until(bench: MemoryBench, holds: Callable[[], bool]) -> None:
    end = time.monotonic() + bench.seconds
    while not holds():
        assert time.monotonic() < end, "it did not happen"
        bench.memory.wait_change(0.05)


def find(bench: MemoryBench, serial: int = SERIAL) -> MemoryDevice | None:
    return next((each for each in bench.memory.devices() if each.serial == serial), None)


def plugged(bench: MemoryBench, serial: int = SERIAL) -> MemoryDevice:
    bench.plug(serial, bench.size)
    until(bench, lambda: find(bench, serial) is not None)
    return get(bench, serial)


def pulled(bench: MemoryBench, serial: int = SERIAL) -> None:
    bench.unplug(serial)
    until(bench, lambda: find(bench, serial) is None)


def get(bench: MemoryBench, serial: int = SERIAL) -> MemoryDevice:
    device = find(bench, serial)
    assert device is not None
    return device


class UseSuite:
    """How memory is made usable and taken back."""

    def test_a_plugged_device_is_known_by_its_serial_number(self, bench: MemoryBench) -> None:
        device = plugged(bench)
        assert (device.serial, device.bytes) == (SERIAL, bench.size)
        assert (device.health, device.usable) == (MemoryHealth.OK, None)

    @pytest.mark.parametrize("mode", MODES)
    def test_usable_memory_has_the_whole_device(self, bench: MemoryBench, mode: MemoryMode) -> None:
        plugged(bench)
        usable = bench.memory.make(SERIAL, mode)
        assert (usable.mode, usable.bytes) == (mode, bench.size)
        assert usable.path.name == usable.dax
        assert get(bench).usable == usable

    @pytest.mark.parametrize("mode", MODES)
    def test_only_system_ram_is_counted_as_ram(self, bench: MemoryBench, mode: MemoryMode) -> None:
        plugged(bench)
        before = bench.ram_bytes()
        bench.memory.make(SERIAL, mode)
        assert bench.ram_bytes() - before == (bench.size if mode is MemoryMode.SYSTEM_RAM else 0)
        bench.memory.take_back(SERIAL)
        assert (bench.ram_bytes(), get(bench).usable) == (before, None)

    @pytest.mark.parametrize("mode", MODES)
    def test_memory_that_is_usable_stays_as_it_is(self, bench: MemoryBench, mode: MemoryMode) -> None:
        plugged(bench)
        usable = bench.memory.make(SERIAL, mode)
        assert bench.memory.make(SERIAL, mode) == usable
        assert bench.another().make(SERIAL, mode) == usable

    def test_a_character_device_becomes_system_ram(self, bench: MemoryBench) -> None:
        plugged(bench)
        bench.memory.make(SERIAL, MemoryMode.DEVDAX)
        before = bench.ram_bytes()
        assert bench.memory.make(SERIAL, MemoryMode.SYSTEM_RAM).mode is MemoryMode.SYSTEM_RAM
        assert bench.ram_bytes() - before == bench.size

    @pytest.mark.parametrize("second", MODES)
    @pytest.mark.parametrize("first", MODES)
    def test_the_mode_of_earlier_memory_does_not_stick_to_its_name(
        self, bench: MemoryBench, first: MemoryMode, second: MemoryMode
    ) -> None:
        plugged(bench)
        before = bench.memory.make(SERIAL, first)
        bench.memory.take_back(SERIAL)
        after = bench.memory.make(SERIAL, second)
        assert (after.dax, after.mode) == (before.dax, second)

    def test_two_devices_are_used_side_by_side(self, bench: MemoryBench) -> None:
        plugged(bench)
        plugged(bench, OTHER)
        one = bench.memory.make(SERIAL, MemoryMode.DEVDAX)
        other = bench.memory.make(OTHER, MemoryMode.DEVDAX)
        assert len({one.path, other.path}) == 2
        bench.memory.take_back(SERIAL)
        assert get(bench, OTHER).usable == other

    def test_cleared_memory_is_zero(self, bench: MemoryBench) -> None:
        plugged(bench)
        bench.memory.make(SERIAL, MemoryMode.DEVDAX)
        bench.write(get(bench), DATA)
        assert bench.read(get(bench), len(DATA)) == DATA
        reports = Reports()
        bench.memory.clear(SERIAL, reports)
        assert bench.read(get(bench), len(DATA)) == bytes(len(DATA))
        assert reports.cleared == sorted(reports.cleared)
        assert reports.cleared[-1] == bench.size

    def test_clearing_can_be_stopped(self, bench: MemoryBench) -> None:
        plugged(bench)
        bench.memory.make(SERIAL, MemoryMode.DEVDAX)
        reports = Reports(stops=True)
        with pytest.raises(CxlMemoryError, match="stopped"):
            bench.memory.clear(SERIAL, reports)
        (cleared,) = reports.cleared
        assert cleared < bench.size
        bench.memory.take_back(SERIAL)

    def test_system_ram_is_not_cleared(self, bench: MemoryBench) -> None:
        plugged(bench)
        bench.memory.make(SERIAL, MemoryMode.SYSTEM_RAM)
        with pytest.raises(CxlMemoryError, match="devdax"):
            bench.memory.clear(SERIAL, lambda _: True)

    @pytest.mark.parametrize("mode", MODES)
    def test_memory_in_use_is_not_taken_back(self, bench: MemoryBench, mode: MemoryMode) -> None:
        plugged(bench)
        usable = bench.memory.make(SERIAL, mode)
        before = bench.ram_bytes()
        with bench.occupy(get(bench)):
            with pytest.raises(MemoryInUseError):
                bench.memory.take_back(SERIAL)
            assert get(bench).usable == usable
            assert bench.ram_bytes() == before
        bench.memory.take_back(SERIAL)
        assert get(bench).usable is None

    def test_memory_in_use_is_not_cleared(self, bench: MemoryBench) -> None:
        device = plugged(bench)
        bench.memory.make(SERIAL, MemoryMode.DEVDAX)
        reports = Reports()
        with bench.occupy(get(bench)), pytest.raises(MemoryInUseError):
            bench.memory.clear(SERIAL, reports)
        assert not reports.cleared
        bench.memory.clear(device.serial, reports)

    def test_taking_back_again_changes_nothing(self, bench: MemoryBench) -> None:
        plugged(bench)
        bench.memory.take_back(SERIAL)
        bench.memory.make(SERIAL, MemoryMode.DEVDAX)
        bench.memory.take_back(SERIAL)
        bench.memory.take_back(SERIAL)
        assert get(bench).usable is None
        assert bench.memory.remove_abandoned() == ()

    def test_a_device_that_is_not_plugged_in_is_unknown(self, bench: MemoryBench) -> None:
        with pytest.raises(MemoryDeviceNotFoundError):
            bench.memory.make(NEVER_PLUGGED, MemoryMode.DEVDAX)
        with pytest.raises(MemoryDeviceNotFoundError):
            bench.memory.clear(NEVER_PLUGGED, lambda _: True)
        bench.memory.take_back(NEVER_PLUGGED)


class HotplugSuite:
    """How devices come and go."""

    def test_changes_are_reported(self, bench: MemoryBench) -> None:
        while bench.memory.wait_change(0):
            pass
        bench.plug(SERIAL, bench.size)
        assert bench.memory.wait_change(bench.seconds)
        until(bench, lambda: find(bench) is not None)
        while bench.memory.wait_change(0):
            pass
        bench.unplug(SERIAL)
        assert bench.memory.wait_change(bench.seconds)

    def test_a_device_that_was_let_go_comes_again(self, bench: MemoryBench) -> None:
        for serial in (SERIAL, OTHER):
            plugged(bench, serial)
            bench.memory.make(serial, MemoryMode.DEVDAX)
            bench.memory.take_back(serial)
            pulled(bench, serial)
        assert bench.memory.remove_abandoned() == ()

    def test_the_region_of_a_pulled_device_is_removed(self, bench: MemoryBench) -> None:
        plugged(bench)
        usable = bench.memory.make(SERIAL, MemoryMode.DEVDAX)
        pulled(bench)
        assert bench.memory.remove_abandoned() == (usable.region,)
        assert bench.memory.remove_abandoned() == ()

    def test_regions_of_plugged_devices_are_not_abandoned(self, bench: MemoryBench) -> None:
        plugged(bench)
        usable = bench.memory.make(SERIAL, MemoryMode.DEVDAX)
        assert bench.memory.remove_abandoned() == ()
        assert get(bench).usable == usable

    @pytest.mark.parametrize("mode", MODES)
    def test_a_device_that_replaces_a_pulled_one_is_used(self, bench: MemoryBench, mode: MemoryMode) -> None:
        plugged(bench)
        bench.memory.make(SERIAL, MemoryMode.DEVDAX)
        pulled(bench)
        plugged(bench, OTHER)
        assert bench.memory.make(OTHER, mode).mode is mode

    @pytest.mark.parametrize("taken_back", [True, False])
    def test_system_ram_of_a_pulled_device_is_not_counted_on_any_more(
        self, bench: MemoryBench, taken_back: bool
    ) -> None:
        """Its region stays until the next reboot."""
        plugged(bench)
        before = bench.ram_bytes()
        bench.memory.make(SERIAL, MemoryMode.SYSTEM_RAM)
        pulled(bench)
        assert bench.ram_bytes() > before  # the kernel notices nothing
        for _ in range(2):
            if taken_back:
                bench.memory.take_back(SERIAL)
            else:
                assert bench.memory.remove_abandoned() == ()
            assert bench.ram_bytes() == before
        plugged(bench, OTHER)
        assert bench.memory.make(OTHER, MemoryMode.DEVDAX).mode is MemoryMode.DEVDAX
