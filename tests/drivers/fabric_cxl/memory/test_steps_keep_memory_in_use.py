"""No step takes memory away that the kernel uses, whatever the kernel shows."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from dradriver_fabric_cxl.memory import MemoryMode
from dradriver_fabric_cxl.memory.actions import DeleteRegion, Ready, UnbindDax, UnbindRegion, UncommitRegion
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
from dradriver_fabric_cxl.memory.steps import next_make_step, next_removal_step

MEMDEV = Memdev("mem0", 7, 1 << 30, (EndpointDecoder("decoder2.0", 1 << 30),), ("decoder0.0",))
ROOT = RootDecoder("decoder0.0", volatile=True, free=1 << 30)

block = st.builds(MemoryBlock, st.just("memory1"), st.booleans(), st.booleans())
dax = st.builds(
    DaxDevice,
    st.just("dax0.0"),
    st.sampled_from([None, *DaxDriver]),
    *map(st.just, (1 << 30, 2 << 20, 1, Path("/dev/dax0.0"), 252, 0)),
)
regions = st.builds(
    CxlRegion,
    name=st.just("region0"),
    bytes=st.just(1 << 30),
    target=st.just("decoder2.0"),
    committed=st.booleans(),
    bound=st.booleans(),
    dax=st.lists(dax, max_size=2).map(tuple),
    blocks=st.lists(block, max_size=3).map(tuple),
)


@given(regions)
def test_a_region_is_removed_only_when_nothing_is_left_of_its_memory(region: CxlRegion) -> None:
    step = next_removal_step(region)
    if isinstance(step, UnbindRegion | UncommitRegion | DeleteRegion):
        assert not region.blocks
        assert not any(each.driver for each in region.dax)


@given(regions, st.sampled_from(MemoryMode))
def test_system_ram_loses_its_driver_only_when_it_is_offline(region: CxlRegion, mode: MemoryMode) -> None:
    state = KernelState((MEMDEV,), (ROOT,), (region,), frozenset(DaxDriver), virtual=False)
    for step in (next_removal_step(region), next_make_step(state, MEMDEV, mode)):
        if isinstance(step, UnbindDax) and step.dax.driver is DaxDriver.KMEM:
            assert not any(block.online for block in region.blocks)


@given(regions)
def test_memory_is_ready_as_system_ram_only_if_it_can_leave_again(region: CxlRegion) -> None:
    state = KernelState((MEMDEV,), (ROOT,), (region,), frozenset(DaxDriver), virtual=False)
    step = next_make_step(state, MEMDEV, MemoryMode.SYSTEM_RAM)
    if isinstance(step, Ready):
        assert region.blocks
        assert all(block.online and block.movable for block in region.blocks)
