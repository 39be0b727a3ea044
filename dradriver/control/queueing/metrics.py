"""The metrics of work queues, with client-go's names."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

__all__ = ["Gauges", "QueueMetrics", "QueueNumbers"]

_SECONDS: Final = tuple(10**power for power in range(-8, 4))
"""client-go's buckets (`ExponentialBuckets(10e-9, 10, 12)`)."""


class Gauges(Collector):
    """Gauges that are computed whenever the metrics are read."""

    def __init__(
        self, name: str, told: str, labels: list[str], read: Callable[[], Mapping[tuple[str, ...], float]]
    ) -> None:
        self._name, self._told, self._labels, self._read = name, told, labels, read

    def collect(self) -> Iterator[Metric]:
        """Yield the current gauges."""
        family = GaugeMetricFamily(self._name, self._told, labels=self._labels)
        for values, number in self._read().items():
            family.add_metric(list(values), number)
        yield family


class QueueNumbers:
    """The metrics of one queue.

    Args:
        metrics: those of all queues.
        name: the queue's name.
    """

    def __init__(self, metrics: "QueueMetrics", name: str) -> None:
        self._adds = metrics.adds.labels(name)
        self._retries = metrics.retries.labels(name)
        self._waited = metrics.waited.labels(name)
        self._worked = metrics.worked.labels(name)

    def added(self) -> None:
        """Count a key that was added to the queue."""
        self._adds.inc()

    def retried(self) -> None:
        """Count a key that waits for its retry."""
        self._retries.inc()

    def waited(self, seconds: float) -> None:
        """Record the seconds that a key was in the queue."""
        self._waited.observe(seconds)

    def worked(self, seconds: float) -> None:
        """Record the seconds that a worker had a key."""
        self._worked.observe(seconds)


class QueueMetrics:
    """The metrics of all queues, by their name."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._depths: dict[tuple[str, ...], Callable[[], int]] = {}
        self._working: dict[tuple[str, ...], Callable[[], Iterable[float]]] = {}
        self.adds = Counter("workqueue_adds_total", "Keys put in line.", ["name"], registry=registry)
        self.retries = Counter(
            "workqueue_retries_total", "Tries that were put off.", ["name"], registry=registry
        )
        self.waited = _seconds("workqueue_queue_duration_seconds", "Seconds of a key in line.", registry)
        self.worked = _seconds("workqueue_work_duration_seconds", "Seconds of work on a key.", registry)
        registry.register(Gauges("workqueue_depth", "Keys that wait for a worker.", ["name"], self._lengths))
        registry.register(
            Gauges(
                "workqueue_unfinished_work_seconds",
                "Seconds of work that is in progress, summed over the workers; it grows while they are stuck.",
                ["name"],
                self._unfinished,
            )
        )
        registry.register(
            Gauges(
                "workqueue_longest_running_processor_seconds",
                "Seconds for which the longest running worker has had its key.",
                ["name"],
                self._longest,
            )
        )

    def of(self, name: str, depth: Callable[[], int], working: Callable[[], Iterable[float]]) -> QueueNumbers:
        """Return the metrics of one queue. Its gauges are computed whenever the metrics are read.

        Args:
            name: the queue's name.
            depth: returns the number of keys that wait for a worker.
            working: returns for each key that a worker has the time at which the worker took it (monotonic
                seconds).

        Source: `defaultQueueMetrics` of `k8s.io/client-go/util/workqueue`.
        """
        self._depths[(name,)] = depth
        self._working[(name,)] = working
        return QueueNumbers(self, name)

    def _lengths(self) -> Mapping[tuple[str, ...], float]:
        return {name: depth() for name, depth in self._depths.items()}

    def _unfinished(self) -> Mapping[tuple[str, ...], float]:
        now = time.monotonic()
        return {name: sum(now - since for since in starts()) for name, starts in self._working.items()}

    def _longest(self) -> Mapping[tuple[str, ...], float]:
        now = time.monotonic()
        return {
            name: max((now - since for since in starts()), default=0.0)
            for name, starts in self._working.items()
        }


def _seconds(name: str, told: str, registry: CollectorRegistry) -> Histogram:
    return Histogram(name, told, ["name"], buckets=_SECONDS, registry=registry)
