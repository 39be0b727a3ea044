"""How often each pod was tried, since when, and how long one that was set back has to stay away."""

import time
from dataclasses import dataclass

from dradriver.kube.backoff import Backoff

__all__ = ["Attempts"]


@dataclass(slots=True)
class _Tried:
    first: float
    backoff: Backoff
    attempts: int = 0
    not_before: float = 0.0


class Attempts:
    """Attempts by pod; in memory only, a restarted scheduler counts from the beginning.

    Args:
        setback: the first and the longest wait of a pod that was set back, in seconds.
    """

    def __init__(self, setback: tuple[float, float]) -> None:
        self._setback = setback
        self._tried: dict[str, _Tried] = {}

    @staticmethod
    def now() -> float:
        """Seconds of a clock that never jumps."""
        return time.monotonic()

    def begin(self, key: str) -> float:
        """An attempt begins; when."""
        now = self.now()
        tried = self._tried.setdefault(key, _Tried(now, Backoff(*self._setback)))
        tried.attempts += 1
        return now

    def so_far(self, key: str) -> tuple[int, float]:
        """The attempts, and the seconds since the first of them."""
        tried = self._tried.get(key)
        return (tried.attempts, self.now() - tried.first) if tried else (1, 0.0)

    def set_back(self, key: str) -> float:
        """The pod is not tried again for this many seconds, longer from time to time."""
        tried = self._tried.setdefault(key, _Tried(self.now(), Backoff(*self._setback)))
        seconds = tried.backoff.next()
        tried.not_before = self.now() + seconds
        return seconds

    def rest(self, key: str) -> float:
        """How many seconds the pod still has to stay away; none or less: not any more."""
        tried = self._tried.get(key)
        return tried.not_before - self.now() if tried else 0.0

    def forget(self, key: str) -> None:
        """The pod is bound or gone."""
        self._tried.pop(key, None)
