"""Report device health to the kubelet (KEP-4680): one iterator of the driver serves any number of streams.

Only one iterator of the driver's `health()` runs at a time. A new stream first gets all current reports and
then the changes. The SDK never repeats a report on its own. So if the driver stops reporting, its devices
become Unknown.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final

import grpc

from dradriver.aio.iteration import open_iterator
from dradriver.aio.tasks import end
from dradriver.driver.base import Driver
from dradriver.driver.health import DeviceHealth, Health
from dradriver.driver.source_locations import find_definition, format_location
from dradriver.errors import DraError, DriverError
from dradriver.node.driver_calls import describe_method, is_being_cancelled, to_driver_error
from dradriver.node.kubelet.server import CallError, Method, methods_of
from dradriver.node.reporting.metrics import NodeMetrics
from dradriver.wire import health_v1, health_v1alpha1

__all__ = ["HealthMonitor", "HealthReport", "health_methods"]

_log = logging.getLogger(__name__)

_DEFAULT_LEASE: Final = 30.0
"""Seconds after which the kubelet treats a report without `check_timeout` as stale."""
_FORGOTTEN_SECONDS: Final = 600.0
"""Seconds after which a stale report is deleted, because drivers do not report that a device was removed."""
_RETRY_SECONDS: Final = (1.0, 30.0)
_MAX_MESSAGE: Final = 1024
_MAX_TIMEOUT: Final = 2**31


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

    def __init__(self, reports: dict[tuple[str, str], HealthReport]) -> None:
        self.pending = dict(reports)
        self.wake = asyncio.Event()
        if reports:
            self.wake.set()


def _find_invalid_field(health: object) -> str:
    """Return why a report is invalid and would end every stream; empty if it is valid."""
    if not isinstance(health, DeviceHealth):
        return f"{health!r}: must be DeviceHealth"
    for field in ("device", "pool", "message"):
        if not _is_text(value := getattr(health, field)):
            return f"device {health.device!r}: {field}: {value!r}: must be text"
    if not isinstance(health.health, Health):
        return f"device {health.device!r}: health: {health.health!r}: must be a Health"
    seconds: object = health.check_timeout
    if not (isinstance(seconds, int) and 0 <= seconds < _MAX_TIMEOUT):
        return f"device {health.device!r}: check_timeout: {seconds!r}: must be a number of seconds"
    return ""


def _is_text(text: object) -> bool:
    """Return whether the value is a text that protobuf accepts: a lone surrogate has no UTF-8 form."""
    return isinstance(text, str) and text.encode(errors="ignore").decode() == text


class HealthMonitor:
    """Watches the driver's health.

    Call `run()`, which runs until it is canceled. Call `close()` to end the streams.

    Args:
        driver: the driver.
        node: the node's name. It is the pool's name in reports without a pool.
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
        self._reports: dict[tuple[str, str], HealthReport] = {}
        self._subscriptions: set[_Subscription] = set()
        self._stale_reported = False
        self._closed = False

    async def run(self) -> None:
        """Read the driver's health until canceled; a failure is logged, counted and retried."""
        wait, longest = _RETRY_SECONDS
        while self.supported:
            try:
                await self._read()
                _log.warning("driver %s: health() ended, next call in %g s", self._driver.name, wait)
            except NotImplementedError:
                _log.info("driver %s does not report health on this machine", self._driver.name)
                self.supported = False
                self.close()
                return
            except DraError as error:
                _log.error("%s, next call in %g s", error, wait)
            except Exception as error:
                driver_error = to_driver_error(self._driver, self._driver.health, error)
                _log.error("%s, next call in %g s", driver_error, wait)
            self._metrics.background_error("health")
            await asyncio.sleep(wait)
            wait = min(wait * 2, longest)

    async def stream(self) -> AsyncIterator[list[HealthReport]]:
        """Yield all current reports, then the changes, until `close()`."""
        subscription = _Subscription(self._reports)
        self._subscriptions.add(subscription)
        try:
            while not self._closed:
                await subscription.wake.wait()
                subscription.wake.clear()
                if not subscription.pending:
                    continue
                pending, subscription.pending = subscription.pending, {}
                yield list(pending.values())
        finally:
            self._subscriptions.discard(subscription)

    def close(self) -> None:
        """End every stream."""
        self._closed = True
        for subscription in self._subscriptions:
            subscription.wake.set()

    async def _read(self) -> None:
        method = self._driver.health
        reports = await open_iterator(
            method, describe_method(self._driver, method), format_location(find_definition(method))
        )
        pending: asyncio.Task[Iterable[DeviceHealth] | None] | None = None
        try:
            while True:
                pending = pending or asyncio.create_task(self._next(reports), name="health()")
                await asyncio.wait({pending}, timeout=self._until_stale())
                if not pending.done():
                    self._report_stale()
                    continue
                yielded, pending = pending.result(), None
                if yielded is None:
                    return
                self._add_reports(yielded)
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
            raise to_driver_error(self._driver, self._driver.health, error) from error

    def _add_reports(self, yielded: Iterable[DeviceHealth]) -> None:
        if isinstance(yielded, str | Mapping | DeviceHealth) or not isinstance(yielded, Iterable):
            raise self._to_driver_error(f"{type(yielded).__name__}: must be a list of DeviceHealth")
        healths = list(yielded)
        for index, health in enumerate(healths):
            if problem := _find_invalid_field(health):
                raise self._to_driver_error(f"{problem} (at index {index})")
        now = self._clock()
        reports = {(health.pool or self._node, health.device): HealthReport(health, now) for health in healths}
        self._reports |= reports
        for key in [key for key, report in self._reports.items() if report.stale_at + _FORGOTTEN_SECONDS < now]:
            del self._reports[key]
        self._stale_reported = self._stale_reported and bool(self._stale(now))
        for subscription in self._subscriptions:
            subscription.pending |= reports
            subscription.wake.set()

    def _to_driver_error(self, problem: str) -> DriverError:
        method = self._driver.health
        location = format_location(find_definition(method))
        return DriverError(f"{describe_method(self._driver, method)} yielded {problem}{location}")

    def _until_stale(self) -> float | None:
        """Return the seconds until a report becomes stale; None if stale reports were already logged."""
        if self._stale_reported:
            return None
        earliest = min((report.stale_at for report in self._reports.values()), default=None)
        return _DEFAULT_LEASE if earliest is None else max(0.0, earliest - self._clock())

    def _report_stale(self) -> None:
        stale = self._stale(self._clock())
        if self._reports and not stale:
            return  # the timer fired too early
        self._stale_reported = True
        self._metrics.background_error("health_stale")
        _log.error(
            "driver %s: health() has not yielded within check_timeout, the kubelet shows Unknown for %s",
            self._driver.name,
            ", ".join(stale) or "every device",
        )

    def _stale(self, now: float) -> list[str]:
        return sorted(device for (_, device), report in self._reports.items() if report.stale_at <= now)


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
            raise CallError(grpc.StatusCode.UNIMPLEMENTED, "the driver does not report health on this machine")

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
    """Return the methods of both API versions; none if the driver does not report health.

    Without methods, the server answers UNIMPLEMENTED.
    """
    return {
        path: method
        for messages in (health_v1, health_v1alpha1)
        if monitor.supported
        for path, method in methods_of(
            messages.DESCRIPTOR.services_by_name["DRAResourceHealth"], _Servicer(monitor, node, messages)
        ).items()
    }
