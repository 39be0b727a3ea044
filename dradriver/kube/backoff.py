"""Exponential backoff with jitter."""

import random
from dataclasses import dataclass, field

__all__ = ["Backoff"]


@dataclass(slots=True)
class Backoff:
    """Computes waits that double up to a limit. Each wait is randomized, so that clients do not retry together.

    Attributes:
        first: the first wait in seconds.
        limit: the longest wait in seconds.
    """

    first: float
    limit: float
    _step: float = field(default=0.0, init=False)

    def next(self) -> float:
        """Return the next wait in seconds: a random value between half of the current step and all of it."""
        self._step = min(self.limit, self._step * 2) if self._step else self.first
        return self._step * random.uniform(0.5, 1.0)  # noqa: S311 - spreads load, hides nothing

    def reset(self) -> None:
        """Start again from `first`. Call it after a success."""
        self._step = 0.0
