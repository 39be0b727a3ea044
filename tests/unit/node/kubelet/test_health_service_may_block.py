"""`health()` as a plain method: its code runs in a thread of its own, and never on the event loop."""

import asyncio
import queue
import threading
from collections.abc import AsyncIterator, Iterable, Iterator

import pytest

from dradriver.driver import DeviceHealth, Health
from dradriver.node.kubelet import health_service
from dradriver.node.kubelet.health_service import HealthMonitor
from dradriver.node.reporting.metrics import NodeMetrics
from tests.unit.node.world import DRIVER, NODE, LampDriver

OK = DeviceHealth("lamp-0", Health.HEALTHY)
BROKEN = DeviceHealth("lamp-1", Health.UNHEALTHY, "the filament is broken")


class BlockingDriver(LampDriver):
    """Waits for reports the way a thread waits."""

    def __init__(self) -> None:
        super().__init__({})
        self.reports: queue.SimpleQueue[list[DeviceHealth] | BaseException] = queue.SimpleQueue()
        self.threads: set[threading.Thread] = set()
        self.waiting = threading.Event()
        self.closed = threading.Event()

    def health(self) -> Iterator[Iterable[DeviceHealth]]:
        try:
            while True:
                self.threads.add(threading.current_thread())
                self.waiting.set()
                report = self.reports.get()
                if isinstance(report, BaseException):
                    raise report
                yield report
        finally:
            self.threads.add(threading.current_thread())
            self.closed.set()


class ReturningDriver(BlockingDriver):
    """No generator itself: it opens its bus, then returns one."""

    def health(self) -> Iterator[Iterable[DeviceHealth]]:
        self.threads.add(threading.current_thread())
        return super().health()


class AsyncReturningDriver(LampDriver):
    """A plain method that returns an async iterator."""

    def health(self) -> AsyncIterator[Iterable[DeviceHealth]]:
        async def reports() -> AsyncIterator[Iterable[DeviceHealth]]:
            yield [OK]
            await asyncio.Event().wait()

        return reports()


async def first_report(monitor: HealthMonitor) -> list[DeviceHealth]:
    return [report.health for report in await anext(monitor.stream())]


@pytest.mark.parametrize("kind", [BlockingDriver, ReturningDriver])
async def test_a_plain_generator_is_read_in_a_thread(kind: type[BlockingDriver]) -> None:
    driver = kind()
    driver.reports.put([OK])
    monitor = HealthMonitor(driver, NODE, NodeMetrics(DRIVER))
    task = asyncio.create_task(monitor.run())
    stream = monitor.stream()
    assert [report.health for report in await anext(stream)] == [OK]
    driver.reports.put([BROKEN])
    assert [report.health for report in await anext(stream)] == [BROKEN]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    driver.reports.put([OK])
    assert len(driver.threads) == 1
    assert threading.current_thread() not in driver.threads


async def test_a_plain_method_may_return_an_async_iterator() -> None:
    monitor = HealthMonitor(AsyncReturningDriver({}), NODE, NodeMetrics(DRIVER))
    task = asyncio.create_task(monitor.run())
    assert await first_report(monitor) == [OK]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_stop_does_not_wait_for_a_report_that_does_not_come() -> None:
    """The generator is closed in its thread when the next report comes; a process that ends does not wait."""
    driver = BlockingDriver()
    task = asyncio.create_task(HealthMonitor(driver, NODE, NodeMetrics(DRIVER)).run())
    await asyncio.to_thread(driver.waiting.wait)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert not driver.closed.is_set()
    (thread,) = driver.threads
    assert thread.daemon
    driver.reports.put([OK])
    await asyncio.to_thread(driver.closed.wait)
    await asyncio.to_thread(thread.join)
    assert driver.threads == {thread}


@pytest.mark.parametrize("error", [OSError("bus error"), SystemExit(1), asyncio.CancelledError()])
async def test_a_plain_generator_that_raises_is_called_again(
    error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health_service, "_RETRY_SECONDS", (0.0, 0.0))
    driver = BlockingDriver()
    driver.reports.put(error)
    driver.reports.put([OK])
    monitor = HealthMonitor(driver, NODE, NodeMetrics(DRIVER))
    task = asyncio.create_task(monitor.run())
    assert await first_report(monitor) == [OK]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    driver.reports.put([OK])


async def test_a_plain_generator_declines_on_this_machine() -> None:
    driver = BlockingDriver()
    driver.reports.put(NotImplementedError())
    monitor = HealthMonitor(driver, NODE, NodeMetrics(DRIVER))
    await monitor.run()
    assert not monitor.supported
