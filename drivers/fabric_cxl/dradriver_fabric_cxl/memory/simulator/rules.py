"""What the simulated kernel shows, and the effect of changes. Pure."""

from pathlib import Path
from typing import Final

from dradriver_fabric_cxl.memory.errors import CxlMemoryError
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
from dradriver_fabric_cxl.memory.simulator.state import BlockState, MemdevState, MemoryNodeState, RegionState

__all__ = [
    "ROOT",
    "bind_dax",
    "bind_region",
    "bring_offline",
    "count_online_bytes",
    "find_block",
    "find_free_number",
    "find_memdev_of",
    "find_region",
    "pull",
    "show",
    "unbind_dax",
    "unbind_region",
]

ROOT: Final = "decoder0.0"
_BLOCKS: Final = 4
"""Blocks of system RAM of a region."""
_ALIGN: Final = 2 << 20
_MAJOR: Final = 252


def show(state: MemoryNodeState) -> KernelState:
    """Return what the kernel shows.

    Args:
        state: the node.
    """
    roots = (RootDecoder(ROOT, volatile=True, free=find_free_bytes(state)),) if state.window else ()
    memdevs = tuple(
        Memdev(
            f"mem{each.number}",
            each.serial,
            each.bytes,
            (EndpointDecoder(_decoder_name(each), each.reserved),),
            (ROOT,),
        )
        for each in state.memdevs
    )
    regions = tuple(_show_region(state, each) for each in state.regions)
    return KernelState(memdevs, roots, regions, frozenset(DaxDriver), state.virtual)


def find_free_bytes(state: MemoryNodeState) -> int:
    """Return the bytes of the window that no region has.

    Args:
        state: the node.
    """
    return state.window - sum(each.bytes for each in state.regions)


def find_free_number(used: list[int]) -> int:
    """Return the lowest number that is not used: names come again.

    Args:
        used: the numbers in use.
    """
    return next(number for number in range(len(used) + 1) if number not in used)


def find_region(state: MemoryNodeState, name: str) -> RegionState:
    """Return a region by its name or by the name of its dax device.

    Args:
        state: the node.
        name: `region0` or `dax0.0`.

    Raises:
        CxlMemoryError: it does not exist.
    """
    for each in state.regions:
        if name == f"region{each.number}" or (each.bound and name == _dax_name(each)):
            return each
    raise CxlMemoryError(f"{name} does not exist")


def find_memdev_of(state: MemoryNodeState, name: str) -> MemdevState:
    """Return a device by its name or by the name of its decoder.

    Args:
        state: the node.
        name: `mem0` or `decoder1.0`.

    Raises:
        CxlMemoryError: it is not plugged in.
    """
    for each in state.memdevs:
        if name in {f"mem{each.number}", _decoder_name(each)}:
            return each
    raise CxlMemoryError(f"{name} does not exist")


def find_block(state: MemoryNodeState, name: str) -> tuple[RegionState, int]:
    """Return the region of a block, and the block's index.

    Args:
        state: the node.
        name: name of the block.

    Raises:
        CxlMemoryError: it does not exist.
    """
    for region in state.regions:
        for index in range(len(region.blocks)):
            if name == _block_name(region, index):
                return region, index
    raise CxlMemoryError(f"{name} does not exist")


def bind_region(state: MemoryNodeState, region: RegionState) -> None:
    """Give a region its driver. Its dax device gets the driver that claimed its name, or else `kmem`.

    Args:
        state: the node.
        region: the region.
    """
    if not region.committed:
        raise CxlMemoryError(f"region{region.number} is not committed")
    region.bound = True
    bind_dax(region, DaxDriver.DEVDAX if region.number in state.claimed else DaxDriver.KMEM)


def bind_dax(region: RegionState, driver: DaxDriver) -> None:
    """Give a dax device its driver; `kmem` brings the memory online at once, and not as movable.

    Args:
        region: the region of the dax device.
        driver: the driver.
    """
    if region.blocks:
        raise CxlMemoryError(f"{_dax_name(region)}: the kernel still has its memory")
    region.driver = driver
    if driver is DaxDriver.KMEM:
        region.blocks = [BlockState.NORMAL] * _BLOCKS


def unbind_dax(state: MemoryNodeState, region: RegionState) -> None:
    """Take the driver from a dax device. The kernel keeps blocks that are online, and nobody can remove them.

    Args:
        state: the node.
        region: the region of the dax device.
    """
    state.phantom += count_online_bytes(region)
    region.blocks = [each for each in region.blocks if each is not BlockState.OFFLINE]
    region.driver = None


def bring_offline(state: MemoryNodeState, region: RegionState, index: int) -> None:
    """Bring a block offline, also a block of memory that does not exist anymore.

    Args:
        state: the node.
        region: region of the block.
        index: number of the block in the region.
    """
    if region.driver is not DaxDriver.KMEM and region.blocks[index] is not BlockState.OFFLINE:
        state.phantom -= region.bytes // _BLOCKS
    region.blocks[index] = BlockState.OFFLINE


def count_online_bytes(region: RegionState) -> int:
    """Return how much system RAM a region provides; 0 if `kmem` has lost it.

    Args:
        region: the region.
    """
    online = sum(each is not BlockState.OFFLINE for each in region.blocks)
    return region.bytes // _BLOCKS * online if region.driver is DaxDriver.KMEM else 0


def unbind_region(state: MemoryNodeState, region: RegionState) -> None:
    """Take the driver from a region, as the kernel does: without a look at the use of the memory.

    Args:
        state: the node.
        region: the region.
    """
    unbind_dax(state, region)
    region.bound = False


def pull(state: MemoryNodeState, memdev: MemdevState) -> None:
    """Remove a device. Its region stays, without a target.

    Args:
        state: the node.
        memdev: the device.
    """
    state.memdevs.remove(memdev)
    state.changes += 1
    for region in state.regions:
        if region.target == memdev.serial:
            unbind_region(state, region)
            region.target, region.committed, region.in_use = None, False, memdev.in_use


def _show_region(state: MemoryNodeState, region: RegionState) -> CxlRegion:
    target = next((_decoder_name(each) for each in state.memdevs if each.serial == region.target), "")
    name = _dax_name(region)
    dax = DaxDevice(
        name, region.driver, region.bytes, _ALIGN, region.number + 1, Path("/dev", name), _MAJOR, region.number
    )
    blocks = (
        MemoryBlock(_block_name(region, index), each is not BlockState.OFFLINE, each is BlockState.MOVABLE)
        for index, each in enumerate(region.blocks)
    )
    return CxlRegion(
        f"region{region.number}",
        region.bytes,
        target,
        region.committed,
        region.bound,
        (dax,) if region.bound else (),
        tuple(blocks),
    )


def _decoder_name(memdev: MemdevState) -> str:
    return f"decoder{memdev.number + 2}.0"


def _dax_name(region: RegionState) -> str:
    return f"dax{region.number}.0"


def _block_name(region: RegionState, index: int) -> str:
    return f"memory{32 + region.number * _BLOCKS + index}"
