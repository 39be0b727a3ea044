"""Measure the time that plugins take at Filter."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

__all__ = ["FilterTimes"]


@dataclass(slots=True)
class PluginTime:
    """The time that one plugin took at Filter for one pod.

    Attributes:
        seconds: the sum over all nodes.
        passed: whether a node passed the plugin's checks.
    """

    seconds: float = 0.0
    passed: bool = False


def _no_clock() -> float:
    return 0.0


@dataclass(slots=True)
class FilterTimes:
    """The time that each plugin took at Filter for one pod.

    Attributes:
        clock: returns the time in seconds. Default: always 0, so that all durations are 0.
        plugins: the time of each plugin, by the name that Kubernetes uses for the plugin.
    """

    clock: Callable[[], float] = _no_clock
    plugins: dict[str, PluginTime] = field(default_factory=dict)

    @contextmanager
    def measure(self, plugin: str) -> Iterator[PluginTime]:
        """Add the duration of the `with` block to the time of a plugin."""
        time = self.plugins.setdefault(plugin, PluginTime())
        start = self.clock()
        try:
            yield time
        finally:
            time.seconds += self.clock() - start
