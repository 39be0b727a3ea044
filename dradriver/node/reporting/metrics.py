"""The metrics of the node plugin, in a Prometheus registry of their own; `docs/observe.md` lists them.

The names have the endings that other DRA drivers use (`requests_inflight`, `request_duration_seconds`,
`prepared_devices`, `background_errors_total`). Times are in seconds. Every label has few values, so claims and
devices are never labels.
"""

import platform
import time
from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import product
from types import MappingProxyType
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from dradriver.errors import DraError, DriverError, InvalidObjectError
from dradriver.kube.errors import ApiError
from dradriver.node.errors import ClaimError, DeviceInUseError, InProgressError, StateError
from dradriver.node.state.claim_states import ClaimState
from dradriver.node.state.records import PreparedClaimRecord
from dradriver.publish.status import PoolState, PoolStatus, Writes
from dradriver.version import VERSION

__all__ = ["NodeMetrics", "find_reason"]

_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 45)
"""Upper bounds of the histogram's buckets; the last bound is the kubelet's time limit."""

_OPERATIONS: Final = ("prepare", "unprepare")
_RESULTS: Final = ("ok", "in_progress", "error")

_POOL_STATES: Final = tuple(state for state in PoolState if state is not PoolState.REMOVED)

_RECORDED_STATES: Final = tuple(state for state in ClaimState if state is not ClaimState.ABSENT)

_WRITES: Final[Mapping[str, str]] = MappingProxyType(
    {"creates": "create", "updates": "update", "deletes": "delete"}
)

_REASONS: Final[tuple[tuple[type[DraError], str], ...]] = (
    (DeviceInUseError, "device_in_use"),
    (ClaimError, "claim"),
    (InvalidObjectError, "config"),
    (StateError, "state"),
    (ApiError, "api_server"),
    (DriverError, "driver"),
)
"""The first match is used, so subclasses are before their base classes."""

_ALL_REASONS: Final = (*(label for _, label in _REASONS), "other", "internal")

_SOURCES: Final = ("discover", "discover_slow", "fallback", "pool status")
"""Sources of errors of all drivers."""

_KUBELET_SOURCES: Final = (
    *("collect", "health", "health_stale", "instance status", "prepare"),
    *("rebuild", "status", "sweep", "unprepare", "usage_note"),
)
_ATTACHING_SOURCES: Final = ("attach", "attachments", "detach", "taint")


def find_reason(error: Exception) -> str:
    """Return the reason of a claim's failure, as the value of a label."""
    if isinstance(error, DraError) and isinstance(error.__cause__, ApiError):
        return "api_server"
    reason = next((label for kind, label in _REASONS if isinstance(error, kind)), None)
    return reason or ("other" if isinstance(error, DraError) else "internal")


class _Recorded(Collector):
    """At each scrape, counts the recorded claims of the node and their devices."""

    def __init__(self, driver: str, read: Callable[[], Iterable[PreparedClaimRecord]]) -> None:
        self._driver = driver
        self._read = read

    def collect(self) -> Iterator[Metric]:
        devices = GaugeMetricFamily(
            "dradriver_node_prepared_devices",
            "Devices of claims that are recorded on this node.",
            labels=["driver"],
        )
        claims = GaugeMetricFamily(
            "dradriver_node_claims",
            "Claims that are recorded on this node, by state; only prepared ones should stay.",
            labels=["driver", "state"],
        )
        with suppress(StateError):  # a missing series is more accurate than 0
            rows = list(self._read())
            devices.add_metric([self._driver], sum(len(row.record.devices) for row in rows))
            states = Tally(row.state for row in rows)
            for state in _RECORDED_STATES:
                claims.add_metric([self._driver, str(state)], states[state])
        yield devices
        yield claims


class _Stuck(Collector):
    """At each scrape, reports how many attachments a binding driver cannot finish."""

    def __init__(self, driver: str, read: Callable[[], Mapping[str, int]]) -> None:
        self._driver = driver
        self._read = read

    def collect(self) -> Iterator[Metric]:
        stuck = GaugeMetricFamily(
            "dradriver_stuck_attachments",
            "Devices whose attach takes too long, or whose detach failed and has to be called again.",
            labels=["driver", "operation"],
        )
        for operation, count in self._read().items():
            stuck.add_metric([self._driver, operation], count)
        yield stuck


class NodeMetrics:
    """The metrics of one plugin.

    Args:
        driver: the driver's name.
        kubelet: whether a kubelet calls the driver. A pool driver has no series of claims and registration.

    Attributes:
        registry: the registry with all metrics of the plugin.
    """

    def __init__(self, driver: str, *, kubelet: bool = True) -> None:
        self.registry = CollectorRegistry()
        self._driver = driver
        ProcessCollector(registry=self.registry)
        build = self._gauge(
            "dradriver_build_info", "1, with the running versions.", "version", "python_version"
        )
        build.labels(driver, VERSION, platform.python_version()).set(1)
        seconds = Histogram(
            "dradriver_node_request_duration_seconds",
            "Seconds to prepare or unprepare one claim of a kubelet's call, its lookup included.",
            ["driver", "operation", "result"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        in_flight = self._gauge(
            "dradriver_node_requests_inflight",
            "Claims that are being prepared or unprepared for a waiting kubelet.",
            "operation",
        )
        self._request_errors = self._counter(
            "dradriver_node_request_errors_total",
            "Claims that could not be prepared or unprepared, by reason.",
            "operation",
            "reason",
        )
        self._in_flight = {each: in_flight.labels(self._driver, each) for each in _OPERATIONS}
        self._seconds = {each: seconds.labels(self._driver, *each) for each in product(_OPERATIONS, _RESULTS)}
        self._registered = self._gauge(
            "dradriver_node_registered", "1 while the kubelet has accepted the driver's registration."
        )
        self._errors = self._counter(
            "dradriver_node_background_errors_total", "Errors of background work.", "source"
        )
        self._pool_state = self._gauge(
            "dradriver_node_pool_state",
            "1 for the state of the pool, 0 for the others; none while another instance publishes.",
            "pool",
            "state",
        )
        self._pool_devices = self._gauge(
            "dradriver_node_pool_devices", "Devices of the pool that are published.", "pool"
        )
        self._dropped = self._gauge(
            "dradriver_node_pool_dropped_field",
            "1 for each field of a pool that the API server does not store, and the feature gate that is off.",
            "pool",
            "field",
            "gate",
        )
        self._results = self._counter(
            "dradriver_node_publish_results_total",
            "Attempts to publish a pool, by the resulting state.",
            "state",
        )
        self._writes = self._counter(
            "dradriver_node_slice_writes_total", "ResourceSlices written.", "operation"
        )
        self._show_zeros()
        if kubelet:
            self._show_zeros_of_claims()

    def _gauge(self, name: str, help_text: str, *labels: str) -> Gauge:
        return Gauge(name, help_text, ["driver", *labels], registry=self.registry)

    def _counter(self, name: str, help_text: str, *labels: str) -> Counter:
        return Counter(name, help_text, ["driver", *labels], registry=self.registry)

    def _show_zeros(self) -> None:
        """Create series with 0 at start: if a series began with 1, rates would not include the first event."""
        for state in PoolState:
            self._results.labels(self._driver, str(state))
        for operation in _WRITES.values():
            self._writes.labels(self._driver, operation)
        self._show_zero_errors(_SOURCES)

    def _show_zeros_of_claims(self) -> None:
        self._registered.labels(self._driver).set(0)
        for operation, reason in product(_OPERATIONS, _ALL_REASONS):
            self._request_errors.labels(self._driver, operation, reason)
        self._show_zero_errors(_KUBELET_SOURCES)

    def _show_zero_errors(self, sources: Iterable[str]) -> None:
        for source in sources:
            self._errors.labels(self._driver, source)

    @contextmanager
    def observe(self, operation: str) -> Iterator[None]:
        """Count and time the operation on one claim in a `with` block."""
        in_flight = self._in_flight[operation]
        in_flight.inc()
        began = time.perf_counter()
        result = "error"
        try:
            yield
            result = "ok"
        except InProgressError:
            result = "in_progress"
            raise
        except Exception as error:
            self._request_errors.labels(self._driver, operation, find_reason(error)).inc()
            raise
        finally:
            in_flight.dec()
            self._seconds[operation, result].observe(time.perf_counter() - began)

    def background_error(self, source: str) -> None:
        """Count a failure of background work."""
        self._errors.labels(self._driver, source).inc()

    def set_registered(self, *, registered: bool) -> None:
        """Record whether the kubelet has accepted the driver's registration."""
        self._registered.labels(self._driver).set(int(registered))

    def record_pool(self, before: PoolStatus | None, status: PoolStatus) -> None:
        """Record an attempt to publish a pool; `before` is the pool's previous status from the publisher."""
        self._results.labels(self._driver, str(status.state)).inc()
        written = before.writes if before else Writes()
        for field, operation in _WRITES.items():
            count = getattr(status.writes, field) - getattr(written, field)
            self._writes.labels(self._driver, operation).inc(max(0, count))
        if before is not None:
            self._forget_dropped(before)
        if status.state is PoolState.REMOVED:
            self.forget_pool(status)
            return
        for dropped in status.dropped:
            self._dropped.labels(self._driver, status.pool, dropped.field, dropped.gate).set(1)
        self._pool_devices.labels(self._driver, status.pool).set(status.devices)
        for state in _POOL_STATES:
            self._pool_state.labels(self._driver, status.pool, str(state)).set(int(state is status.state))

    def forget_pool(self, last: PoolStatus) -> None:
        """Remove the series of a pool that was removed, or that this instance no longer publishes."""
        self._forget_dropped(last)
        with suppress(KeyError):  # the series may never have existed
            self._pool_devices.remove(self._driver, last.pool)
        for state in _POOL_STATES:
            with suppress(KeyError):
                self._pool_state.remove(self._driver, last.pool, str(state))

    def _forget_dropped(self, last: PoolStatus) -> None:
        for dropped in last.dropped:
            with suppress(KeyError):
                self._dropped.remove(self._driver, last.pool, dropped.field, dropped.gate)

    def show_recorded(self, read: Callable[[], Iterable[PreparedClaimRecord]]) -> None:
        """At each scrape, show the claims that `read` returns, or no series if `read` raises `StateError`."""
        self.registry.register(_Recorded(self._driver, read))

    def show_stuck(self, read: Callable[[], Mapping[str, int]]) -> None:
        """At each scrape, show the numbers that `read` returns: the stuck attachments by operation."""
        self.registry.register(_Stuck(self._driver, read))
        self._show_zero_errors(_ATTACHING_SOURCES)
