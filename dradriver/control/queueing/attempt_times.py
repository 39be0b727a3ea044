"""Durations of the parts of one attempt to schedule a pod, in memory only."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

__all__ = ["FilterTimes", "PreBindTimes"]


@dataclass(slots=True)
class PluginTime:
    """The time that one plugin took at Filter, for one pod.

    Attributes:
        seconds: on all nodes together.
        passed: whether a node suited it.
    """

    seconds: float = 0.0
    passed: bool = False


def _no_clock() -> float:
    return 0.0


@dataclass(slots=True)
class FilterTimes:
    """The time that each plugin took at Filter, for one pod.

    Attributes:
        clock: returns seconds; by default nothing is measured.
        plugins: by Kubernetes' name.
    """

    clock: Callable[[], float] = _no_clock
    plugins: dict[str, PluginTime] = field(default_factory=dict)

    @contextmanager
    def measure(self, plugin: str) -> Iterator[PluginTime]:
        """Add the time of one call of a plugin."""
        spent = self.plugins.setdefault(plugin, PluginTime())
        began = self.clock()
        try:
            yield spent
        finally:
            spent.seconds += self.clock() - began


@dataclass(slots=True)
class PreBindTimes:
    """Begin and end of a plan's PreBind, and of its wait for binding conditions, in seconds.

    PreBind begins when the plan is made (the end of Reserve) and ends when the pod is about to be bound. The
    wait begins when everything is written. It continues when a condition that was True becomes False again.
    """

    began: float
    ended: float | None = None
    wait_began: float | None = None
    wait_ended: float | None = None

    def wait(self, now: float) -> None:
        """Record that the plan waits for conditions."""
        if self.wait_began is None:
            self.wait_began = now
        self.wait_ended = self.ended = None

    def go_on(self, now: float, *, bind: bool) -> None:
        """Record that the plan no longer waits. `bind` tells whether the next write is the binding."""
        if self.wait_began is not None and self.wait_ended is None:
            self.wait_ended = now
        if bind and self.ended is None:
            self.ended = now

    def seconds(self, now: float) -> float:
        """Return the duration of PreBind, so far if it has not ended."""
        return (now if self.ended is None else self.ended) - self.began

    def seconds_waited(self, now: float) -> float | None:
        """Return the duration of the wait for conditions, or None if it never began."""
        if self.wait_began is None:
            return None
        return (now if self.wait_ended is None else self.wait_ended) - self.wait_began
