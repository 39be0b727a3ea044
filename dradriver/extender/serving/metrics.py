"""The metrics of the extender's server and of its leadership."""

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

__all__ = ["ExtenderMetrics"]

_SECONDS: Final = tuple(0.0005 * 2**power for power in range(20))
"""From half a millisecond, a small `filter`, to 262 s: `bind` waits for binding conditions."""


class ExtenderMetrics:
    """The metrics of one process.

    Args:
        registry: the registry to add the metrics to. None: a new one.

    Attributes:
        registry: the registry.
    """

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = CollectorRegistry() if registry is None else registry
        ProcessCollector(registry=self.registry)
        self._requests = Counter(
            "dradriver_extender_requests_total",
            "Requests of kube-scheduler by outcome: ok, error, malformed, canceled or defect.",
            ["verb", "outcome"],
            registry=self.registry,
        )
        self._seconds = Histogram(
            "dradriver_extender_request_seconds",
            "Time to answer a request of kube-scheduler.",
            ["verb"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._leading = Gauge(
            "dradriver_extender_leading", "1 while this process schedules, 0 otherwise.", registry=self.registry
        )

    def record_request(self, verb: str, outcome: str, seconds: float) -> None:
        """Count a request.

        Args:
            verb: the verb.
            outcome: `ok`, `error`, `malformed`, `canceled` or `defect`.
            seconds: time to answer.
        """
        self._requests.labels(verb, outcome).inc()
        self._seconds.labels(verb).observe(seconds)

    def show_leading(self, *, is_leading: bool) -> None:
        """Set whether this process schedules."""
        self._leading.set(is_leading)
