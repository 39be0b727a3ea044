"""How long to wait before the next try."""

import random
from dataclasses import dataclass, field

__all__ = ["Backoff"]


@dataclass(slots=True)
class Backoff:
    """Waits that double up to a limit, each spread by a random factor so that clients do not march in step.

    Attributes:
        first: seconds before the second try.
        limit: the longest wait in seconds.
    """

    first: float = 0.1
    limit: float = 5.0
    _step: float = field(default=0.0, init=False)

    def next(self) -> float:
        """The next wait in seconds: between half and all of the current step."""
        self._step = min(self.limit, self._step * 2) if self._step else self.first
        return self._step * random.uniform(0.5, 1.0)  # noqa: S311 - spreads load, hides nothing

    def reset(self) -> None:
        """Starts again from `first`, after a success."""
        self._step = 0.0
