"""The plans of which a write failed without an answer that says what became of it.

It may have been stored, or be stored in a moment. Until the claims were read again, what such a plan promises
is nobody else's, also when its pod is gone. In memory only: a restarted scheduler reads everything anyway.
"""

from typing import Final

from dradriver.errors import DraError
from dradriver.kube import TooManyRequests, Unavailable

__all__ = ["Doubts"]

_ENOUGH: Final = 6
"""How many writes of a plan may fail so, before the devices that it promises had better be another pod's."""


class Doubts:
    """Keys of plans, and how often their writes failed."""

    def __init__(self) -> None:
        self._open: set[str] = set()
        self._failures: dict[str, int] = {}

    def __contains__(self, key: str) -> bool:
        """Whether the claims of the plan have to be read before anything else is decided."""
        return key in self._open

    def add(self, key: str, error: DraError) -> bool:
        """A write of the plan failed, or the reading of its claims; whether the plan may be gone on with."""
        if not isinstance(error, (Unavailable, TooManyRequests)):
            return False
        if key in self._open:
            return True
        if isinstance(error, Unavailable) and error.sent:
            self._open.add(key)
        self._failures[key] = self._failures.get(key, 0) + 1
        return self._failures[key] < _ENOUGH

    def settle(self, key: str) -> None:
        """The claims were read."""
        self._open.discard(key)

    def forget(self, key: str) -> None:
        """The plan is given up, or carried out."""
        self._open.discard(key)
        self._failures.pop(key, None)
