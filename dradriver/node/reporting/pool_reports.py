"""Report the state of the pools as metrics, in the file for `dradriver node status`, and as Node events.

The publisher itself logs each change. A failure to write a report never affects the publisher. If the process
dies, events that were not yet written are lost.
"""

import asyncio
import logging
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from dradriver.aio.tasks import await_thread
from dradriver.node.reporting.events import Reason, WarningEvents
from dradriver.node.reporting.metrics import NodeMetrics
from dradriver.node.reporting.pool_file import KnownPool, write_pools
from dradriver.node.reporting.readiness import ProcessReadiness
from dradriver.publish.status import PoolState, PoolStatus

__all__ = ["PoolReporter"]

_log = logging.getLogger(__name__)

_GATHER_SECONDS: Final = 0.05
"""Pools change in bursts; the file is written once for each burst."""

_REASONS: Final[Mapping[PoolState, Reason]] = MappingProxyType(
    {
        PoolState.REFUSED: "PoolRefused",
        PoolState.HELD: "PoolHeld",
        PoolState.UNSAFE_WITHDRAWN: "PoolWithdrawn",
        PoolState.FALLBACK: "PoolFallback",
    }
)
"""States that cause an event, each with the reason of the event."""


class PoolReporter:
    """Receives each status from a publisher; must be called on the event loop.

    Run `write_file()` only while this instance publishes, because all instances write to one file.

    Args:
        data_dir: the folder of the file.
        metrics: counts the attempts, and shows the state of pools.
        readiness: receives each status too.
        events: writes the events.
    """

    def __init__(
        self, data_dir: Path, metrics: NodeMetrics, readiness: ProcessReadiness, events: WarningEvents
    ) -> None:
        self._data_dir = data_dir
        self._metrics = metrics
        self._readiness = readiness
        self._events = events
        self._pools: dict[str, KnownPool] = {}
        self._reported: dict[str, tuple[PoolState, str]] = {}
        self._changed = asyncio.Event()

    def __call__(self, status: PoolStatus) -> None:
        """Report an attempt to publish a pool, even if the status is unchanged."""
        name, known = status.pool, self._pools.get(status.pool)
        self._metrics.record_pool(known.status if known else None, status)
        self._readiness.record(status)
        if status.state is PoolState.REMOVED:
            self._pools.pop(name, None)
            self._reported.pop(name, None)
        else:
            same = known is not None and known.status.state is status.state
            self._pools[name] = KnownPool(status, known.since if known and same else time.time())
            self._write_event(status)
        if known is None or known.status != status:
            self._changed.set()

    def forget(self) -> None:
        """Forget all pools, because the publisher has ended; the file is not changed."""
        for known in self._pools.values():
            self._metrics.forget_pool(known.status)
        self._pools.clear()
        self._changed.clear()

    async def write_file(self) -> None:
        """Write the file soon after each change, until canceled; when it ends, no write is in progress."""
        loop = asyncio.get_running_loop()
        while True:
            await self._changed.wait()
            await asyncio.sleep(_GATHER_SECONDS)
            self._changed.clear()
            try:
                pools = list(self._pools.values())
                await await_thread(loop.run_in_executor(None, write_pools, self._data_dir, pools))
            except OSError as error:
                _log.warning("pool status for `dradriver node status`: cannot be written: %s", error)
                self._metrics.background_error("pool status")

    def _write_event(self, status: PoolStatus) -> None:
        """Write an event if the state or message differs from the last report; the state PENDING is ignored."""
        report = (status.state, status.message)
        if status.state is PoolState.PENDING or self._reported.get(status.pool) == report:
            return
        self._reported[status.pool] = report
        reason = _REASONS.get(status.state) or ("PoolFieldsDropped" if status.dropped else None)
        if reason is not None:
            held = f" (held by {', '.join(status.held_by)})" if status.held_by else ""
            self._events.warn_of_node(reason, f"pool {status.pool}: {status.message}{held}")
