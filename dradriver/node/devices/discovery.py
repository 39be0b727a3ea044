"""Call the driver's `discover()`: at start, periodically, and when the driver reports a change."""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

from dradriver.driver.code_places import defined_at
from dradriver.errors import DraError, DriverError
from dradriver.model.resource.pool import Pool
from dradriver.node.devices.inventory import DiscoveredDevices, as_pools
from dradriver.node.driver_calls import Calls, subject_of
from dradriver.node.reporting.metrics import NodeMetrics
from dradriver.publish.features.dropped_fields import DroppedField

__all__ = ["Discovery"]

_log = logging.getLogger(__name__)

_RETRY_SECONDS: Final = (1.0, 60.0)
_SLOW_SECONDS: Final = (60.0, 3600.0)
"""Time until the first log line about a `discover()` that does not return, and the longest interval."""


class Discovery:
    """Keeps the inventory equal to the driver's devices: `run()` until canceled.

    Args:
        calls: the driver.
        node: the node's name. None in the control plane.
        inventory: receives the discovered pools.
        publish: receives them too. If discovery fails, the published pools stay.
        metrics: counts failures.
        delay: seconds for which calls of `rediscover()` are collected into one.
    """

    def __init__(
        self,
        calls: Calls,
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
        self._asked = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._watching: asyncio.TimerHandle | None = None

    def rediscover(self) -> None:
        """Request a discovery, because the driver reports a change; from any thread."""
        self._loop.call_soon_threadsafe(self._asked.set)

    async def run(self) -> None:
        """Discover on request, every `rescan_seconds`, and soon after a failure; until canceled."""
        retry, longest = _RETRY_SECONDS
        while True:
            self._asked.clear()
            try:
                pools = await self._discover()
            except DraError as error:
                _log.error("%s; what is published stays as it is, trying again in %g s", error, retry)
                self._metrics.background_error("discover")
                self._inventory.failed(error)
                pause: float | None = retry
                retry = min(retry * 2, longest)
            else:
                self._inventory.set(pools)
                self._publish(pools)
                pause, (retry, longest) = self._driver.rescan_seconds, _RETRY_SECONDS
            await self._wait(pause)

    async def fallback(self, pool: str, dropped: Collection[DroppedField]) -> list[Pool] | None:
        """Return the replacement for a pool with dropped fields; None: nothing is offered."""
        names = frozenset(map(_json_name, dropped))
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
        self._watch(self._loop.time(), _SLOW_SECONDS[0])
        try:
            discovered = await self._calls.call(self._driver.discover)
        finally:
            self._unwatch()
        return await self._as_pools(discovered, self._driver.discover)

    async def _as_pools(self, returned: Iterable[object], method: Callable[..., object]) -> list[Pool]:
        # In a thread: there may be thousands of pools, and a lazy list runs the author's code.
        what, place = subject_of(self._driver, method), defined_at(method)
        return await asyncio.to_thread(as_pools, returned, self._node, what, place)

    def _watch(self, began: float, pause: float) -> None:
        """Log a call that has not returned in time; nothing ends it: slow hardware may need the time."""
        self._watching = self._loop.call_later(pause, self._slow, began, pause)

    def _unwatch(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            self._watching = None

    def _slow(self, began: float, pause: float) -> None:
        seconds = self._loop.time() - began
        error = DriverError(f"driver {self._driver.name}: discover() has not returned for {seconds:.0f} s")
        _log.warning("%s; what is published stays as it is", error)
        self._metrics.background_error("discover_slow")
        self._inventory.failed(error)
        self._watch(began, min(pause * 2, _SLOW_SECONDS[1]))

    async def _wait(self, seconds: float | None) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._asked.wait()
        except TimeoutError:
            return
        await asyncio.sleep(self._delay)  # a hotplug causes a burst of events


def _json_name(dropped: DroppedField) -> str:
    """Return the name for authors: `devices[].consumesCounters` becomes `consumesCounters`."""
    return dropped.field.rpartition(".")[2].removesuffix("[]")
