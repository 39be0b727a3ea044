"""Record plans whose last write has an unknown result.

If there is no answer to a write, the write may have been stored, or may be stored later. The answer to a `Bind`
does not contain the pod, so its result must also be read. Until the claims and the pod have been read, no other
pod gets the plan's devices, even if the plan's pod is gone, and the plan is not reverted. These records are in
memory only, because a restarted scheduler reads all objects.
"""

from collections import Counter
from typing import Final

from dradriver.errors import DraError
from dradriver.kube import TooManyRequests, Unavailable

__all__ = ["UnconfirmedWrites"]

_MAX_FAILURES: Final = 6
"""Number of failed writes after which a plan is given up."""


class UnconfirmedWrites:
    """The keys of plans with an unconfirmed write, and how often the results of each plan were read."""

    def __init__(self) -> None:
        self._keys: set[str] = set()
        self._reads: Counter[str] = Counter()

    def __contains__(self, key: str) -> bool:
        """Return whether the plan's claims and pod must be read before the next decision."""
        return key in self._keys

    def add(self, key: str) -> None:
        """Record that the plan has a write whose answer does not contain the object."""
        self._keys.add(key)

    def record_failure(self, key: str, error: DraError) -> bool:
        """Record that a write of the plan, or a read of its result, failed.

        Returns:
            Whether the plan may continue: the error may be temporary, and there were fewer than 6 failures.
        """
        self._keys.add(key)
        return isinstance(error, (Unavailable, TooManyRequests)) and self._reads[key] + 1 < _MAX_FAILURES

    def confirm(self, key: str) -> None:
        """Record that the results of the plan's writes were read."""
        self._keys.discard(key)
        self._reads[key] += 1

    def reset_failures(self, key: str) -> None:
        """Reset the count of failures for the next writes of the plan."""
        self._reads.pop(key, None)

    def forget(self, key: str) -> None:
        """Remove a plan that is given up or complete."""
        self._keys.discard(key)
        self._reads.pop(key, None)
