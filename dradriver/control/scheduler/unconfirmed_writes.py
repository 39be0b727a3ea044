"""The plans of which nobody knows what their last write left.

It failed: without an answer it may have been stored, or be stored in a moment. Or it was a `Bind`, whose answer
does not show the pod. Until claims and pod were read, what such a plan promises is nobody else's, also when its
pod is gone, and nothing of it is taken back. In memory only: a restarted scheduler reads everything anyway.
"""

from collections import Counter
from typing import Final

from dradriver.errors import DraError
from dradriver.kube import TooManyRequests, Unavailable

__all__ = ["UnconfirmedWrites"]

_ENOUGH: Final = 6
"""How many writes of a plan may fail before the devices that it promises had better be another pod's."""


class UnconfirmedWrites:
    """Keys of plans, and how often what they wrote was read."""

    def __init__(self) -> None:
        self._open: set[str] = set()
        self._settled: Counter[str] = Counter()

    def __contains__(self, key: str) -> bool:
        """Whether claims and pod have to be read before anything else is decided."""
        return key in self._open

    def open(self, key: str) -> None:
        """The answer to a write of the plan does not show what became of the object."""
        self._open.add(key)

    def failed(self, key: str, error: DraError) -> bool:
        """A write of the plan failed, or the reading of what it left; whether the plan may be gone on with."""
        self._open.add(key)
        return isinstance(error, (Unavailable, TooManyRequests)) and self._settled[key] + 1 < _ENOUGH

    def settle(self, key: str) -> None:
        """What the plan left was read."""
        self._open.discard(key)
        self._settled[key] += 1

    def restart(self, key: str) -> None:
        """What is written for the plan from now on has as many tries of its own."""
        self._settled.pop(key, None)

    def forget(self, key: str) -> None:
        """The plan is given up, or carried out."""
        self._open.discard(key)
        self._settled.pop(key, None)
