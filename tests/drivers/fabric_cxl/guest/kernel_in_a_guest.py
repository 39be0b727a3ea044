"""Run in a guest: the kernel's CXL memory, by plain writes to sysfs, as the driver relies on them."""

import mmap
from pathlib import Path
from typing import Final

import pytest

from tests.drivers.fabric_cxl.guest.controls import CXL, count_memory, eject, find_memdev, plug, unplug, until
from tests.drivers.fabric_cxl.guest.slots import PORTS

SIZE: Final = 256 << 20
ROOT: Final = CXL / "decoder0.0"
BIND: Final = Path("/sys/bus/cxl/drivers/cxl_region")
DAX: Final = Path("/sys/bus/dax")


def write(path: Path, text: str | int) -> None:
    path.write_text(str(text))


def raise_region(serial: int) -> Path:
    """Make a region of the only memdev; return its folder."""
    name = (ROOT / "create_ram_region").read_text().strip()
    write(ROOT / "create_ram_region", name)
    [endpoint] = CXL.glob("endpoint*")
    decoder = CXL / f"decoder{endpoint.name[8:]}.0"
    until((decoder / "mode").exists)  # it follows its endpoint
    write(decoder / "mode", "ram")
    write(decoder / "dpa_size", SIZE)
    region = CXL / name
    for attribute, value in (
        ("interleave_granularity", 256),
        ("interleave_ways", 1),
        ("size", SIZE),
        ("target0", decoder.name),
        ("commit", 1),
    ):
        write(region / attribute, value)
    write(BIND / "bind", name)
    return region


def remove_region(region: Path) -> None:
    decoder = CXL / (region / "target0").read_text().strip()
    write(BIND / "unbind", region.name)
    write(region / "commit", 0)
    write(ROOT / "delete_region", region.name)
    write(decoder / "dpa_size", 0)


def find_driver(dax: str) -> str:
    link = DAX / "devices" / dax / "driver"
    return link.resolve().name if link.exists() else ""


def find_blocks(dax: str) -> list[Path]:
    """Return the memory blocks of a dax device whose memory the kernel uses."""
    node = int((DAX / "devices" / dax / "target_node").read_text())
    return list(Path(f"/sys/devices/system/node/node{node}").glob("memory[0-9]*"))


def make_devdax(dax: str) -> None:
    """Turn the memory of a dax device, which the kernel has taken, into a character device."""
    until(lambda: all((block / "state").read_text() == "online\n" for block in find_blocks(dax)))
    for block in find_blocks(dax):
        write(block / "state", "offline")
    write(DAX / "drivers/kmem/unbind", dax)
    write(DAX / "drivers/device_dax/new_id", dax)


def release_devdax(dax: str) -> None:
    write(DAX / "drivers/device_dax/unbind", dax)
    write(DAX / "drivers/device_dax/remove_id", dax)


def test_memory_is_a_devdax_and_comes_again_on_the_same_port() -> None:
    ports, own = [], count_memory()
    for serial in (0x1234, 0x5EADBEEF00C0FFEE):
        plug(serial, SIZE)
        ports.append((CXL / find_memdev(serial)).resolve().parents[1])
        region = raise_region(serial)
        until(lambda: find_driver("dax0.0") == "kmem")
        make_devdax("dax0.0")
        assert find_driver("dax0.0") == "device_dax"
        with Path("/dev/dax0.0").open("r+b") as file, mmap.mmap(file.fileno(), 2 << 20) as memory:
            memory[:8] = b"is there"
        release_devdax("dax0.0")
        remove_region(region)
        unplug(serial)
        assert not list(CXL.glob("region*"))
        assert count_memory() == own
    assert ports[0] == ports[1]


def test_memory_of_the_node_leaves_after_it_is_offline() -> None:
    own = count_memory()
    plug(0x4321, SIZE)
    region = raise_region(0x4321)
    until(lambda: count_memory() > own)
    make_devdax("dax0.0")
    assert count_memory() == own
    release_devdax("dax0.0")
    remove_region(region)
    unplug(0x4321)


def test_a_call_of_the_hook_may_come_again() -> None:
    for _ in range(2):
        plug(0x5678, SIZE)
    assert len(list(CXL.glob("mem*"))) == 1
    for _ in range(2):
        unplug(0x5678)


def test_the_hook_refuses_memory_for_which_no_port_is_free() -> None:
    for serial in range(1, 1 + len(PORTS)):
        plug(serial, SIZE)
    with pytest.raises(AssertionError, match="no port is free"):
        plug(0x5678, SIZE)
    for serial in range(1, 1 + len(PORTS)):
        eject(serial)
