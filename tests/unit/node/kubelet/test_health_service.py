"""A driver's health reports reach the kubelet's streams."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import grpc
import pytest

from dradriver.driver import DeviceHealth, Health
from dradriver.node.kubelet import health_service
from dradriver.node.kubelet.health_service import HealthMonitor, HealthReport
from dradriver.node.reporting.metrics import NodeMetrics
from dradriver.wire import health_v1, health_v1alpha1
from dradriver.wire.stubs import health_v1_grpc, health_v1alpha1_grpc
from tests.unit.node.plugin_world import Node, dial, info
from tests.unit.node.world import DRIVER, NODE, LampDriver


class WatchedDriver(LampDriver):
    """Health comes out of a queue; an exception in it is raised."""

    def __init__(self) -> None:
        super().__init__({})
        self.reports: asyncio.Queue[list[DeviceHealth] | Exception] = asyncio.Queue()
        self.watches = 0

    async def health(self) -> AsyncIterator[Iterable[DeviceHealth]]:
        self.watches += 1
        while True:
            report = await self.reports.get()
            if isinstance(report, Exception):
                raise report
            yield report


OK = DeviceHealth("lamp-0", Health.HEALTHY)
BROKEN = DeviceHealth("lamp-1", Health.UNHEALTHY, "the filament is broken")


@asynccontextmanager
async def monitoring(driver: LampDriver, **settings: Any) -> AsyncIterator[tuple[HealthMonitor, NodeMetrics]]:
    metrics = NodeMetrics(DRIVER)
    monitor = HealthMonitor(driver, NODE, metrics, **settings)
    task = asyncio.create_task(monitor.run())
    yield monitor, metrics
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def healths(reports: list[HealthReport]) -> set[DeviceHealth]:
    return {report.health for report in reports}


async def test_a_stream_gets_all_reports_first_and_then_the_changes() -> None:
    driver = WatchedDriver()
    async with monitoring(driver) as (monitor, _):
        early = monitor.stream()
        driver.reports.put_nowait([OK])
        assert healths(await anext(early)) == {OK}
        driver.reports.put_nowait([BROKEN])
        assert healths(await anext(early)) == {BROKEN}
        late = monitor.stream()
        assert healths(await anext(late)) == {OK, BROKEN}
        for stream in (early, late):
            await stream.aclose()  # type: ignore[attr-defined]
        assert driver.watches == 1


async def test_a_health_method_that_raises_is_called_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dradriver.node.kubelet.health_service._RETRY_SECONDS", (0, 0))
    driver = WatchedDriver()
    driver.reports.put_nowait(OSError("bus error"))
    driver.reports.put_nowait([OK])
    async with monitoring(driver) as (monitor, _):
        stream = monitor.stream()
        assert healths(await anext(stream)) == {OK}
        await stream.aclose()  # type: ignore[attr-defined]
    assert driver.watches == 2


async def test_a_device_without_new_reports_is_forgotten() -> None:
    driver, now = WatchedDriver(), [1000.0]
    async with monitoring(driver, clock=lambda: now[0]) as (monitor, _):
        early = monitor.stream()
        driver.reports.put_nowait([OK, BROKEN])
        await anext(early)
        now[0] += 700
        driver.reports.put_nowait([OK])
        await anext(early)
        late = monitor.stream()
        assert healths(await anext(late)) == {OK}
        for stream in (early, late):
            await stream.aclose()  # type: ignore[attr-defined]


async def test_stale_reports_are_logged_once() -> None:
    driver, now = WatchedDriver(), [1000.0]
    async with monitoring(driver, clock=lambda: now[0]) as (monitor, metrics):

        def stale() -> float | None:
            return metrics.registry.get_sample_value(
                "dradriver_node_background_errors_total", {"driver": DRIVER, "source": "health_stale"}
            )

        stream = monitor.stream()
        driver.reports.put_nowait([OK])
        await anext(stream)
        now[0] += 31
        driver.reports.put_nowait([BROKEN])  # news of another device does not refresh the first
        await anext(stream)
        while stale() != 1:
            await asyncio.sleep(0.01)
        driver.reports.put_nowait([BROKEN])
        await anext(stream)
        assert stale() == 1
        await stream.aclose()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("messages", "stub"),
    [(health_v1, health_v1_grpc), (health_v1alpha1, health_v1alpha1_grpc)],
    ids=["v1", "v1alpha1"],
)
async def test_the_kubelet_reads_both_versions(tmp_path: Path, messages: Any, stub: Any) -> None:
    driver = WatchedDriver()
    driver.reports.put_nowait([DeviceHealth("lamp-1", Health.UNHEALTHY, "broken", check_timeout=60)])
    async with Node(tmp_path).running(driver) as plugin, dial(plugin.sockets.service) as channel:
        assert list((await info(plugin)).supported_versions)[2:] == [
            "v1.DRAResourceHealth",
            "v1alpha1.DRAResourceHealth",
        ]
        stream = stub.DRAResourceHealthStub(channel).NodeWatchResources(messages.NodeWatchResourcesRequest())
        (device,) = (await stream.read()).devices
        assert (device.device.pool_name, device.device.device_name) == (NODE, "lamp-1")
        assert (device.health, device.message) == (messages.UNHEALTHY, "broken")
        assert device.health_check_timeout_seconds == 60
        assert device.last_updated_time > 0


async def test_a_driver_that_declines_on_this_machine_is_unimplemented(tmp_path: Path) -> None:
    driver = WatchedDriver()
    async with Node(tmp_path).running(driver) as plugin, dial(plugin.sockets.service) as channel:
        stub = health_v1_grpc.DRAResourceHealthStub(channel)
        early = stub.NodeWatchResources(health_v1.NodeWatchResourcesRequest())
        driver.reports.put_nowait(NotImplementedError())
        for stream in (early, stub.NodeWatchResources(health_v1.NodeWatchResourcesRequest())):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await stream.read()
            assert caught.value.code() == grpc.StatusCode.UNIMPLEMENTED


async def test_an_open_stream_does_not_delay_a_stop(tmp_path: Path) -> None:
    driver = WatchedDriver()
    driver.reports.put_nowait([OK])
    plugin = Node(tmp_path).plugin(driver)
    await plugin.start()
    async with dial(plugin.sockets.service) as channel:
        stream = health_v1_grpc.DRAResourceHealthStub(channel).NodeWatchResources(
            health_v1.NodeWatchResourcesRequest()
        )
        await stream.read()
        await plugin.stop(3600)


class Careless(LampDriver):
    """Yields an invalid report first, then a valid one."""

    def __init__(self, wrong: object) -> None:
        super().__init__({})
        self.wrong = [wrong]

    async def health(self) -> AsyncIterator[Iterable[DeviceHealth]]:
        if self.wrong:
            wrong = self.wrong.pop()
            if isinstance(wrong, BaseException):
                raise wrong
            yield [cast(DeviceHealth, wrong)]
        yield [OK]
        await asyncio.Event().wait()


@pytest.mark.parametrize(
    "wrong",
    [
        DeviceHealth("lamp-0", cast(Health, "Healthy")),
        DeviceHealth("lamp-0", Health.HEALTHY, cast(str, None)),
        DeviceHealth(cast(str, 5), Health.HEALTHY),
        DeviceHealth("lamp-0", Health.HEALTHY, check_timeout=cast(int, 0.5)),
        DeviceHealth("lamp-0", Health.HEALTHY, check_timeout=-1),
        DeviceHealth("lamp-0", Health.HEALTHY, "half a \ud800 character"),
        "lamp-0 is fine",
        SystemExit(1),
        asyncio.CancelledError(),
    ],
)
async def test_an_invalid_report_reaches_no_stream_and_health_is_called_again(
    wrong: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health_service, "_RETRY_SECONDS", (0.0, 0.0))
    async with monitoring(Careless(wrong)) as (monitor, _):
        assert healths(await anext(monitor.stream())) == {OK}
