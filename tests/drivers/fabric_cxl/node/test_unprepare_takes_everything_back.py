"""`unprepare` takes back what a claim has on the node, and keeps memory that is in use."""

import asyncio
import shutil
from dataclasses import replace

import pytest

import dradriver as dra
from dradriver_fabric_cxl.memory import MemoryInUseError, MemoryMode
from dradriver_fabric_cxl.memory.simulator import MemoryCall
from tests.drivers.fabric_cxl.cxl_nodes import (
    MEMORY,
    OTHER,
    POOL,
    CxlNode,
    accelerator,
    binding_claim,
    claim,
    memory,
)

MODES = [mode.value for mode in MemoryMode]


@pytest.fixture(autouse=True)
def allow_system_ram(node: CxlNode) -> None:
    node.settings += "\nsystemRam: true"


@pytest.mark.parametrize("mode", MODES)
async def test_nothing_is_left_of_a_claim(node: CxlNode, mode: str) -> None:
    both = claim(memory(mode=mode), accelerator())
    async with node.running() as driver:
        await driver.prepare(both)
        assert await driver.prepared_claims() == {"uid-1"}
        await driver.unprepare(both)
        assert await driver.prepared_claims() == set()
    assert node.mode() is None
    assert not node.records
    assert node.memory.phantom_bytes == 0


async def test_a_claim_that_was_attached_and_never_prepared_is_taken_back(node: CxlNode) -> None:
    async with node.running() as driver:
        await driver.attach(binding_claim(claim(memory())), memory())
        await driver.unprepare(claim(memory()))
    assert node.mode() is None


async def test_other_claims_keep_their_devices(node: CxlNode) -> None:
    async with node.running() as driver:
        await driver.prepare(claim(memory()))
        await driver.prepare(claim(memory("b", OTHER), uid="uid-2"))
        await driver.unprepare(claim(memory()))
        assert await driver.prepared_claims() == {"uid-2"}
    assert node.mode(OTHER) is MemoryMode.DEVDAX


async def test_a_claim_that_has_nothing_here_is_no_error(node: CxlNode) -> None:
    async with node.running() as driver:
        await driver.unprepare(claim(uid="unknown"))
        await driver.unprepare(claim(memory(), accelerator()))
    assert not node.records


@pytest.mark.parametrize("data", [None, {"serial": 7}])
async def test_a_claim_that_was_never_attached_is_no_error(
    node: CxlNode, data: dict[str, object] | None
) -> None:
    async with node.running() as driver:
        await driver.unprepare(claim(dra.AllocatedDevice("memory", POOL, "pool-a-1", data=data)))


async def test_a_claim_that_only_watches_takes_nothing_from_the_owner(node: CxlNode) -> None:
    watching = replace(memory(), admin_access=True)
    node.memory.make(MEMORY, MemoryMode.DEVDAX)
    async with node.running() as driver:
        await driver.prepare(claim(watching, uid="uid-2"))
        await driver.unprepare(claim(watching, uid="uid-2"))
    assert node.mode() is MemoryMode.DEVDAX


@pytest.mark.parametrize("mode", MODES)
async def test_memory_in_use_stays_with_its_claim_until_it_is_free(node: CxlNode, mode: str) -> None:
    held = claim(memory(mode=mode), accelerator())
    async with node.running() as driver:
        await driver.prepare(held)
        node.memory.set_in_use(MEMORY, in_use=True)
        with pytest.raises(MemoryInUseError):
            await driver.unprepare(held)
        assert node.mode() is MemoryMode(mode)
        assert await driver.prepared_claims() == {"uid-1"}
        node.memory.set_in_use(MEMORY, in_use=False)
        await driver.unprepare(held)
    assert node.mode() is None
    assert node.memory.phantom_bytes == 0


async def test_one_device_that_stays_does_not_keep_the_others(node: CxlNode) -> None:
    both = claim(memory(), memory("b", OTHER))
    async with node.running() as driver:
        await driver.prepare(both)
        node.memory.set_in_use(MEMORY, in_use=True)
        with pytest.raises(MemoryInUseError):
            await driver.unprepare(both)
    assert (node.mode(MEMORY), node.mode(OTHER)) == (MemoryMode.DEVDAX, None)


async def test_a_claim_is_prepared_again_after_it_could_not_be_taken_back(node: CxlNode) -> None:
    async with node.running() as driver:
        await driver.prepare(claim(memory()))
        node.memory.fail(MemoryCall.DELETE_REGION)
        with pytest.raises(dra.DraError):
            await driver.unprepare(claim(memory()))
        await driver.prepare(claim(memory()))
    assert node.mode() is MemoryMode.DEVDAX


@pytest.mark.parametrize("damage", ["", "{}", None])
async def test_memory_whose_record_is_lost_is_found_by_the_claim(node: CxlNode, damage: str | None) -> None:
    async with node.running() as driver:
        await driver.prepare(claim(memory(mode="system-ram")))
        (record,) = (node.folder / "devices").glob("*.json")
        record.unlink() if damage is None else record.write_text(damage)
        await driver.unprepare(claim(memory(mode="system-ram")))
    assert node.mode() is None
    assert not node.records


async def test_memory_whose_claim_is_unknown_stays_and_is_reported(node: CxlNode) -> None:
    """The driver's files are lost, and the SDK knows only the UID. The fabric must not detach the memory."""
    async with node.running() as driver:
        await driver.prepare(claim(memory()))
        shutil.rmtree(node.folder / "devices")
        with pytest.raises(MemoryInUseError, match="0x1234"):
            await driver.unprepare(claim())
        assert node.mode() is MemoryMode.DEVDAX
        await driver.prepare(claim(memory(), uid="uid-2"))  # the memory has a record again
        await driver.unprepare(claim())


async def test_memory_in_use_is_not_cleared_after_its_record_is_lost(node: CxlNode) -> None:
    async with node.running() as driver:
        await driver.prepare(claim(memory()))
        shutil.rmtree(node.folder / "devices")
        node.memory.set_in_use(MEMORY, in_use=True)
        calls: list[str] = []
        node.hook = lambda call, _moment: calls.append(call)
    async with node.running() as driver:
        with pytest.raises(MemoryInUseError):
            await driver.prepare(claim(memory()))
        assert MemoryCall.CLEAR.value not in calls
        node.memory.set_in_use(MEMORY, in_use=False)
        await driver.unprepare(claim())
        assert node.mode() is None
        await driver.unprepare(claim())


async def test_memory_that_another_claim_has_now_is_not_taken(node: CxlNode) -> None:
    """As after a reboot, when the claim before it is unprepared late."""
    async with node.running() as driver:
        await driver.prepare(claim(memory(), uid="uid-2"))
        await driver.unprepare(claim(memory(), uid="uid-1"))
        assert await driver.prepared_claims() == {"uid-2"}
    assert node.mode() is MemoryMode.DEVDAX


async def test_memory_that_was_pulled_is_given_up(node: CxlNode) -> None:
    async with node.running() as driver:
        await driver.prepare(claim(memory(), accelerator()))
        node.memory.unplug(MEMORY)
        await driver.unprepare(claim(memory(), accelerator()))
    assert not node.records
    assert not node.memory.remove_abandoned()


async def test_claims_are_taken_back_at_the_same_time(node: CxlNode) -> None:
    claims = [claim(memory()), claim(memory("b", OTHER), uid="uid-2")]
    async with node.running() as driver:
        await asyncio.gather(*map(driver.prepare, claims))
        await asyncio.gather(*map(driver.unprepare, claims))
    assert node.mode(MEMORY) is node.mode(OTHER) is None
