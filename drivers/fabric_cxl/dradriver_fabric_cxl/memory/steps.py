"""Decides the next step of `make` and `take_back` from what the kernel shows. Pure.

| make | already so | then |
|---|---|---|
| 1 region with the device as its target | | remove unfinished regions, reserve the memory, make one |
| 2 region committed | | commit it |
| 3 region has its driver | | claim the dax device for `device_dax`, so that nothing comes online; bind it |
| 4 dax device | | wait for it |
| 5 `devdax`: driver `device_dax` | | bring blocks offline, unbind `kmem`, bind `device_dax` |
| 6 `system-ram`: driver `kmem` | | unbind `device_dax`, bind `kmem` |
| 7 `system-ram`: each block movable | | bring it offline if it is online, then online for movable pages |

| take back | already so | then |
|---|---|---|
| 1 each block offline | | bring it offline; a failure ends the call |
| 2 dax device without a driver | | stop if a program uses it; unbind it |
| 3 no blocks | | stop: the kernel has kept memory, and would let the region go |
| 4 region without its driver | | unbind it |
| 5 region not committed | | reset it |
| 6 no region | | delete it |
| 7 nothing reserved | | release it |

A process that dies between two steps loses nothing: the next one reads the same state.
"""

from dradriver_fabric_cxl.memory.actions import (
    BindDax,
    BindRegion,
    BringOffline,
    BringOnline,
    CommitRegion,
    DaxStep,
    DeleteRegion,
    MakeRegion,
    MakeStep,
    Ready,
    Release,
    Stuck,
    TakeBackStep,
    TakenBack,
    UnbindDax,
    UnbindRegion,
    UncommitRegion,
    WaitForKernel,
)
from dradriver_fabric_cxl.memory.kernel import (
    CxlRegion,
    DaxDevice,
    DaxDriver,
    KernelState,
    Memdev,
    MemoryBlock,
    RootDecoder,
)
from dradriver_fabric_cxl.memory.values import MemoryDevice, MemoryHealth, MemoryMode, UsableMemory

__all__ = [
    "choose_root",
    "find_memdev",
    "find_node_problem",
    "is_abandoned",
    "next_make_step",
    "next_removal_step",
    "next_take_back_step",
    "to_device",
]


def find_memdev(state: KernelState, serial: int) -> Memdev | None:
    """Return the memdev with a serial number; None if it is not plugged in.

    Args:
        state: what the kernel shows.
        serial: serial number.
    """
    return next((each for each in state.memdevs if each.serial == serial), None)


def find_node_problem(state: KernelState) -> str:
    """Return why the node can use no CXL memory, for people; "" if it can.

    Args:
        state: what the kernel shows.
    """
    if not state.roots:
        return (
            "the kernel shows no CXL root decoder: the computer has no CXL host bridge, its firmware has no CXL"
            " window (CEDT), or the kernel module cxl_acpi is not loaded"
        )
    if not any(root.volatile for root in state.roots):
        return "no CXL window of the computer accepts volatile memory"
    if state.virtual:
        return (
            "the node is a virtual machine, and its kernel refuses CXL regions because it cannot flush the"
            " processor's caches"
        )
    return ""


def choose_root(state: KernelState, memdev: Memdev) -> RootDecoder | None:
    """Return the window with the most room among those that reach a device; None if none has room for it.

    Args:
        state: what the kernel shows.
        memdev: the device.
    """
    roots = [root for root in state.roots if root.volatile and root.name in memdev.roots]
    root = max(roots, key=lambda each: each.free, default=None)
    return None if root is None or root.free < memdev.bytes else root


def to_device(state: KernelState, memdev: Memdev, health: MemoryHealth) -> MemoryDevice:
    """Return a memdev with the memory that is made of it.

    Args:
        state: what the kernel shows.
        memdev: a memdev of it.
        health: health of the memdev.
    """
    region = _find_region(state, memdev)
    usable = None if region is None else _find_usable(region)
    return MemoryDevice(memdev.name, memdev.serial, memdev.bytes, health, usable)


def is_abandoned(region: CxlRegion) -> bool:
    """Return whether no plugged device belongs to a region: it was pulled, or the region is unfinished."""
    return not region.target


def next_make_step(state: KernelState, memdev: Memdev, mode: MemoryMode) -> MakeStep:
    """Return the next step of `make`.

    Args:
        state: what the kernel shows.
        memdev: the device, from this state.
        mode: how the memory will be used.
    """
    if not memdev.decoders:
        return WaitForKernel(f"decoders of {memdev.name}")
    region = _find_region(state, memdev)
    if region is None:
        return MakeRegion(memdev)
    if not region.committed:
        return CommitRegion(region.name)
    if not region.bound:
        return BindRegion(region.name)
    if not region.dax:
        return WaitForKernel(f"dax device of {region.name}")
    wanted = DaxDriver.DEVDAX if mode is MemoryMode.DEVDAX else DaxDriver.KMEM
    if wanted not in state.drivers:
        return WaitForKernel(f"driver {wanted.value} of dax devices")
    return _next_dax_step(region, mode, wanted)


def next_take_back_step(state: KernelState, memdev: Memdev) -> TakeBackStep:
    """Return the next step of `take_back`.

    Args:
        state: what the kernel shows.
        memdev: the device, from this state.
    """
    region = _find_region(state, memdev)
    if region is not None:
        return next_removal_step(region)
    for decoder in memdev.decoders:
        if decoder.bytes:
            return Release(decoder.name)
    return TakenBack()


def next_removal_step(region: CxlRegion) -> TakeBackStep:
    """Return the next step that removes a region.

    Args:
        region: the region.
    """
    driven = [dax for dax in region.dax if dax.driver is not None]
    if any(dax.driver is DaxDriver.KMEM for dax in driven) and (online := _online_blocks(region)):
        return BringOffline(online)
    if driven:
        return UnbindDax(driven[0])
    if region.blocks:
        return Stuck(region.name, region.blocks[0].name)
    if region.bound:
        return UnbindRegion(region.name)
    if region.committed:
        return UncommitRegion(region.name)
    return DeleteRegion(region.name)


def _next_dax_step(region: CxlRegion, mode: MemoryMode, wanted: DaxDriver) -> DaxStep:
    dax = region.dax[0]
    if dax.driver is None:
        return BindDax(dax.name, wanted)
    online = _online_blocks(region)
    if dax.driver is not wanted:
        return BringOffline(online) if online else UnbindDax(dax)
    if mode is MemoryMode.SYSTEM_RAM:
        if not region.blocks:
            return WaitForKernel(f"system RAM of {dax.name}")
        fixed = tuple(block.name for block in region.blocks if block.online and not block.movable)
        offline = tuple(block.name for block in region.blocks if not block.online)
        if fixed:
            return BringOffline(fixed)
        if offline:
            return BringOnline(offline)
    return Ready(_make_usable(region, dax, mode))


def _find_region(state: KernelState, memdev: Memdev) -> CxlRegion | None:
    names = {decoder.name for decoder in memdev.decoders}
    return next((region for region in state.regions if region.target in names), None)


def _find_usable(region: CxlRegion) -> UsableMemory | None:
    if not region.committed or not region.bound or not region.dax:
        return None
    dax = region.dax[0]
    if dax.driver is DaxDriver.DEVDAX:
        return _make_usable(region, dax, MemoryMode.DEVDAX)
    if dax.driver is DaxDriver.KMEM and region.blocks and all(map(_is_movable, region.blocks)):
        return _make_usable(region, dax, MemoryMode.SYSTEM_RAM)
    return None


def _make_usable(region: CxlRegion, dax: DaxDevice, mode: MemoryMode) -> UsableMemory:
    return UsableMemory(
        region.name, dax.name, mode, dax.path, dax.major, dax.minor, dax.bytes, dax.align, dax.numa_node
    )


def _online_blocks(region: CxlRegion) -> tuple[str, ...]:
    return tuple(block.name for block in region.blocks if block.online)


def _is_movable(block: MemoryBlock) -> bool:
    return block.online and block.movable
