"""Exponential backoff with jitter."""

import random
from dataclasses import dataclass, field

__all__ = ["Backoff"]


@dataclass(slots=True)
class Backoff:
    """Waits that double up to a limit. A random factor spreads each wait, so that clients do not retry in step.

    Attributes:
        first: seconds before the second attempt.
        limit: the longest wait in seconds.
    """

    first: float = 0.1
    limit: float = 5.0
    _step: float = field(default=0.0, init=False)

    def next(self) -> float:
        """Return the next wait in seconds: between half and all of the current step."""
        self._step = min(self.limit, self._step * 2) if self._step else self.first
        return self._step * random.uniform(0.5, 1.0)  # noqa: S311 - spreads load, hides nothing

    def reset(self) -> None:
        """Start again from `first`. Call it after a success."""
        self._step = 0.0
