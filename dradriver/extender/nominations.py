"""The plans that `filter` has made, until kube-scheduler calls `bind` or the plan expires.

Between `filter` and `bind`, kube-scheduler runs its other plugins, and it may call `filter` for other pods. The
devices of a nominated plan count as in use, so that other pods do not get them. kube-scheduler does not report
that it gave a pod up, so a plan expires. While devices become ready for the pod (KEP-5007), the nomination is
renewed until their deadline. Nominations are in memory only: without them, `bind` makes a new plan.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

__all__ = ["BIND_SECONDS", "NUDGE_SECONDS", "Nominations"]

BIND_SECONDS: Final = 10.0
"""Seconds from `filter` until the plan expires."""
NUDGE_SECONDS: Final = 15.0
"""Seconds from a nudge until the plan expires. A pod may wait for kube-scheduler's backoff first (10 s)."""


@dataclass(frozen=True, slots=True)
class _Nomination:
    scores: Mapping[str, float]
    end: float


class Nominations:
    """The pods (`namespace/name`) with a nominated plan.

    Args:
        clock: returns seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._nominations: dict[str, _Nomination] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._nominations

    def add(self, key: str, seconds: float, scores: Mapping[str, float]) -> None:
        """Add or replace the nomination of a pod.

        Args:
            key: `namespace/name` of the pod.
            seconds: the time until the plan expires.
            scores: the score of each node that suits the pod, from 0 to 1.
        """
        self._nominations[key] = _Nomination(scores, self._clock() + seconds)

    def scores(self, key: str) -> Mapping[str, float]:
        """Return the scores of the nodes that suit the pod; empty if it has no nomination."""
        nomination = self._nominations.get(key)
        return nomination.scores if nomination is not None else {}

    def seconds_left(self, key: str) -> float:
        """Return the seconds until the plan of a nominated pod expires; zero or less if it has expired."""
        return self._nominations[key].end - self._clock()

    def discard(self, key: str) -> None:
        """Remove the nomination of a pod; a no-op if it has none."""
        self._nominations.pop(key, None)
