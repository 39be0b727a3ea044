"""Record the attempts to schedule each pod: number, backoff, durations, and metrics."""

import time
from collections.abc import Iterable
from dataclasses import dataclass

from dradriver.control.queueing.cycle_times import CycleTimes
from dradriver.control.runtime.metrics import ControlMetrics
from dradriver.kube.backoff import Backoff
from dradriver.model.resource.claim import ResourceClaim

__all__ = ["Attempts"]


@dataclass(slots=True)
class _PreBindTimes:
    """The begin and end of a plan's PreBind, and of the wait for binding conditions, in seconds.

    PreBind begins when the plan is made (the end of Reserve), and ends when the pod is about to be bound. The
    wait begins when the allocations are written. If a condition becomes False again, the wait continues.
    """

    start: float
    end: float | None = None
    wait_start: float | None = None
    wait_end: float | None = None

    def seconds(self, now: float) -> float:
        """Return the duration of PreBind until its end, or until `now` if it has not ended."""
        return (now if self.end is None else self.end) - self.start

    def seconds_waited(self, now: float) -> float | None:
        """Return the duration of the wait for conditions, or None if there was no wait."""
        if self.wait_start is None:
            return None
        return (now if self.wait_end is None else self.wait_end) - self.wait_start


@dataclass(slots=True)
class _PodAttempts:
    first: float
    backoff: Backoff
    prebind: _PreBindTimes
    count: int = 0
    not_before: float = 0.0


class Attempts:
    """The attempts for each pod (`namespace/name`), in memory only: a restarted scheduler counts from zero.

    Args:
        backoff: the first and the longest backoff of a pod, in seconds.
        metrics: receives the durations.
    """

    def __init__(self, backoff: tuple[float, float], metrics: ControlMetrics) -> None:
        self._backoff = backoff
        self._metrics = metrics
        self._pods: dict[str, _PodAttempts] = {}

    @staticmethod
    def now() -> float:
        """Return the time of a monotonic clock in seconds."""
        return time.monotonic()

    def begin(self, key: str) -> None:
        """Count a scheduling attempt, which begins now. A plan for a nudge or for `bind` is no attempt."""
        now = self.now()
        pod = self._pod(key, now)
        if not pod.count:
            pod.first = now
        pod.count += 1

    def record_cycle(self, times: CycleTimes, *, undecided: bool) -> None:
        """Record the durations of a scheduling cycle's extension points, and of the plugins at Filter.

        Args:
            times: the durations.
            undecided: whether no node suits the pod and the allocator gave up on at least one node.
        """
        for point, spent in times.points.items():
            self._metrics.record_point(point, _status(passed=spent.passed), spent.seconds)
        for plugin, spent in times.plugins.items():
            self._metrics.record_plugin(plugin, "Filter", _status(passed=spent.passed), spent.seconds)
        if undecided:
            self._metrics.count_undecided()

    def record_score(self, seconds: float) -> None:
        """Record the duration of Score, in which only the plugin DynamicResources has scores."""
        self._metrics.record_point("Score", "Success", seconds)
        self._metrics.record_plugin("DynamicResources", "Score", "Success", seconds)

    def begin_prebind(self, key: str) -> None:
        """Record that the pod has a plan."""
        now = self.now()
        self._pod(key, now).prebind = _PreBindTimes(now)

    def begin_wait(self, key: str) -> None:
        """Record that the plan waits for binding conditions."""
        times = self._pods[key].prebind
        if times.wait_start is None:
            times.wait_start = self.now()
        times.wait_end = times.end = None

    def end_wait(self, key: str, *, bind: bool) -> None:
        """Record that the plan does not wait; `bind` is True if the next write is the binding."""
        now, times = self.now(), self._pods[key].prebind
        if times.wait_start is not None and times.wait_end is None:
            times.wait_end = now
        if bind and times.end is None:
            times.end = now

    def record_prebind(
        self, key: str, status: str, claims: Iterable[ResourceClaim], *, has_claims: bool
    ) -> None:
        """Record the end of PreBind.

        Args:
            key: `namespace/name` of the pod.
            status: the result, as in `ControlMetrics.record_binding`.
            claims: the pod's claims. Empty if binding conditions are not evaluated.
            has_claims: whether the pod has claims. If not, only PreBind as a whole is recorded, because
                kube-scheduler skips the plugin DynamicResources for such a pod.
        """
        now, times = self.now(), self._pods[key].prebind
        seconds, waited = times.seconds(now), times.seconds_waited(now)
        result = "Success" if times.end is not None else "Error"
        self._metrics.record_point("PreBind", result, seconds)
        if not has_claims:
            return
        self._metrics.record_plugin("DynamicResources", "PreBind", result, seconds)
        if waited is None and status != "error":
            waited = 0.0  # the claims were ready immediately
        self._metrics.record_binding(claims, status, seconds, waited)

    def record_bind(self, seconds: float, *, succeeded: bool) -> None:
        """Record the duration of Bind, which is the write of the binding."""
        status = "Success" if succeeded else "Error"
        self._metrics.record_point("Bind", status, seconds)
        self._metrics.record_plugin("DefaultBinder", "Bind", status, seconds)

    def record_bound(self, key: str) -> None:
        """Record that the pod was bound. If a process before this one made its attempts, they count as one."""
        pod = self._pods.get(key)
        count, seconds = (max(1, pod.count), self.now() - pod.first) if pod else (1, 0.0)
        self._metrics.record_scheduled(count, seconds)

    def back_off(self, key: str) -> float:
        """Start the pod's backoff, and return its duration, which doubles with each call up to a limit."""
        pod = self._pod(key, self.now())
        seconds = pod.backoff.next()
        pod.not_before = self.now() + seconds
        return seconds

    def remaining_backoff(self, key: str) -> float:
        """Return the remaining seconds of the pod's backoff; zero or less if it is over."""
        pod = self._pods.get(key)
        return pod.not_before - self.now() if pod else 0.0

    def forget(self, key: str) -> None:
        """Remove a pod that is bound or deleted."""
        self._pods.pop(key, None)

    def _pod(self, key: str, now: float) -> _PodAttempts:
        return self._pods.setdefault(key, _PodAttempts(now, Backoff(*self._backoff), _PreBindTimes(now)))


def _status(*, passed: bool) -> str:
    return "Success" if passed else "Unschedulable"
