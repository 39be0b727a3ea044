"""What the attributes of the kernel mean. A kernel in a guest runs the whole contract (`make guest`)."""

import sys
from pathlib import Path

import pytest

from dradriver_fabric_cxl.memory import (
    CxlMemoryError,
    MemoryDevice,
    MemoryHealth,
    MemoryMode,
    NoAddressSpaceError,
    NodeUnsupportedError,
    UsableMemory,
)
from dradriver_fabric_cxl.memory.sysfs import SysfsMemory
from dradriver_fabric_cxl.memory.sysfs.survey import find_largest_gap
from tests.drivers.fabric_cxl.memory.sysfs.trees import ROOT, SIZE, Tree

SERIAL = 0xFEDC_BA98_7654_3210
DECODER = "decoder2.0"


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    tree = Tree(tmp_path)
    tree.add_window()
    tree.add_memdev(0, SERIAL)
    tree.add_endpoint(2, 0, SIZE)
    return tree


def read(tree: Tree) -> MemoryDevice:
    (device,) = SysfsMemory(tree.paths).devices()
    return device


def test_a_memdev_without_a_region_is_not_usable(tree: Tree) -> None:
    assert read(tree) == MemoryDevice("mem0", SERIAL, SIZE, MemoryHealth.OK, None)


def test_a_character_device_is_usable(tree: Tree) -> None:
    tree.add_region(0, DECODER, driver="device_dax")
    expected = UsableMemory(
        "region0", "dax0.0", MemoryMode.DEVDAX, tree.paths.dev / "dax0.0", 252, 0, SIZE, 2 << 20, 1
    )
    assert read(tree).usable == expected
    assert SysfsMemory(tree.paths).make(SERIAL, MemoryMode.DEVDAX) == expected


@pytest.mark.parametrize(
    ("state", "zones", "usable"),
    [("online", "Movable", True), ("online", "Normal", False), ("offline", "Movable Normal", False)],
)
def test_system_ram_is_usable_if_it_can_leave_again(
    tree: Tree, state: str, zones: str, *, usable: bool
) -> None:
    tree.add_region(0, DECODER, driver="kmem")
    tree.add_blocks(0, state, zones)
    found = read(tree).usable
    assert (found is not None and found.mode is MemoryMode.SYSTEM_RAM) is usable


def test_memory_that_the_kernel_is_bringing_online_is_not_usable(tree: Tree) -> None:
    tree.add_region(0, DECODER, driver="kmem")
    assert read(tree).usable is None


def test_a_region_belongs_to_the_device_of_its_target(tree: Tree) -> None:
    tree.add_memdev(1, 7)
    tree.add_endpoint(3, 1)
    tree.add_region(0, "decoder3.0", driver="device_dax")
    usable = {device.serial: device.usable is not None for device in SysfsMemory(tree.paths).devices()}
    assert usable == {7: True, SERIAL: False}


def test_a_device_without_volatile_memory_is_left_out(tree: Tree) -> None:
    tree.write("bus/cxl/devices/mem0/ram/size", "0x0")
    assert SysfsMemory(tree.paths).devices() == ()


def test_a_node_that_can_use_memory_has_no_problem(tree: Tree) -> None:
    (tree.paths.proc / "cpuinfo").write_text("flags\t\t: fpu sse\n")
    assert SysfsMemory(tree.paths).find_problem() == ""


def test_a_virtual_machine_is_a_problem(tree: Tree) -> None:
    (tree.paths.proc / "cpuinfo").write_text("processor : 0\nflags\t\t: fpu hypervisor sse\n")
    assert "virtual machine" in SysfsMemory(tree.paths).find_problem()
    with pytest.raises(NodeUnsupportedError, match="virtual machine"):
        SysfsMemory(tree.paths).make(SERIAL, MemoryMode.DEVDAX)


def test_a_node_without_cxl_is_a_problem(tmp_path: Path) -> None:
    memory = SysfsMemory(Tree(tmp_path).paths)
    assert "cxl_acpi" in memory.find_problem()
    assert memory.devices() == ()
    assert memory.remove_abandoned() == ()


@pytest.mark.parametrize(("ways", "volatile"), [(2, True), (1, False)])
def test_a_node_without_a_window_for_one_device_is_a_problem(
    tmp_path: Path, ways: int, *, volatile: bool
) -> None:
    tree = Tree(tmp_path)
    tree.add_window(ways=ways, volatile=volatile)
    assert "volatile" in SysfsMemory(tree.paths).find_problem()


def test_a_full_window_has_no_room(tree: Tree) -> None:
    tree.write(f"{ROOT}/decoder0.0/size", f"{SIZE:#x}")
    tree.add_memdev(1, 7)
    tree.add_endpoint(3, 1)
    tree.add_region(0, DECODER, driver="device_dax")
    with pytest.raises(NoAddressSpaceError, match="mem1"):
        SysfsMemory(tree.paths).make(7, MemoryMode.DEVDAX)


def test_a_window_of_another_host_bridge_does_not_reach_the_device(tree: Tree) -> None:
    (tree.sys / "devices/pci0000:40").mkdir()
    tree.link(f"{ROOT}/dport12", "devices/pci0000:40")
    with pytest.raises(NoAddressSpaceError, match="reaches"):
        SysfsMemory(tree.paths).make(SERIAL, MemoryMode.DEVDAX)


def test_memory_that_the_kernel_kept_stays(tree: Tree) -> None:
    tree.add_region(0, "")
    tree.add_blocks(0, "online", "Movable")
    assert SysfsMemory(tree.paths).remove_abandoned() == ()


def test_a_refused_write_names_the_attribute(tree: Tree) -> None:
    tree.add_region(0, DECODER)
    (tree.sys / "bus/cxl/drivers/cxl_region/bind").unlink()
    with pytest.raises(CxlMemoryError, match=r"cxl_region/bind: the kernel refuses 'region0'"):
        SysfsMemory(tree.paths).make(SERIAL, MemoryMode.DEVDAX)


@pytest.mark.parametrize(
    ("used", "largest"),
    [([], 40), ([(100, 10)], 30), ([(110, 10)], 20), ([(130, 10), (100, 15)], 15), ([(100, 40)], 0)],
)
def test_the_largest_gap_of_a_window_is_found(used: list[tuple[int, int]], largest: int) -> None:
    assert find_largest_gap(100, 40, used) == largest


def test_without_uevents_changes_are_found_in_the_list_of_devices(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyudev", None)
    memory = SysfsMemory(tree.paths)
    memory.open()
    assert not memory.wait_change(0)
    tree.add_memdev(1, 7)
    assert memory.wait_change(10)
    assert not memory.wait_change(0)
    memory.close()
