"""Report the state of the pools: metrics, the file for `dradriver node status`, events of the Node.

The publisher itself logs each change. Nothing depends on these reports, so their failures never reach the
publisher. If the process dies, events that were not written yet are lost.
"""

import asyncio
import logging
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from dradriver.aio.tasks import settled
from dradriver.node.reporting.events import Announcements, Reason
from dradriver.node.reporting.metrics import NodeMetrics
from dradriver.node.reporting.pool_file import KnownPool, write_pools
from dradriver.node.reporting.readiness import ProcessReadiness
from dradriver.publish.status import PoolState, PoolStatus

__all__ = ["PoolNews"]

_log = logging.getLogger(__name__)

_GATHER_SECONDS: Final = 0.05
"""Pools change in bursts; the file is written once for all of them."""

_REASONS: Final[Mapping[PoolState, Reason]] = MappingProxyType(
    {
        PoolState.REFUSED: "PoolRefused",
        PoolState.HELD: "PoolHeld",
        PoolState.UNSAFE_WITHDRAWN: "PoolWithdrawn",
        PoolState.FALLBACK: "PoolFallback",
    }
)
"""States that cause an event, with its reason."""


class PoolNews:
    """Receives each status of a publisher: call it from the loop.

    `keep_file()` runs only while this instance publishes, because another instance writes the same file when it
    is elected.

    Args:
        data_dir: the folder of the file.
        metrics: counts and shows pools.
        readiness: receives each status too.
        announcements: writes the events.
    """

    def __init__(
        self, data_dir: Path, metrics: NodeMetrics, readiness: ProcessReadiness, announcements: Announcements
    ) -> None:
        self._data_dir = data_dir
        self._metrics = metrics
        self._readiness = readiness
        self._announcements = announcements
        self._pools: dict[str, KnownPool] = {}
        self._said: dict[str, tuple[PoolState, str]] = {}
        self._changed = asyncio.Event()

    def __call__(self, status: PoolStatus) -> None:
        """Report an attempt to publish a pool; the status may be unchanged."""
        name, known = status.pool, self._pools.get(status.pool)
        self._metrics.pool(known.status if known else None, status)
        self._readiness.tried(status)
        if status.state is PoolState.REMOVED:
            self._pools.pop(name, None)
            self._said.pop(name, None)
        else:
            same = known is not None and known.status.state is status.state
            self._pools[name] = KnownPool(status, known.since if known and same else time.time())
            self._say(status)
        if known is None or known.status != status:
            self._changed.set()

    def forget(self) -> None:
        """Forget all pools, because the publisher ends; the file keeps the last status of each pool."""
        for known in self._pools.values():
            self._metrics.forget_pool(known.status)
        self._pools.clear()
        self._changed.clear()

    async def keep_file(self) -> None:
        """Write the file soon after each change, until canceled; afterwards no write is in progress."""
        loop = asyncio.get_running_loop()
        while True:
            await self._changed.wait()
            await asyncio.sleep(_GATHER_SECONDS)
            self._changed.clear()
            try:
                pools = list(self._pools.values())
                await settled(loop.run_in_executor(None, write_pools, self._data_dir, pools))
            except OSError as error:
                _log.warning("the status of pools can't be written for `dradriver node status`: %s", error)
                self._metrics.background_error("pool status")

    def _say(self, status: PoolStatus) -> None:
        """Write one event for each change; a state that returns after a retry of the same pool causes none."""
        news = (status.state, status.message)
        if status.state is PoolState.PENDING or self._said.get(status.pool) == news:
            return
        self._said[status.pool] = news
        reason = _REASONS.get(status.state) or ("PoolFieldsDropped" if status.dropped else None)
        if reason is not None:
            held = f" (held by {', '.join(status.held_by)})" if status.held_by else ""
            self._announcements.of_node(reason, f"pool {status.pool}: {status.message}{held}")
