"""Plans whose last write has an unknown result.

A write that failed without an answer may have been stored, or may still be stored. The answer to a `Bind` does
not show the pod. Until the claims and the pod have been read, the plan's devices belong to no other pod, even
if its pod is gone, and nothing of the plan is reverted. This state is in memory only: a restarted scheduler
reads everything anyway.
"""

from collections import Counter
from typing import Final

from dradriver.errors import DraError
from dradriver.kube import TooManyRequests, Unavailable

__all__ = ["UnconfirmedWrites"]

_ENOUGH: Final = 6
"""Number of failed writes after which a plan gives up its devices."""


class UnconfirmedWrites:
    """Keys of plans with an unconfirmed write, and how often the result of each plan's writes was read."""

    def __init__(self) -> None:
        self._open: set[str] = set()
        self._settled: Counter[str] = Counter()

    def __contains__(self, key: str) -> bool:
        """Return whether claims and pod have to be read before the next decision."""
        return key in self._open

    def open(self, key: str) -> None:
        """Record that the answer to a write of the plan does not show the object's state."""
        self._open.add(key)

    def failed(self, key: str, error: DraError) -> bool:
        """Record that a write of the plan, or a read of its result, failed.

        Returns:
            Whether the plan may continue: the error may be temporary, and the limit of attempts is not reached.
        """
        self._open.add(key)
        return isinstance(error, (Unavailable, TooManyRequests)) and self._settled[key] + 1 < _ENOUGH

    def settle(self, key: str) -> None:
        """Record that the result of the plan's writes was read."""
        self._open.discard(key)
        self._settled[key] += 1

    def restart(self, key: str) -> None:
        """Reset the count of failures for the next writes of the plan."""
        self._settled.pop(key, None)

    def forget(self, key: str) -> None:
        """Remove a plan that is given up or complete."""
        self._open.discard(key)
        self._settled.pop(key, None)
