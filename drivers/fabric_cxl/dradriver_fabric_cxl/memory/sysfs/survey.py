"""Reads what the kernel shows of CXL memory."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from dradriver_fabric_cxl.memory.kernel import (
    CxlRegion,
    DaxDevice,
    DaxDriver,
    EndpointDecoder,
    KernelState,
    Memdev,
    MemoryBlock,
    RootDecoder,
)
from dradriver_fabric_cxl.memory.sysfs.files import find_driver, list_folder, read, read_integer
from dradriver_fabric_cxl.memory.sysfs.paths import MemoryPaths

__all__ = ["find_largest_gap", "read_kernel"]

_NO_ADDRESS: Final = (1 << 64) - 1
"""Start of a region that has no addresses yet."""


def read_kernel(paths: MemoryPaths) -> KernelState:
    """Return what the kernel shows now.

    Args:
        paths: the paths of the node.
    """
    roots = [decoder for root in list_folder(paths.cxl, "root*") for decoder in list_folder(root, "decoder*.*")]
    drivers = frozenset(driver for driver in DaxDriver if (paths.dax_drivers / driver.value).is_dir())
    return KernelState(
        tuple(_read_memdevs(paths, roots)),
        tuple(map(_read_root, roots)),
        tuple(_read_regions(paths)),
        drivers,
        virtual=_is_virtual(paths.proc),
    )


def find_largest_gap(start: int, size: int, used: list[tuple[int, int]]) -> int:
    """Return the size of the largest range of a window that nothing uses.

    Args:
        start: first address of the window.
        size: size of the window.
        used: start and size of each range in use.
    """
    largest, free = 0, start
    for first, length in sorted(used):
        largest, free = max(largest, first - free), max(free, first + length)
    return max(largest, start + size - free)


def _read_memdevs(paths: MemoryPaths, roots: list[Path]) -> Iterator[Memdev]:
    endpoints = {(each / "uport").resolve().name: each for each in list_folder(paths.cxl, "endpoint*")}
    for device in list_folder(paths.cxl, "mem*"):
        serial, size = read(device / "serial"), read_integer(device / "ram/size")
        if not serial or not size:
            continue  # it is being pulled, or has no volatile memory
        endpoint = endpoints.get(device.name)
        decoders = [] if endpoint is None else list_folder(endpoint, "decoder*.*")
        complete = [each for each in decoders if read(each / "mode") and read(each / "dpa_size")]
        yield Memdev(
            device.name,
            int(serial, 0),
            size,
            tuple(EndpointDecoder(each.name, read_integer(each / "dpa_size")) for each in complete),
            tuple(root.name for root in roots if _reaches(root, device)),
        )


def _reaches(root: Path, memdev: Path) -> bool:
    """Return whether a window's addresses are routed to the host bridge of a device.

    If the kernel does not show the window's host bridges, the window counts as routed to it, and the kernel
    rejects the region if it is not.
    """
    bridges = []
    for port in filter(None, read(root / "target_list").split(",")):
        bridge = root.parent / f"dport{port}"
        if bridge.exists():
            physical = bridge / "physical_node"
            bridges.append((physical if physical.exists() else bridge).resolve())
    return not bridges or any(memdev.resolve().is_relative_to(bridge) for bridge in bridges)


def _read_root(root: Path) -> RootDecoder:
    used = []
    for region in list_folder(root, "region*"):
        start, size = read_integer(region / "resource", _NO_ADDRESS), read_integer(region / "size")
        if size and start != _NO_ADDRESS:
            used.append((start, size))
    volatile = (
        read(root / "cap_ram") == "1"
        and (root / "create_ram_region").exists()
        and read_integer(root / "interleave_ways", 1) == 1
    )
    free = find_largest_gap(read_integer(root / "start"), read_integer(root / "size"), used)
    return RootDecoder(root.name, volatile, free)


def _read_regions(paths: MemoryPaths) -> Iterator[CxlRegion]:
    block_size = int(read(paths.blocks / "block_size_bytes") or "0", 16)
    for region in list_folder(paths.cxl, "region*"):
        if read(region / "mode") not in {"", "ram"} or read_integer(region / "interleave_ways") > 1:
            continue  # somebody else's
        start, size = read_integer(region / "resource", _NO_ADDRESS), read_integer(region / "size")
        has_blocks = size and start != _NO_ADDRESS and block_size
        yield CxlRegion(
            region.name,
            size,
            target=read(region / "target0"),
            committed=read(region / "commit") == "1",
            bound=bool(find_driver(region)),
            dax=tuple(_read_dax(paths, each) for each in list_folder(region, "dax_region*/dax*.*")),
            blocks=tuple(_read_blocks(paths.blocks, start, size, block_size)) if has_blocks else (),
        )


def _read_dax(paths: MemoryPaths, device: Path) -> DaxDevice:
    driver = find_driver(device)
    major, _, minor = read(device / "dev").partition(":")
    return DaxDevice(
        device.name,
        DaxDriver(driver) if driver in {each.value for each in DaxDriver} else None,
        read_integer(device / "size"),
        read_integer(device / "align"),
        read_integer(device / "target_node", -1),
        paths.dev / device.name,
        int(major) if major.isdecimal() else 0,
        int(minor) if minor.isdecimal() else 0,
    )


def _read_blocks(folder: Path, start: int, size: int, block_size: int) -> Iterator[MemoryBlock]:
    """Yield the blocks inside of a range: the kernel adds no others for a dax device."""
    for number in range(-(-start // block_size), (start + size) // block_size):
        block = folder / f"memory{number}"
        if state := read(block / "state"):
            online = state != "offline"
            yield MemoryBlock(block.name, online, online and read(block / "valid_zones") == "Movable")


def _is_virtual(proc: Path) -> bool:
    flags = re.search(r"^flags\s*:(.*)$", read(proc / "cpuinfo"), re.MULTILINE)
    return flags is not None and "hypervisor" in flags[1].split()
