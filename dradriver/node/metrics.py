"""What the node plugin counts, in a Prometheus registry of its own."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from dradriver.node.errors import InProgressError

__all__ = ["Metrics"]

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 45)


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

    def count_prepared(self, count: Callable[[], int]) -> None:
        """Asks `count` for the prepared devices whenever the metrics are read."""
        self._prepared.labels(self._driver).set_function(count)
