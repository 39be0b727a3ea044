"""The kubelet and the pool driver learn which devices do not work, and what the node cannot do."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

import dradriver as dra
from dradriver_fabric_cxl import FabricCxlDriver
from dradriver_fabric_cxl.memory import MemoryHealth, MemoryInUseError
from dradriver_fabric_cxl.names import SYSTEM_UUID
from tests.drivers.fabric_cxl.cxl_nodes import (
    ACCELERATOR,
    GIB,
    MEMORY,
    OTHER,
    POOL,
    UUID,
    CxlNode,
    accelerator,
    claim,
    memory,
)

LONG = 40.0
"""Seconds: the end of what must end, before the health is reported without a change."""


class CountingContext(dra.DriverContext):
    """Notes that the driver asked for `discover()`."""

    rediscovered = 0

    def rediscover(self) -> None:
        self.rediscovered += 1

    async def wait_for(self, count: int) -> None:
        while self.rediscovered < count:
            await asyncio.sleep(0.01)


async def next_health(driver: FabricCxlDriver) -> dict[str, dra.DeviceHealth]:
    return {each.device: each for each in await anext(driver.health())}


async def test_a_device_that_works_is_healthy(node: CxlNode) -> None:
    async with node.running() as driver:
        assert not await next_health(driver)
        await driver.prepare(claim(memory("a"), accelerator("gpu")))
        health = await next_health(driver)
        assert {name: each.health for name, each in health.items()} == dict.fromkeys(
            ("a", "gpu"), dra.Health.HEALTHY
        )
        assert {each.pool for each in health.values()} == {POOL}
        assert (await driver.report()).unhealthy == {}


@pytest.mark.parametrize(
    ("change", "device", "words"),
    [
        (lambda node: node.memory.unplug(MEMORY), "a", "not plugged in"),
        (lambda node: node.memory.set_health(MEMORY, MemoryHealth.DEGRADED), "a", "degraded"),
        (lambda node: node.memory.set_health(MEMORY, MemoryHealth.FAILED), "a", "failed"),
        (lambda node: node.memory.take_back(MEMORY), "a", "region"),
        (lambda node: node.accelerators.unplug(ACCELERATOR), "gpu", "not plugged in"),
        (lambda node: node.accelerators.set_driver(ACCELERATOR, has_driver=False), "gpu", "driver"),
    ],
)
async def test_a_device_that_does_not_work_is_reported_with_its_reason(
    node: CxlNode, change: Callable[[CxlNode], None], device: str, words: str
) -> None:
    async with node.running() as driver:
        await driver.prepare(claim(memory("a"), accelerator("gpu")))
        change(node)
        health = await next_health(driver)
        assert health[device].health is dra.Health.UNHEALTHY
        assert words in health[device].message
        assert (await driver.report()).unhealthy == {device: health[device].message}


async def test_shares_of_one_device_are_one_device(node: CxlNode) -> None:
    async with node.running() as driver:
        await driver.prepare(claim(memory("whole", MEMORY, share="1"), memory("whole", OTHER, share="2")))
        node.memory.unplug(OTHER)
        (report,) = (await next_health(driver)).values()
        assert report.health is dra.Health.UNHEALTHY
        assert hex(OTHER) in report.message
        assert hex(MEMORY) not in report.message


async def test_memory_that_is_being_taken_back_is_not_reported(node: CxlNode) -> None:
    async with node.running() as driver:
        await driver.prepare(claim(memory()))
        node.memory.set_in_use(MEMORY, in_use=True)
        with pytest.raises(MemoryInUseError):
            await driver.unprepare(claim(memory()))
        assert not await next_health(driver)


async def test_a_device_that_was_taken_back_becomes_unknown(node: CxlNode) -> None:
    async with node.running() as driver, asyncio.timeout(LONG):
        await driver.prepare(claim(memory(), accelerator()))
        reports = driver.health()
        before = await anext(reports)
        await driver.unprepare(claim(memory(), accelerator()))
        node.memory.unplug(MEMORY)
        after: list[dra.DeviceHealth] = []
        while {each.health for each in after} != {dra.Health.UNKNOWN}:
            after = list(await anext(reports))
        assert {(each.pool, each.device) for each in after} == {(each.pool, each.device) for each in before}


@asynccontextmanager
async def counting(node: CxlNode) -> AsyncIterator[tuple[FabricCxlDriver, CountingContext]]:
    """A process of the driver that has reported its first state."""
    driver = node.driver()
    driver.set_context(context := CountingContext("node-1", node.folder))
    await driver.discover()
    try:
        async with asyncio.timeout(LONG):
            await context.wait_for(1)
        yield driver, context
    finally:
        await driver.shutdown()


async def test_a_pulled_device_is_reported_at_once(node: CxlNode) -> None:
    """The SDK calls `report()` after it called `discover()`."""
    async with counting(node) as (driver, context), asyncio.timeout(LONG):
        await driver.prepare(claim(memory()))
        reports = driver.health()
        (healthy,) = await anext(reports)
        assert healthy.health is dra.Health.HEALTHY
        node.memory.unplug(MEMORY)
        while any(each.health is dra.Health.HEALTHY for each in await anext(reports)):
            pass
        await context.wait_for(2)


async def test_a_node_that_can_use_memory_later_reports_it(node: CxlNode) -> None:
    """As after the kernel's modules were loaded late: devices appear then."""
    node.memory.unplug(MEMORY)
    node.memory.set_window(0)
    async with counting(node) as (driver, context), asyncio.timeout(LONG):
        assert (await driver.report()).problem
        node.memory.set_window(64 * GIB)
        node.memory.plug(MEMORY, GIB)
        await context.wait_for(2)
        assert not (await driver.report()).problem


async def test_the_pool_driver_learns_the_identity_of_the_computer(node: CxlNode) -> None:
    async with node.running() as driver:
        assert await driver.report() == dra.NodeReport(values={SYSTEM_UUID: UUID})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda node: node.memory.set_window(0), "no CXL root decoder"),
        (lambda node: node.memory.set_virtual(virtual=True), "virtual machine"),
    ],
)
async def test_a_node_that_can_use_no_memory_reports_why(
    node: CxlNode, change: Callable[[CxlNode], None], words: str
) -> None:
    change(node)
    async with node.running() as driver:
        assert words in (await driver.report()).problem
