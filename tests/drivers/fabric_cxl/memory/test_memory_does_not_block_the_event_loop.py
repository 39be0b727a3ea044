"""`NodeMemory`: calls on threads, one at a time for each device."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from dradriver_fabric_cxl.memory import CxlMemoryError, MemoryMode, NodeMemory
from dradriver_fabric_cxl.memory.simulator import MemoryFileStore, SimulatedMemory
from tests.drivers.fabric_cxl.memory_suite import OTHER, SERIAL

GIB = 1 << 30
LIMIT = 20


class Gate:
    """A hook that stops at a call until it is opened."""

    def __init__(self, call: str) -> None:
        self.call = call
        self.reached = threading.Event()
        self.opened = threading.Event()
        self.seen: list[str] = []

    def __call__(self, call: str, moment: str) -> None:
        if moment == "before":
            self.seen.append(call)
        if call == self.call and moment == "before":
            self.reached.set()
            assert self.opened.wait(LIMIT)


@pytest.fixture
def store(tmp_path: Path) -> MemoryFileStore:
    return MemoryFileStore(tmp_path / "memory.json")


@pytest.fixture
def outside(store: MemoryFileStore) -> SimulatedMemory:
    """The same node as the process has it that plugs devices."""
    return SimulatedMemory(store)


async def reach(gate: Gate) -> None:
    assert await asyncio.to_thread(gate.reached.wait, LIMIT)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(LIMIT):
        while not holds():
            await asyncio.sleep(0.01)


async def test_a_device_is_waited_for(store: MemoryFileStore, outside: SimulatedMemory) -> None:
    async with NodeMemory(SimulatedMemory(store), rescan=1000) as node, asyncio.timeout(LIMIT):
        waiting = asyncio.create_task(node.wait_for(SERIAL))
        other = asyncio.create_task(node.wait_for(OTHER))
        await asyncio.to_thread(outside.plug, OTHER, GIB)
        assert (await other).serial == OTHER
        assert not waiting.done()
        await asyncio.to_thread(outside.plug, SERIAL, GIB)
        assert (await waiting).serial == SERIAL


async def test_waiting_ends_with_the_node(store: MemoryFileStore) -> None:
    async with NodeMemory(SimulatedMemory(store)) as node:
        waiting = asyncio.create_task(node.wait_for(SERIAL))
        await anext(node.changes())
    with pytest.raises(CxlMemoryError, match="stopped"):
        await waiting


async def test_changes_are_read_again_although_none_is_reported(store: MemoryFileStore) -> None:
    async with NodeMemory(SimulatedMemory(store), rescan=0) as node, asyncio.timeout(LIMIT):
        changes = node.changes()
        for _ in range(3):
            await anext(changes)


async def test_calls_for_one_device_wait_for_each_other(
    store: MemoryFileStore, outside: SimulatedMemory
) -> None:
    outside.plug(SERIAL, GIB)
    gate = Gate("commit")
    async with NodeMemory(SimulatedMemory(store, hook=gate)) as node, asyncio.timeout(LIMIT):
        making = asyncio.create_task(node.make(SERIAL, MemoryMode.DEVDAX))
        await reach(gate)
        taking = asyncio.create_task(node.take_back(SERIAL))
        assert (await node.devices())[0].usable is None
        gate.opened.set()
        assert (await making).mode is MemoryMode.DEVDAX
        await taking
        assert (await node.devices())[0].usable is None


async def test_calls_for_two_devices_do_not_wait_for_each_other(
    store: MemoryFileStore, outside: SimulatedMemory
) -> None:
    outside.plug(SERIAL, GIB)
    outside.plug(OTHER, GIB)
    gate = Gate("offline")
    async with NodeMemory(SimulatedMemory(store, hook=gate)) as node, asyncio.timeout(LIMIT):
        await node.make(SERIAL, MemoryMode.DEVDAX)
        ram = asyncio.create_task(node.make(SERIAL, MemoryMode.SYSTEM_RAM))
        await reach(gate)
        assert (await node.make(OTHER, MemoryMode.DEVDAX)).mode is MemoryMode.DEVDAX
        gate.opened.set()
        await ram


async def test_a_canceled_call_ends_before_the_next_one_begins(
    store: MemoryFileStore, outside: SimulatedMemory
) -> None:
    outside.plug(SERIAL, GIB)
    gate = Gate("commit")
    async with NodeMemory(SimulatedMemory(store, hook=gate)) as node, asyncio.timeout(LIMIT):
        making = asyncio.create_task(node.make(SERIAL, MemoryMode.DEVDAX))
        await reach(gate)
        making.cancel()
        with pytest.raises(asyncio.CancelledError):
            await making
        taking = asyncio.create_task(node.take_back(SERIAL))
        gate.opened.set()
        await taking
    assert gate.seen.index("bind region") < gate.seen.index("unbind region")


async def test_a_call_that_waits_and_is_canceled_never_begins(
    store: MemoryFileStore, outside: SimulatedMemory
) -> None:
    outside.plug(SERIAL, GIB)
    gate = Gate("commit")
    async with NodeMemory(SimulatedMemory(store, hook=gate)) as node, asyncio.timeout(LIMIT):
        making = asyncio.create_task(node.make(SERIAL, MemoryMode.DEVDAX))
        await reach(gate)
        taking = asyncio.create_task(node.take_back(SERIAL))
        await asyncio.sleep(0)
        taking.cancel()
        gate.opened.set()
        await making
    assert outside.devices()[0].usable is not None


async def test_a_canceled_clear_stops_soon(store: MemoryFileStore, outside: SimulatedMemory) -> None:
    outside.plug(SERIAL, GIB)
    gate = Gate("clear")
    reports: list[int] = []
    async with NodeMemory(SimulatedMemory(store, hook=gate)) as node, asyncio.timeout(LIMIT):
        await node.make(SERIAL, MemoryMode.DEVDAX)
        clearing = asyncio.create_task(node.clear(SERIAL, reports.append))
        await reach(gate)
        clearing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await clearing
        gate.opened.set()
        await node.take_back(SERIAL)
    assert gate.seen.count("clear") == 1
    assert not outside.is_clear(SERIAL)


async def test_progress_is_reported_on_the_event_loop(store: MemoryFileStore, outside: SimulatedMemory) -> None:
    outside.plug(SERIAL, GIB)
    threads: set[int] = set()
    reports: list[int] = []

    def report(cleared: int) -> None:
        reports.append(cleared)
        threads.add(threading.get_ident())

    async with NodeMemory(SimulatedMemory(store)) as node:
        await node.make(SERIAL, MemoryMode.DEVDAX)
        await node.clear(SERIAL, report)
        await until(lambda: GIB in reports)
    assert threads == {threading.get_ident()}


async def test_the_caller_gets_the_error_of_its_call(store: MemoryFileStore) -> None:
    async with NodeMemory(SimulatedMemory(store)) as node:
        with pytest.raises(CxlMemoryError, match="0x1234"):
            await node.make(SERIAL, MemoryMode.DEVDAX)
        assert await node.remove_abandoned() == ()
        assert await node.find_problem() == ""


async def test_another_process_does_not_remove_a_region_that_is_being_made(
    store: MemoryFileStore, outside: SimulatedMemory, tmp_path: Path
) -> None:
    outside.plug(SERIAL, GIB)
    gate, lock = Gate("set target"), tmp_path / "regions.lock"
    first = SimulatedMemory(store, hook=gate, lock_file=lock)
    second = SimulatedMemory(store, lock_file=lock)
    making = asyncio.create_task(asyncio.to_thread(first.make, SERIAL, MemoryMode.DEVDAX))
    await reach(gate)
    removing = asyncio.create_task(asyncio.to_thread(second.remove_abandoned))
    await asyncio.wait({removing}, timeout=0.2)  # without the lock it has ended by then
    gate.opened.set()
    assert (await making).mode is MemoryMode.DEVDAX
    assert await removing == ()
