"""Call the driver's `discover()`: at start, periodically, and when the driver reports a change."""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

from dradriver.driver.source_locations import find_definition
from dradriver.errors import DraError, DriverError
from dradriver.model.resource.pool import Pool
from dradriver.node.devices.inventory import DiscoveredDevices, as_pools
from dradriver.node.driver_calls import SourceCalls, describe_method
from dradriver.node.reporting.metrics import NodeMetrics
from dradriver.publish.features.dropped_fields import DroppedField

__all__ = ["Discovery"]

_log = logging.getLogger(__name__)

_RETRY_SECONDS: Final = (1.0, 60.0)
_SLOW_SECONDS: Final = (60.0, 3600.0)
"""If `discover()` does not return: seconds until the first log line, and the longest time between two lines."""


class Discovery:
    """Updates the inventory with the devices that the driver discovers.

    Call `run()`, which runs until it is canceled.

    Args:
        calls: calls the driver.
        node: the node's name. None if the driver runs in the control plane.
        inventory: receives the discovered pools.
        publish: also called with the discovered pools. If discovery fails, the published pools stay.
        metrics: counts failures.
        delay: seconds to wait after a call of `rediscover()`, so that a burst of calls causes one discovery.
    """

    def __init__(
        self,
        calls: SourceCalls,
        node: str | None,
        inventory: DiscoveredDevices,
        publish: Callable[[Sequence[Pool]], None],
        metrics: NodeMetrics,
        delay: float,
    ) -> None:
        self._calls = calls
        self._driver = calls.driver
        self._node = node
        self._inventory = inventory
        self._publish = publish
        self._metrics = metrics
        self._delay = delay
        self._requested = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._slow_timer: asyncio.TimerHandle | None = None

    def rediscover(self) -> None:
        """Request a discovery, because the driver reports a change; may be called from any thread."""
        self._loop.call_soon_threadsafe(self._requested.set)

    async def run(self) -> None:
        """Discover on request, every `rescan_seconds`, and soon after a failure; until canceled."""
        retry, longest = _RETRY_SECONDS
        while True:
            self._requested.clear()
            try:
                pools = await self._discover()
            except DraError as error:
                _log.error("%s; the published pools stay as they are, next attempt in %g s", error, retry)
                self._metrics.background_error("discover")
                self._inventory.set_failure(error)
                pause: float | None = retry
                retry = min(retry * 2, longest)
            else:
                self._inventory.set(pools)
                self._publish(pools)
                pause, (retry, longest) = self._driver.rescan_seconds, _RETRY_SECONDS
            await self._wait(pause)

    async def fallback(self, pool: str, dropped: Collection[DroppedField]) -> list[Pool] | None:
        """Return the driver's fallback layout for a pool with dropped fields; None if the driver has none."""
        names = frozenset(map(_to_field_name, dropped))
        try:
            offered = await self._calls.call(self._driver.fallback, names)
            pools = None if offered is None else await self._as_pools(offered, self._driver.fallback)
        except DraError as error:
            _log.error("%s; unsafe devices of pool %s are withdrawn", error, pool)
            self._metrics.background_error("fallback")
            return None
        self._inventory.set_fallback(pools or [])
        return pools

    async def _discover(self) -> list[Pool]:
        self._start_timer(self._loop.time(), _SLOW_SECONDS[0])
        try:
            discovered = await self._calls.call(self._driver.discover)
        finally:
            self._stop_timer()
        return await self._as_pools(discovered, self._driver.discover)

    async def _as_pools(self, returned: Iterable[object], method: Callable[..., object]) -> list[Pool]:
        # In a thread, because there may be thousands of pools, and a generator runs the author's code here.
        subject, location = describe_method(self._driver, method), find_definition(method)
        return await asyncio.to_thread(as_pools, returned, self._node, subject, location)

    def _start_timer(self, began: float, pause: float) -> None:
        """Log that the call has not returned in time; it continues, because slow hardware may need the time."""
        self._slow_timer = self._loop.call_later(pause, self._report_slow, began, pause)

    def _stop_timer(self) -> None:
        if self._slow_timer is not None:
            self._slow_timer.cancel()
            self._slow_timer = None

    def _report_slow(self, began: float, pause: float) -> None:
        seconds = self._loop.time() - began
        error = DriverError(f"driver {self._driver.name}: discover() has not returned for {seconds:.0f} s")
        _log.warning("%s; the published pools stay as they are", error)
        self._metrics.background_error("discover_slow")
        self._inventory.set_failure(error)
        self._start_timer(began, min(pause * 2, _SLOW_SECONDS[1]))

    async def _wait(self, seconds: float | None) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._requested.wait()
        except TimeoutError:
            return
        await asyncio.sleep(self._delay)  # a hotplug causes a burst of events


def _to_field_name(dropped: DroppedField) -> str:
    """Return a dropped field's name for authors: `devices[].consumesCounters` becomes `consumesCounters`."""
    return dropped.field.rpartition(".")[2].removesuffix("[]")
