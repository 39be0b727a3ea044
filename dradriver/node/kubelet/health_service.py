"""Device health for the kubelet (KEP-4680): one watch of the driver, any number of streams.

The driver's `health()` is read once. A new stream first gets all current reports and then the changes. The SDK
never repeats a report on its own, so the devices of a driver that has stopped watching become Unknown.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final

import grpc

from dradriver.aio.iteration import opened
from dradriver.aio.tasks import end
from dradriver.driver.base import Driver
from dradriver.driver.code_places import at, defined_at
from dradriver.driver.health import DeviceHealth, Health
from dradriver.errors import DraError, DriverError
from dradriver.node.driver_calls import is_being_cancelled, raised_by, subject_of
from dradriver.node.kubelet.server import CallError, Method, methods_of
from dradriver.node.reporting.metrics import NodeMetrics
from dradriver.wire import health_v1, health_v1alpha1

__all__ = ["HealthMonitor", "HealthReport", "health_methods"]

_log = logging.getLogger(__name__)

_DEFAULT_LEASE: Final = 30.0
"""Seconds after which the kubelet treats a report without `check_timeout` as stale."""
_FORGOTTEN_SECONDS: Final = 600.0
"""A device that is stale for this time while others are reported is gone: drivers do not report removals."""
_RETRY_SECONDS: Final = (1.0, 30.0)
_MAX_MESSAGE: Final = 1024
_ENDLESS: Final = 2**31


@dataclass(frozen=True, slots=True)
class HealthReport:
    """The health of one device, and the time of its report (seconds since the epoch)."""

    health: DeviceHealth
    at: float

    @property
    def stale_at(self) -> float:
        """Return the time at which the kubelet treats the report as stale."""
        return self.at + (self.health.check_timeout or _DEFAULT_LEASE)


class _Subscription:
    """The reports that one stream has not sent yet."""

    def __init__(self, picture: dict[tuple[str, str], HealthReport]) -> None:
        self.news = dict(picture)
        self.wake = asyncio.Event()
        if picture:
            self.wake.set()


def _mistake(health: object) -> str:
    """Return why a report cannot be sent, empty if it can: an invalid one would end every stream."""
    if not isinstance(health, DeviceHealth):
        return f"{health!r}, which is no DeviceHealth,"
    for field in ("device", "pool", "message"):
        if not _is_text(given := getattr(health, field)):
            return f"device {health.device!r}: {field}: {given!r}, which is no text,"
    if not isinstance(health.health, Health):
        return f"device {health.device!r}: health: {health.health!r}, which is no Health,"
    seconds: object = health.check_timeout
    if not (isinstance(seconds, int) and 0 <= seconds < _ENDLESS):
        return f"device {health.device!r}: check_timeout: {seconds!r}, which is no number of seconds,"
    return ""


def _is_text(text: object) -> bool:
    """Return whether protobuf accepts the text: a lone surrogate has no UTF-8."""
    return isinstance(text, str) and text.encode(errors="ignore").decode() == text


class HealthMonitor:
    """Watches the driver's health: `run()` until canceled; `close()` ends the streams.

    Args:
        driver: the driver.
        node: the node's name, which is the pool of reports without one.
        metrics: counts failures and stale reports.
        clock: returns seconds since the epoch.
    """

    def __init__(
        self, driver: Driver, node: str, metrics: NodeMetrics, clock: Callable[[], float] = time.time
    ) -> None:
        self.supported = type(driver).health is not Driver.health
        """Whether the driver reports health."""
        self._driver = driver
        self._node = node
        self._metrics = metrics
        self._clock = clock
        self._picture: dict[tuple[str, str], HealthReport] = {}
        self._subscriptions: set[_Subscription] = set()
        self._stale_told = False
        self._closed = False

    async def run(self) -> None:
        """Read the driver's health until canceled; a failure is logged, counted and retried."""
        wait, longest = _RETRY_SECONDS
        while self.supported:
            try:
                await self._read()
                _log.warning("driver %s: health() ended, asking again in %g s", self._driver.name, wait)
            except NotImplementedError:
                _log.info("driver %s reports no health on this machine", self._driver.name)
                self.supported = False
                self.close()
                return
            except DraError as error:
                _log.error("%s, asking again in %g s", error, wait)
            except Exception as error:
                told = raised_by(self._driver, self._driver.health, error)
                _log.error("%s, asking again in %g s", told, wait)
            self._metrics.background_error("health")
            await asyncio.sleep(wait)
            wait = min(wait * 2, longest)

    async def stream(self) -> AsyncIterator[list[HealthReport]]:
        """Yield all known reports, then the changes, until `close()`."""
        subscription = _Subscription(self._picture)
        self._subscriptions.add(subscription)
        try:
            while not self._closed:
                await subscription.wake.wait()
                subscription.wake.clear()
                if not subscription.news:
                    continue
                news, subscription.news = subscription.news, {}
                yield list(news.values())
        finally:
            self._subscriptions.discard(subscription)

    def close(self) -> None:
        """End every stream."""
        self._closed = True
        for subscription in self._subscriptions:
            subscription.wake.set()

    async def _read(self) -> None:
        method = self._driver.health
        reports = await opened(method, subject_of(self._driver, method), at(defined_at(method)))
        pending: asyncio.Task[Iterable[DeviceHealth] | None] | None = None
        try:
            while True:
                pending = pending or asyncio.create_task(self._next(reports), name="health()")
                await asyncio.wait({pending}, timeout=self._until_stale())
                if not pending.done():
                    self._tell_stale()
                    continue
                told, pending = pending.result(), None
                if told is None:
                    return
                self._take(told)
        finally:
            if pending is not None:
                await end({pending})
            close = getattr(reports, "aclose", None)
            if close is not None and (pending is None or pending.done()):
                await close()

    async def _next(self, reports: AsyncIterator[Iterable[DeviceHealth]]) -> Iterable[DeviceHealth] | None:
        """Return the driver's next report; None when the iterator has ended."""
        try:
            return await anext(reports, None)
        except (asyncio.CancelledError, SystemExit) as error:
            if is_being_cancelled():
                raise
            raise raised_by(self._driver, self._driver.health, error) from error

    def _take(self, yielded: Iterable[DeviceHealth]) -> None:
        if isinstance(yielded, str | Mapping | DeviceHealth) or not isinstance(yielded, Iterable):
            raise self._wrong(f"{type(yielded).__name__}: a list of DeviceHealth is wanted")
        told = list(yielded)
        for index, health in enumerate(told):
            if mistake := _mistake(health):
                raise self._wrong(f"{mistake} at index {index}")
        now = self._clock()
        news = {(health.pool or self._node, health.device): HealthReport(health, now) for health in told}
        self._picture |= news
        for key in [key for key, report in self._picture.items() if report.stale_at + _FORGOTTEN_SECONDS < now]:
            del self._picture[key]
        self._stale_told = self._stale_told and bool(self._stale(now))
        for subscription in self._subscriptions:
            subscription.news |= news
            subscription.wake.set()

    def _wrong(self, told: str) -> DriverError:
        method = self._driver.health
        return DriverError(f"{subject_of(self._driver, method)} yielded {told}{at(defined_at(method))}")

    def _until_stale(self) -> float | None:
        """Return the seconds until a report is stale; None when that was already reported."""
        if self._stale_told:
            return None
        earliest = min((report.stale_at for report in self._picture.values()), default=None)
        return _DEFAULT_LEASE if earliest is None else max(0.0, earliest - self._clock())

    def _tell_stale(self) -> None:
        stale = self._stale(self._clock())
        if self._picture and not stale:
            return  # woken early
        self._stale_told = True
        self._metrics.background_error("health_stale")
        _log.error(
            "driver %s: health() has been silent for too long, the kubelet shows Unknown for %s; "
            "it must yield again within each device's check_timeout",
            self._driver.name,
            ", ".join(stale) or "every device",
        )

    def _stale(self, now: float) -> list[str]:
        return sorted(device for (_, device), report in self._picture.items() if report.stale_at <= now)


_STATUS: Final = {Health.UNKNOWN: 0, Health.HEALTHY: 1, Health.UNHEALTHY: 2}


class _Servicer:
    """One version of the service; `messages` is its generated module."""

    def __init__(self, monitor: HealthMonitor, node: str, messages: ModuleType) -> None:
        self._monitor = monitor
        self._node = node
        self._messages = messages

    async def NodeWatchResources(self, request: Any) -> AsyncIterator[Any]:  # noqa: N802, ANN401, ARG002 - generated messages of two versions
        async for reports in self._monitor.stream():
            devices = [self._device(report) for report in reports]
            yield self._messages.NodeWatchResourcesResponse(devices=devices)
        if not self._monitor.supported:
            raise CallError(grpc.StatusCode.UNIMPLEMENTED, "the driver reports no health on this machine")

    def _device(self, report: HealthReport) -> Any:  # noqa: ANN401 - a generated message of two versions
        health = report.health
        return self._messages.DeviceHealth(
            device=self._messages.DeviceIdentifier(
                pool_name=health.pool or self._node, device_name=health.device
            ),
            health=_STATUS[health.health],
            last_updated_time=int(report.at),
            health_check_timeout_seconds=health.check_timeout,
            message=health.message[:_MAX_MESSAGE],
        )


def health_methods(monitor: HealthMonitor, node: str) -> dict[str, Method]:
    """Return both versions if the driver reports health, else none: the server then answers UNIMPLEMENTED."""
    return {
        path: method
        for messages in (health_v1, health_v1alpha1)
        if monitor.supported
        for path, method in methods_of(
            messages.DESCRIPTOR.services_by_name["DRAResourceHealth"], _Servicer(monitor, node, messages)
        ).items()
    }
