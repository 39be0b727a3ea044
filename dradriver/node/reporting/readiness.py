"""Why a process is not ready, as text; claims are not considered.

Ready means that pods which the scheduler places here can be prepared. It begins with the first publication, and
ends only with the registration or at the stop. Later problems of a pool are reported by metrics and Events.
"""

from collections.abc import Callable, Collection
from typing import Final

from dradriver.publish.status import PoolState, PoolStatus

__all__ = ["ProcessReadiness"]

_PUBLISHED: Final = frozenset(
    {PoolState.PUBLISHED, PoolState.HELD, PoolState.FALLBACK, PoolState.UNSAFE_WITHDRAWN}
)
"""States in which schedulers see the devices that can be prepared."""


def _nothing() -> str:
    return ""


class ProcessReadiness:
    """Tracks the progress of the process's start.

    Args:
        registration: returns why the kubelet cannot call. Empty if it can.
        discovery: returns why the driver's devices are unknown, if there is a known reason.
        elsewhere: returns whether another instance of the driver publishes.
    """

    def __init__(
        self,
        registration: Callable[[], str] = _nothing,
        discovery: Callable[[], str] = _nothing,
        elsewhere: Callable[[], bool] = lambda: False,
    ) -> None:
        self._registration = registration
        self._discovery = discovery
        self._elsewhere = elsewhere
        self._wanted: frozenset[str] | None = None
        self._statuses: dict[str, PoolStatus] = {}
        self._published = False
        self._stopping = False

    def want(self, pools: Collection[str]) -> None:
        """Record that the driver has discovered these pools."""
        self._wanted = frozenset(pools)
        self._look()

    def tried(self, status: PoolStatus) -> None:
        """Record an attempt to publish a pool."""
        if not self._published:
            self._statuses[status.pool] = status
            self._look()

    def stopping(self) -> None:
        """Record that the process is about to end."""
        self._stopping = True

    @property
    def missing(self) -> str:
        """Return why the process is not ready; empty when it is."""
        if self._stopping:
            return "the driver is stopping"
        if refusal := self._registration():
            return refusal
        if self._published or self._elsewhere():
            return ""
        if self._wanted is None:
            return self._discovery() or "the driver has not discovered its devices yet"
        waiting = sorted(name for name in self._wanted if not self._stands_well(name))
        return "; ".join(map(self._unpublished, waiting))

    def _look(self) -> None:
        if not self._published and self._wanted is not None:
            self._published = all(map(self._stands_well, self._wanted))

    def _stands_well(self, pool: str) -> bool:
        status = self._statuses.get(pool)
        return status is not None and status.state in _PUBLISHED

    def _unpublished(self, pool: str) -> str:
        status = self._statuses.get(pool)
        if status is None:
            return f"pool {pool} is not published yet"
        return f"pool {pool}: {status.state}" + (f": {status.message}" if status.message else "")
