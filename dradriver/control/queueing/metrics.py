"""The metrics of work queues, with the names that client-go uses."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

__all__ = ["Gauges", "QueueMetrics", "WorkQueueMetrics"]

_SECONDS: Final = tuple(10**power for power in range(-8, 4))
"""client-go's buckets (`ExponentialBuckets(10e-9, 10, 12)`)."""


class Gauges(Collector):
    """Gauges that are computed each time the metrics are read."""

    def __init__(
        self, name: str, text: str, labels: list[str], read: Callable[[], Mapping[tuple[str, ...], float]]
    ) -> None:
        self._name, self._text, self._labels, self._read = name, text, labels, read

    def collect(self) -> Iterator[Metric]:
        """Yield the current gauges."""
        family = GaugeMetricFamily(self._name, self._text, labels=self._labels)
        for values, number in self._read().items():
            family.add_metric(list(values), number)
        yield family


class QueueMetrics:
    """The metrics of one queue.

    Args:
        metrics: the metrics of all queues.
        name: the queue's name.
    """

    def __init__(self, metrics: "WorkQueueMetrics", name: str) -> None:
        self._adds = metrics.adds.labels(name)
        self._retries = metrics.retries.labels(name)
        self._waited = metrics.waited.labels(name)
        self._worked = metrics.worked.labels(name)

    def count_add(self) -> None:
        """Count a key that was added to the queue."""
        self._adds.inc()

    def count_retry(self) -> None:
        """Count a key that waits for a retry."""
        self._retries.inc()

    def record_wait(self, seconds: float) -> None:
        """Record the seconds for which a key was in the queue."""
        self._waited.observe(seconds)

    def record_work(self, seconds: float) -> None:
        """Record the seconds for which a worker worked on a key."""
        self._worked.observe(seconds)


class WorkQueueMetrics:
    """The metrics of all work queues, with the queue's name as a label."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._depths: dict[tuple[str, ...], Callable[[], int]] = {}
        self._processing: dict[tuple[str, ...], Callable[[], Iterable[float]]] = {}
        self.adds = Counter(
            "workqueue_adds_total", "Keys that were added to the queue.", ["name"], registry=registry
        )
        self.retries = Counter(
            "workqueue_retries_total", "Keys that were added after a backoff.", ["name"], registry=registry
        )
        self.waited = _seconds("workqueue_queue_duration_seconds", "Seconds of a key in the queue.", registry)
        self.worked = _seconds("workqueue_work_duration_seconds", "Seconds of work on a key.", registry)
        registry.register(
            Gauges("workqueue_depth", "Keys that wait for a worker.", ["name"], self._read_depths)
        )
        registry.register(
            Gauges(
                "workqueue_unfinished_work_seconds",
                "Seconds of work that is in progress, summed over the workers; it grows while they are stuck.",
                ["name"],
                self._read_unfinished,
            )
        )
        registry.register(
            Gauges(
                "workqueue_longest_running_processor_seconds",
                "Seconds for which the longest running worker has had its key.",
                ["name"],
                self._read_longest,
            )
        )

    def register_queue(
        self, name: str, depth: Callable[[], int], working: Callable[[], Iterable[float]]
    ) -> QueueMetrics:
        """Return the metrics of one queue; its gauges are computed each time the metrics are read.

        Args:
            name: the queue's name.
            depth: returns the number of keys that wait for a worker.
            working: returns, for each key in a worker, the time at which the worker took the key (seconds of a
                monotonic clock).

        Source: `defaultQueueMetrics` of `k8s.io/client-go/util/workqueue`.
        """
        self._depths[(name,)] = depth
        self._processing[(name,)] = working
        return QueueMetrics(self, name)

    def _read_depths(self) -> Mapping[tuple[str, ...], float]:
        return {name: depth() for name, depth in self._depths.items()}

    def _read_unfinished(self) -> Mapping[tuple[str, ...], float]:
        now = time.monotonic()
        return {name: sum(now - since for since in starts()) for name, starts in self._processing.items()}

    def _read_longest(self) -> Mapping[tuple[str, ...], float]:
        now = time.monotonic()
        return {
            name: max((now - since for since in starts()), default=0.0)
            for name, starts in self._processing.items()
        }


def _seconds(name: str, text: str, registry: CollectorRegistry) -> Histogram:
    return Histogram(name, text, ["name"], buckets=_SECONDS, registry=registry)
