"""The changes that a simulated kernel accepts."""

import enum
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, TypeAlias

from dradriver_fabric_cxl.memory.errors import (
    CxlMemoryError,
    MemoryInUseError,
    NoAddressSpaceError,
    NodeUnsupportedError,
)
from dradriver_fabric_cxl.memory.kernel import CxlKernel, DaxDevice, DaxDriver, KernelState
from dradriver_fabric_cxl.memory.simulator.rules import (
    bind_dax,
    bind_region,
    bring_offline,
    count_online_bytes,
    find_block,
    find_free_bytes,
    find_free_number,
    find_memdev_of,
    find_region,
    show,
    unbind_dax,
    unbind_region,
)
from dradriver_fabric_cxl.memory.simulator.state import (
    BlockState,
    MemoryNodeState,
    MemoryStore,
    RegionState,
)
from dradriver_fabric_cxl.memory.values import MemoryHealth

__all__ = ["MemoryCall", "MemoryHook", "SimulatedKernel"]

MemoryHook: TypeAlias = Callable[[str, str], None]
"""Called with a call's name, and with `before` or `after`: before and after the call takes effect."""

_CLEAR_CHUNKS: Final = 8


class MemoryCall(enum.Enum):
    """A change that can fail."""

    RESERVE = "reserve"
    CREATE_REGION = "create region"
    SET_SIZE = "set size"
    SET_TARGET = "set target"
    COMMIT = "commit"
    UNCOMMIT = "uncommit"
    CLAIM_DAX = "claim dax"
    DISCLAIM_DAX = "disclaim dax"
    BIND_REGION = "bind region"
    UNBIND_REGION = "unbind region"
    DELETE_REGION = "delete region"
    BIND_DAX = "bind dax"
    UNBIND_DAX = "unbind dax"
    ONLINE = "online"
    OFFLINE = "offline"
    CLEAR = "clear"


class SimulatedKernel(CxlKernel):
    """A kernel with one window of addresses. See `CxlKernel`.

    Args:
        store: the state.
        hook: called around each change; it can raise, or end the process.
    """

    def __init__(self, store: MemoryStore, hook: MemoryHook) -> None:
        self._store = store
        self._hook = hook

    def read(self) -> KernelState:
        """See `CxlKernel`."""
        with self._store.change() as state:
            return show(state)

    def health(self, memdev: str) -> MemoryHealth:
        """See `CxlKernel`."""
        with self._store.change() as state:
            return find_memdev_of(state, memdev).health

    def reserve(self, decoder: str, size: int) -> None:
        """See `CxlKernel`."""
        with self._change(MemoryCall.RESERVE) as state:
            find_memdev_of(state, decoder).reserved = size

    def create_region(self, root: str) -> str:  # noqa: ARG002 - there is one window
        """See `CxlKernel`."""
        with self._change(MemoryCall.CREATE_REGION) as state:
            region = RegionState(find_free_number([each.number for each in state.regions]))
            state.regions.append(region)
        return f"region{region.number}"

    def set_size(self, region: str, size: int) -> None:
        """See `CxlKernel`."""
        with self._change(MemoryCall.SET_SIZE) as state:
            if size > find_free_bytes(state):
                raise NoAddressSpaceError(f"{region}: the window has no room for {size} bytes")
            find_region(state, region).bytes = size

    def set_target(self, region: str, decoder: str) -> None:
        """See `CxlKernel`."""
        with self._change(MemoryCall.SET_TARGET) as state:
            find_region(state, region).target = find_memdev_of(state, decoder).serial

    def commit(self, region: str) -> None:
        """See `CxlKernel`."""
        with self._change(MemoryCall.COMMIT) as state:
            if state.virtual:
                raise NodeUnsupportedError(f"{region}: the kernel cannot flush the processor's caches")
            find_region(state, region).committed = True

    def uncommit(self, region: str) -> None:
        """See `CxlKernel`."""
        with self._change(MemoryCall.UNCOMMIT) as state:
            found = find_region(state, region)
            unbind_region(state, found)
            found.committed = False

    def claim_dax(self, region: str) -> None:
        """See `CxlKernel`."""
        with self._change(MemoryCall.CLAIM_DAX) as state:
            state.claimed = sorted({*state.claimed, find_region(state, region).number})

    def disclaim_dax(self, region: str) -> None:
        """See `CxlKernel`."""
        with self._change(MemoryCall.DISCLAIM_DAX) as state:
            number = find_region(state, region).number
            state.claimed = [each for each in state.claimed if each != number]

    def bind_region(self, region: str) -> None:
        """See `CxlKernel`."""
        with self._change(MemoryCall.BIND_REGION) as state:
            bind_region(state, find_region(state, region))

    def unbind_region(self, region: str) -> None:
        """See `CxlKernel`."""
        with self._change(MemoryCall.UNBIND_REGION) as state:
            unbind_region(state, find_region(state, region))

    def delete_region(self, region: str) -> None:
        """See `CxlKernel`."""
        with self._change(MemoryCall.DELETE_REGION) as state:
            found = find_region(state, region)
            unbind_region(state, found)
            state.regions.remove(found)

    def bind_dax(self, dax: str, driver: DaxDriver) -> None:
        """See `CxlKernel`."""
        with self._change(MemoryCall.BIND_DAX) as state:
            bind_dax(find_region(state, dax), driver)

    def unbind_dax(self, dax: str) -> None:
        """See `CxlKernel`."""
        with self._change(MemoryCall.UNBIND_DAX) as state:
            region = find_region(state, dax)
            state.claimed = [each for each in state.claimed if each != region.number]
            if count_online_bytes(region) == 0:
                unbind_dax(state, region)

    def online(self, blocks: Sequence[str]) -> None:
        """See `CxlKernel`."""
        for block in blocks:
            with self._change(MemoryCall.ONLINE) as state:
                region, index = find_block(state, block)
                region.blocks[index] = BlockState.MOVABLE

    def offline(self, blocks: Sequence[str]) -> None:
        """See `CxlKernel`. The last block of a region has the pages that programs use."""
        for block in blocks:
            with self._change(MemoryCall.OFFLINE) as state:
                region, index = find_block(state, block)
                used = any(each.in_use and each.serial == region.target for each in state.memdevs)
                if (used or region.in_use) and index == len(region.blocks) - 1:
                    raise MemoryInUseError(f"{block} cannot be brought offline: its pages are in use")
                bring_offline(state, region, index)

    def find_user(self, dax: DaxDevice) -> str:
        """See `CxlKernel`."""
        with self._store.change() as state:
            target = find_region(state, dax.name).target
            used = any(each.in_use and each.serial == target for each in state.memdevs)
        return "a program has it open" if used else ""

    def clear(self, dax: DaxDevice, proceed: Callable[[int], bool]) -> bool:
        """See `CxlKernel`."""
        for chunk in range(1, _CLEAR_CHUNKS + 1):
            with self._change(MemoryCall.CLEAR) as state:
                region = find_region(state, dax.name)
                cleared = region.bytes * chunk // _CLEAR_CHUNKS
                for memdev in state.memdevs:
                    if memdev.serial == region.target:
                        memdev.cleared = max(memdev.cleared, cleared)
            if not proceed(cleared):
                return False
        return True

    @contextmanager
    def _change(self, call: MemoryCall) -> Iterator[MemoryNodeState]:
        self._hook(call.value, "before")
        with self._store.change() as state:
            fails = state.faults.get(call.value, 0)
            if fails:
                state.faults[call.value] = fails - 1
            else:
                yield state
        if fails:
            raise CxlMemoryError(f"{call.value}: the kernel refuses")
        self._hook(call.value, "after")
