"""Compute why a process is not ready, as a text; the state of claims does not matter.

The process is ready if pods that the scheduler binds to this node can be prepared. It becomes ready when all
pools have been published once. It is no longer ready if the kubelet rejects the driver, or if the process
stops. Later problems of a pool do not matter here: metrics and Events report them.
"""

from collections.abc import Callable, Collection
from typing import Final

from dradriver.publish.status import PoolState, PoolStatus

__all__ = ["ProcessReadiness"]

_PUBLISHED: Final = frozenset(
    {PoolState.PUBLISHED, PoolState.HELD, PoolState.FALLBACK, PoolState.UNSAFE_WITHDRAWN}
)
"""States in which schedulers see the devices that can be prepared."""


class ProcessReadiness:
    """Tracks whether a process is ready.

    Args:
        registration: returns why the kubelet cannot call the driver. Empty if it can.
        discovery: returns the problem of the driver's last discovery. Empty if there is none.
        published_elsewhere: returns whether another instance of the driver publishes.
    """

    def __init__(
        self,
        registration: Callable[[], str] = lambda: "",
        discovery: Callable[[], str] = lambda: "",
        published_elsewhere: Callable[[], bool] = lambda: False,
    ) -> None:
        self._registration = registration
        self._discovery = discovery
        self._is_published_elsewhere = published_elsewhere
        self._wanted: frozenset[str] | None = None
        self._statuses: dict[str, PoolStatus] = {}
        self._is_ready = False
        self._is_stopping = False

    def set_wanted(self, pools: Collection[str]) -> None:
        """Record that the driver has discovered these pools."""
        self._wanted = frozenset(pools)
        self._update()

    def record(self, status: PoolStatus) -> None:
        """Record an attempt to publish a pool."""
        if not self._is_ready:
            self._statuses[status.pool] = status
            self._update()

    def set_stopping(self) -> None:
        """Record that the process is about to end."""
        self._is_stopping = True

    @property
    def missing(self) -> str:
        """Return why the process is not ready; empty if it is ready."""
        if self._is_stopping:
            return "the driver is stopping"
        if refusal := self._registration():
            return refusal
        if self._is_ready or self._is_published_elsewhere():
            return ""
        if self._wanted is None:
            return self._discovery() or "the driver has not discovered its devices yet"
        waiting = sorted(name for name in self._wanted if not self._is_published(name))
        return "; ".join(map(self._format_unpublished, waiting))

    def _update(self) -> None:
        if not self._is_ready and self._wanted is not None:
            self._is_ready = all(map(self._is_published, self._wanted))

    def _is_published(self, pool: str) -> bool:
        status = self._statuses.get(pool)
        return status is not None and status.state in _PUBLISHED

    def _format_unpublished(self, pool: str) -> str:
        status = self._statuses.get(pool)
        if status is None:
            return f"pool {pool} is not published yet"
        return f"pool {pool}: {status.state}" + (f": {status.message}" if status.message else "")
