"""The metrics of a controller, in a Prometheus registry of their own; `docs/observe.md` lists them.

Times are in seconds. Claims, pods and nodes are never labels.
"""

import platform
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

from dradriver.version import VERSION

__all__ = ["ControllerMetrics"]

_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
_FAILURES: Final = ("allocate", "deallocate", "unsuitable_nodes", "conflict", "release", "allocations")


class ControllerMetrics:
    """The metrics of one controller.

    Args:
        driver: the name of the controller.
        registry: the registry of a process that has its own metrics too. None: a new one.

    Attributes:
        registry: the registry with all metrics.
    """

    def __init__(self, driver: str, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        self._driver = driver
        if registry is None:
            ProcessCollector(registry=self.registry)
            build = Gauge(
                "dradriver_build_info",
                "1, with the running versions.",
                ["driver", "version", "python_version"],
                registry=self.registry,
            )
            build.labels(driver, VERSION, platform.python_version()).set(1)
        self._allocations = self._counter(
            "dradriver_classic_allocations_total", "Claims whose allocation was written."
        )
        self._deallocations = self._counter(
            "dradriver_classic_deallocations_total", "Claims that the driver has released."
        )
        self._failures = self._counter(
            "dradriver_classic_failures_total",
            "Failed operations on claims and pods. Each is repeated.",
            "operation",
        )
        self._seconds = Histogram(
            "dradriver_classic_operation_duration_seconds",
            "Seconds of a call of the driver, by method.",
            ["driver", "operation", "result"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._pending = Gauge(
            "dradriver_classic_pending",
            "Claims that the controller works on, and pods that it negotiates about.",
            ["driver", "kind"],
            registry=self.registry,
        )
        self._allocations.labels(driver)
        self._deallocations.labels(driver)
        for operation in _FAILURES:
            self._failures.labels(driver, operation)

    def show_pending(self, claims: Callable[[], int], pods: Callable[[], int]) -> None:
        """At each scrape, show the numbers that the functions return."""
        self._pending.labels(self._driver, "claims").set_function(claims)
        self._pending.labels(self._driver, "pods").set_function(pods)

    def count_allocated(self) -> None:
        """Count a claim whose allocation was written."""
        self._allocations.labels(self._driver).inc()

    def count_deallocated(self) -> None:
        """Count a claim that the driver has released."""
        self._deallocations.labels(self._driver).inc()

    def count_failure(self, operation: str) -> None:
        """Count a failed operation."""
        self._failures.labels(self._driver, operation).inc()

    @contextmanager
    def observe(self, operation: str) -> Iterator[None]:
        """Time a call of the driver in a `with` block."""
        began, result = time.perf_counter(), "error"
        try:
            yield
            result = "ok"
        finally:
            self._seconds.labels(self._driver, operation, result).observe(time.perf_counter() - began)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(name, text, ["driver", *labels], registry=self.registry)
