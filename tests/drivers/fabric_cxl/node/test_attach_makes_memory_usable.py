"""`attach` makes memory usable that the fabric has connected, and clears it before anybody gets it."""

import asyncio
from collections.abc import Callable

import pytest

import dradriver as dra
from dradriver_fabric_cxl.memory import MemoryMode
from dradriver_fabric_cxl.memory.simulator import MemoryCall
from dradriver_fabric_cxl.names import NOT_READY
from tests.drivers.fabric_cxl.cxl_nodes import (
    ACCELERATOR,
    GIB,
    MEMORY,
    OTHER,
    CxlNode,
    accelerator,
    binding_claim,
    claim,
    memory,
)

NO_WAIT = "waitSeconds: 0.05"
"""For devices that never appear."""


async def attach(node: CxlNode, device: dra.AllocatedDevice, uid: str = "uid-1") -> None:
    async with node.running() as driver:
        await driver.attach(binding_claim(claim(device, uid=uid)), device)


async def fail_to_attach(node: CxlNode, device: dra.AllocatedDevice, uid: str = "uid-1") -> dra.AttachError:
    with pytest.raises(dra.AttachError) as failed:
        await attach(node, device, uid)
    return failed.value


async def test_memory_is_a_cleared_character_device(node: CxlNode) -> None:
    await attach(node, memory())
    assert node.mode() is MemoryMode.DEVDAX
    assert node.memory.is_clear(MEMORY)
    assert node.mode(OTHER) is None


async def test_memory_that_is_usable_is_not_touched_again(node: CxlNode) -> None:
    await attach(node, memory())
    for call in MemoryCall:
        node.memory.fail(call)
    await attach(node, memory())


async def test_attach_waits_until_the_memory_is_plugged_in(node: CxlNode) -> None:
    node.memory.unplug(MEMORY)
    async with node.running() as driver:
        attaching = asyncio.create_task(driver.attach(binding_claim(claim(memory())), memory()))
        while not node.used.looks:
            await asyncio.sleep(0.01)
        node.memory.plug(MEMORY, GIB)
        await attaching
    assert node.mode() is MemoryMode.DEVDAX


async def test_the_next_owner_never_gets_what_the_last_one_left(node: CxlNode) -> None:
    async with node.running() as driver:
        await driver.attach(binding_claim(claim(memory())), memory())
        await driver.unprepare(claim(memory()))
        node.memory.unplug(MEMORY)
        node.memory.plug(MEMORY, GIB)
        assert not node.memory.is_clear(MEMORY)
        await driver.attach(binding_claim(claim(memory(), uid="uid-2")), memory())
    assert node.memory.is_clear(MEMORY)


async def test_memory_whose_clearing_failed_is_cleared_by_the_next_call(node: CxlNode) -> None:
    node.memory.fail(MemoryCall.CLEAR)
    assert (await fail_to_attach(node, memory())).reason == "MemoryFailed"
    assert not node.memory.is_clear(MEMORY)
    await attach(node, memory())
    assert node.memory.is_clear(MEMORY)


async def test_the_operator_can_turn_clearing_off(node: CxlNode) -> None:
    node.settings = "clear: false"
    await attach(node, memory())
    assert node.mode() is MemoryMode.DEVDAX
    assert not node.memory.is_clear(MEMORY)


async def test_system_ram_is_cleared_before_the_node_gets_it(node: CxlNode) -> None:
    node.settings = "systemRam: true"
    await attach(node, memory(mode="system-ram"))
    assert node.mode() is MemoryMode.SYSTEM_RAM
    assert node.memory.is_clear(MEMORY)


async def test_memory_that_comes_back_after_it_was_pulled_is_made_and_cleared_again(node: CxlNode) -> None:
    await attach(node, memory())
    node.memory.unplug(MEMORY)
    node.memory.plug(MEMORY, GIB)
    await attach(node, memory())
    assert node.mode() is MemoryMode.DEVDAX
    assert node.memory.is_clear(MEMORY)


async def test_memory_that_another_program_has_changed_is_made_and_cleared_again(node: CxlNode) -> None:
    await attach(node, memory())
    node.memory.make(MEMORY, MemoryMode.SYSTEM_RAM)
    await attach(node, memory())
    assert node.mode() is MemoryMode.DEVDAX


async def test_memory_that_the_kernel_brought_online_becomes_a_character_device(node: CxlNode) -> None:
    """Such as memory that another program left as system RAM."""
    node.memory.make(MEMORY, MemoryMode.SYSTEM_RAM)
    await attach(node, memory())
    assert node.mode() is MemoryMode.DEVDAX


async def test_an_accelerator_is_waited_for_until_it_has_its_driver(node: CxlNode) -> None:
    settings, node.settings = node.settings, NO_WAIT
    node.accelerators.set_driver(ACCELERATOR, has_driver=False)
    while "is its driver loaded?" not in str(await fail_to_attach(node, accelerator())):
        pass  # the wait ended before the first look
    node.settings = settings
    node.accelerators.set_driver(ACCELERATOR, has_driver=True)
    await attach(node, accelerator())


@pytest.mark.parametrize(
    ("reason", "is_bad", "change"),
    [
        ("MemoryNotFound", True, lambda node: node.memory.unplug(MEMORY)),
        ("MemoryFailed", True, lambda node: node.memory.fail(MemoryCall.COMMIT)),
        ("NodeUnsupported", False, lambda node: node.memory.set_virtual(virtual=True)),
        ("NoAddressSpace", False, lambda node: node.memory.set_window(GIB // 2)),
        ("NodeFailed", False, lambda node: (node.folder / "devices").write_text("no folder")),
    ],
)
async def test_only_a_failure_of_the_device_taints_it(
    node: CxlNode, reason: str, is_bad: bool, change: Callable[[CxlNode], object]
) -> None:
    change(node)
    if reason == "MemoryNotFound":
        node.settings = NO_WAIT
    error = await fail_to_attach(node, memory())
    assert (error.reason, error.device_is_bad, error.condition) == (reason, is_bad, NOT_READY)


async def test_an_accelerator_that_does_not_appear_is_bad(node: CxlNode) -> None:
    node.settings = NO_WAIT
    error = await fail_to_attach(node, accelerator(serial=5))
    assert (error.reason, error.device_is_bad) == ("AcceleratorNotFound", True)
    assert "0x5" in str(error)


@pytest.mark.parametrize("data", [None, {}, {"serial": 7}, {"serial": "sn-7"}])
async def test_a_device_without_data_of_the_pool_driver_cannot_be_attached(
    node: CxlNode, data: dict[str, object] | None
) -> None:
    error = await fail_to_attach(node, dra.AllocatedDevice("memory", "fabric-1", "pool-a-1", data=data))
    assert (error.reason, error.device_is_bad) == ("NoData", False)
    assert "pool-a-1" in str(error)


async def test_system_ram_is_refused_unless_the_operator_allows_it(node: CxlNode) -> None:
    error = await fail_to_attach(node, memory(mode="system-ram"))
    assert (error.reason, error.device_is_bad) == ("SystemRamNotAllowed", False)
    assert "systemRam" in str(error)
    assert node.mode() is None
    assert not node.records


async def test_two_claims_never_get_the_same_memory(node: CxlNode) -> None:
    await attach(node, memory())
    error = await fail_to_attach(node, memory("pool-a-2"), uid="uid-2")
    assert (error.reason, error.device_is_bad) == ("SerialInUse", False)
    assert "uid-1" in str(error)


async def test_two_devices_of_two_claims_are_attached_at_the_same_time(node: CxlNode) -> None:
    async with node.running() as driver:
        await asyncio.gather(
            driver.attach(binding_claim(claim(memory())), memory()),
            driver.attach(binding_claim(claim(memory("b", OTHER), uid="uid-2")), memory("b", OTHER)),
        )
    assert node.mode(MEMORY) is node.mode(OTHER) is MemoryMode.DEVDAX


async def test_calls_for_one_device_wait_for_each_other(node: CxlNode) -> None:
    """Such as `prepare`, which a kubelet repeats, while `attach` of the process before an update still runs."""
    async with node.running() as old, node.running() as new:
        await asyncio.gather(old.attach(binding_claim(claim(memory())), memory()), new.prepare(claim(memory())))
    assert node.mode() is MemoryMode.DEVDAX


async def test_an_attach_that_is_canceled_can_be_taken_back(node: CxlNode) -> None:
    async with node.running() as driver:
        attaching = asyncio.create_task(driver.attach(binding_claim(claim(memory())), memory()))
        while not node.records:
            await asyncio.sleep(0)
        attaching.cancel()
        await asyncio.gather(attaching, return_exceptions=True)
        await driver.unprepare(claim(memory()))
    assert node.mode() is None
    assert not node.records
