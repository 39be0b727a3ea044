"""Number and time of the attempts of each pod, and the remaining wait of pods that were set back."""

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
    """Attempts by pod. In memory only: a restarted scheduler counts from the beginning.

    Args:
        setback: the first and the longest wait of a pod that was set back, in seconds.
    """

    def __init__(self, setback: tuple[float, float]) -> None:
        self._setback = setback
        self._tried: dict[str, _Tried] = {}

    @staticmethod
    def now() -> float:
        """Return seconds of a monotonic clock."""
        return time.monotonic()

    def begin(self, key: str) -> float:
        """Count an attempt and return the time of its begin."""
        now = self.now()
        tried = self._tried.setdefault(key, _Tried(now, Backoff(*self._setback)))
        tried.attempts += 1
        return now

    def so_far(self, key: str) -> tuple[int, float]:
        """Return the number of attempts and the seconds since the first of them."""
        tried = self._tried.get(key)
        return (tried.attempts, self.now() - tried.first) if tried else (1, 0.0)

    def set_back(self, key: str) -> float:
        """Set the pod back and return the seconds until its next attempt. The wait doubles up to a limit."""
        tried = self._tried.setdefault(key, _Tried(self.now(), Backoff(*self._setback)))
        seconds = tried.backoff.next()
        tried.not_before = self.now() + seconds
        return seconds

    def rest(self, key: str) -> float:
        """Return the remaining seconds of the pod's setback; zero or less if it is over."""
        tried = self._tried.get(key)
        return tried.not_before - self.now() if tried else 0.0

    def forget(self, key: str) -> None:
        """Remove a pod that is bound or gone."""
        self._tried.pop(key, None)
