"""Measure the time that extension points and plugins take in one scheduling cycle."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

__all__ = ["CycleTimes"]


@dataclass(slots=True)
class SpentTime:
    """The time that an extension point, or a plugin at Filter, took for one pod.

    Attributes:
        seconds: the sum over all nodes.
        passed: whether the pod can continue; of a plugin, whether a node passed its checks.
    """

    seconds: float = 0.0
    passed: bool = False


def _no_clock() -> float:
    return 0.0


@dataclass(slots=True)
class CycleTimes:
    """The time that the parts of a scheduling cycle took for one pod.

    Attributes:
        clock: returns the time in seconds. Default: always 0, so that all durations are 0.
        points: the time of each extension point, by the name that Kubernetes uses for it.
        plugins: the time of each plugin at Filter, by the name that Kubernetes uses for the plugin.
    """

    clock: Callable[[], float] = _no_clock
    points: dict[str, SpentTime] = field(default_factory=dict)
    plugins: dict[str, SpentTime] = field(default_factory=dict)

    @contextmanager
    def measure_point(self, point: str) -> Iterator[SpentTime]:
        """Add the duration of the `with` block to the time of an extension point.

        The point has passed if the block does not raise. The block can decide otherwise.
        """
        with _measure(self.points, point, self.clock) as time:
            time.passed = True
            try:
                yield time
            except BaseException:
                time.passed = False
                raise

    @contextmanager
    def measure_plugin(self, plugin: str) -> Iterator[SpentTime]:
        """Add the duration of the `with` block to the time of a plugin at Filter. The block sets `passed`."""
        with _measure(self.plugins, plugin, self.clock) as time:
            yield time


@contextmanager
def _measure(times: dict[str, SpentTime], name: str, clock: Callable[[], float]) -> Iterator[SpentTime]:
    time, start = times.setdefault(name, SpentTime()), clock()
    try:
        yield time
    finally:
        time.seconds += clock() - start
