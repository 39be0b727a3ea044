"""How long the parts of one attempt to schedule a pod took, on the scheduler's clock; in memory only."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

__all__ = ["FilterTimes", "PreBindTimes"]


@dataclass(slots=True)
class PluginTime:
    """One plugin's work at Filter, for one pod.

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
    """How long the plugins worked on one pod at Filter.

    Attributes:
        clock: gives seconds; by default nothing is measured.
        plugins: by Kubernetes' name.
    """

    clock: Callable[[], float] = _no_clock
    plugins: dict[str, PluginTime] = field(default_factory=dict)

    @contextmanager
    def measure(self, plugin: str) -> Iterator[PluginTime]:
        """Adds the time of one call of a plugin."""
        spent = self.plugins.setdefault(plugin, PluginTime())
        began = self.clock()
        try:
            yield spent
        finally:
            spent.seconds += self.clock() - began


@dataclass(slots=True)
class PreBindTimes:
    """When PreBind of one plan began and ended, and the wait for binding conditions in it; all in seconds.

    PreBind begins when the plan is made (the end of Reserve) and ends when the pod is about to be bound. The
    wait begins when everything is written. It goes on when a condition that was True is False again.
    """

    began: float
    ended: float | None = None
    wait_began: float | None = None
    wait_ended: float | None = None

    def wait(self, now: float) -> None:
        """Conditions are waited for."""
        if self.wait_began is None:
            self.wait_began = now
        self.wait_ended = self.ended = None

    def go_on(self, now: float, *, bind: bool) -> None:
        """Nothing is waited for; whether the next write is the binding."""
        if self.wait_began is not None and self.wait_ended is None:
            self.wait_ended = now
        if bind and self.ended is None:
            self.ended = now

    def seconds(self, now: float) -> float:
        """How long PreBind took, or has taken so far."""
        return (now if self.ended is None else self.ended) - self.began

    def seconds_waited(self, now: float) -> float | None:
        """How long conditions were waited for; None where that never began."""
        if self.wait_began is None:
            return None
        return (now if self.wait_ended is None else self.wait_ended) - self.wait_began
