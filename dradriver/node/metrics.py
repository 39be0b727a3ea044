"""What the node plugin counts, in a Prometheus registry of its own."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from dradriver.node.errors import InProgressError
from dradriver.publish.status import PoolState, PoolStatus, Writes

__all__ = ["Metrics"]

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 45)

_STATES = tuple(state for state in PoolState if state is not PoolState.REMOVED)


class Metrics:
    """The metrics of one plugin.

    Attributes:
        registry: what to expose.
        registered: 1 while the kubelet has accepted the driver.
        background_errors: errors that no caller hears, by source.
    """

    def __init__(self, driver: str) -> None:
        self.registry = CollectorRegistry()
        self._driver = driver
        self._seconds = Histogram(
            "dradriver_node_claim_seconds",
            "Time to prepare or unprepare one claim, its lookup included.",
            ["driver", "operation", "result"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._in_flight = Gauge(
            "dradriver_node_claims_in_flight",
            "Claims being prepared or unprepared for a waiting caller.",
            ["driver", "operation"],
            registry=self.registry,
        )
        self._prepared = Gauge(
            "dradriver_node_prepared_devices",
            "Devices of claims that are recorded on this node.",
            ["driver"],
            registry=self.registry,
        )
        self._registered = Gauge(
            "dradriver_node_registered",
            "1 while the kubelet has accepted the driver's registration.",
            ["driver"],
            registry=self.registry,
        )
        self._errors = Counter(
            "dradriver_node_background_errors_total",
            "Errors of work that nobody waits for.",
            ["driver", "source"],
            registry=self.registry,
        )
        self._pool_state = Gauge(
            "dradriver_node_pool_state",
            "1 for the state in which a pool stands, 0 for the others; none while another instance publishes.",
            ["driver", "pool", "state"],
            registry=self.registry,
        )
        self._results = Counter(
            "dradriver_node_publish_results_total",
            "Tries to publish a pool, by the state in which they left it.",
            ["driver", "state"],
            registry=self.registry,
        )
        self._writes = Counter(
            "dradriver_node_slice_writes_total",
            "ResourceSlices written.",
            ["driver", "kind"],
            registry=self.registry,
        )

    @contextmanager
    def observed(self, operation: str) -> Iterator[None]:
        """Counts and times one claim; `result` is ok, in_progress or error."""
        in_flight = self._in_flight.labels(self._driver, operation)
        in_flight.inc()
        began = time.perf_counter()
        result = "error"
        try:
            yield
            result = "ok"
        except InProgressError:
            result = "in_progress"
            raise
        finally:
            in_flight.dec()
            self._seconds.labels(self._driver, operation, result).observe(time.perf_counter() - began)

    def background_error(self, source: str) -> None:
        """Something failed that nobody waits for."""
        self._errors.labels(self._driver, source).inc()

    def set_registered(self, *, registered: bool) -> None:
        """What the kubelet said last."""
        self._registered.labels(self._driver).set(int(registered))

    def pool(self, before: PoolStatus | None, status: PoolStatus) -> None:
        """A pool was tried; `before` is what the same publisher said of it last."""
        self._results.labels(self._driver, str(status.state)).inc()
        written = before.writes if before else Writes()
        for kind in ("creates", "updates", "deletes"):
            count = getattr(status.writes, kind) - getattr(written, kind)
            self._writes.labels(self._driver, kind.removesuffix("s")).inc(max(0, count))
        if status.state is PoolState.REMOVED:
            self.forget_pool(status.pool)
            return
        for state in _STATES:
            self._pool_state.labels(self._driver, status.pool, str(state)).set(int(state is status.state))

    def forget_pool(self, pool: str) -> None:
        """The pool is removed, or no longer this instance's to publish: drops its series."""
        for state in _STATES:
            with suppress(KeyError):  # it may never have been shown
                self._pool_state.remove(self._driver, pool, str(state))

    def count_prepared(self, count: Callable[[], int]) -> None:
        """Asks `count` for the prepared devices whenever the metrics are read."""
        self._prepared.labels(self._driver).set_function(count)
