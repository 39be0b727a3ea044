"""A new process finds what earlier processes and boots left."""

import pytest

import dradriver as dra
from dradriver_fabric_cxl.memory import MemoryInUseError, MemoryMode
from dradriver_fabric_cxl.memory.simulator import MemoryCall
from tests.drivers.fabric_cxl.cxl_nodes import GIB, MEMORY, OTHER, CxlNode, accelerator, claim, memory


async def test_a_restart_changes_nothing(node: CxlNode) -> None:
    async with node.running() as driver:
        before = await driver.prepare(claim(memory(), accelerator()))
    async with node.running() as driver:
        assert await driver.prepared_claims() == {"uid-1"}
        assert await driver.prepare(claim(memory(), accelerator())) == before


async def test_claims_of_an_earlier_boot_are_dropped_and_can_be_prepared_again(node: CxlNode) -> None:
    async with node.running() as driver:
        await driver.prepare(claim(memory(), accelerator()))
    node.reboot()
    node.memory.unplug(MEMORY)
    node.memory.plug(MEMORY, GIB)
    async with node.running() as driver:
        assert await driver.prepared_claims() == set()
        assert not node.records
        await driver.prepare(claim(memory(), accelerator()))
    assert node.mode() is MemoryMode.DEVDAX
    assert node.memory.is_clear(MEMORY)


async def test_memory_in_use_of_an_earlier_boot_is_kept_and_does_not_stop_the_start(node: CxlNode) -> None:
    """Such as memory that the firmware gives to the node at each boot."""
    node.settings += "\nsystemRam: true"
    async with node.running() as driver:
        await driver.prepare(claim(memory(mode="system-ram")))
    node.boot = "boot-2"
    node.memory.set_in_use(MEMORY, in_use=True)
    async with node.running() as driver:
        assert await driver.prepared_claims() == {"uid-1"}
        with pytest.raises(MemoryInUseError):
            await driver.prepare(claim(memory(mode="system-ram")))
        node.memory.set_in_use(MEMORY, in_use=False)
        await driver.unprepare(claim(memory(mode="system-ram")))
    assert node.mode() is None
    assert node.memory.phantom_bytes == 0


async def test_regions_of_memory_that_was_pulled_are_removed(node: CxlNode) -> None:
    async with node.running() as driver:
        await driver.prepare(claim(memory()))
    node.memory.unplug(MEMORY)
    async with node.running():
        assert not node.memory.remove_abandoned()


async def test_a_record_of_an_earlier_boot_does_not_show_that_memory_is_clear(node: CxlNode) -> None:
    async with node.running() as driver:
        await driver.prepare(claim(memory()))
        (record,) = (node.folder / "devices").glob("*.json")
        record.write_text(record.read_text().replace("boot-1", "boot-0"))
        node.memory.fail(MemoryCall.CLEAR)
        with pytest.raises(dra.DraError):
            await driver.prepare(claim(memory()))


async def test_one_record_of_an_earlier_boot_that_stays_does_not_keep_the_others(node: CxlNode) -> None:
    async with node.running() as driver:
        for serial in (MEMORY, OTHER):
            await driver.prepare(claim(memory(serial=serial), uid=hex(serial)))
    node.boot = "boot-2"
    for serial, left in ((MEMORY, {hex(MEMORY)}), (OTHER, {hex(OTHER)})):
        node.memory.set_in_use(serial, in_use=True)
        async with node.running() as driver:
            assert await driver.prepared_claims() == left
            node.memory.set_in_use(serial, in_use=False)
            for each in (MEMORY, OTHER):
                await driver.prepare(claim(memory(serial=each), uid=hex(each)))
        node.boot += "+"
