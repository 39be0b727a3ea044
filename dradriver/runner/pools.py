"""Run a pool driver: discover its pools and keep them published, without a kubelet.

Only the leader works (`leading`): two versions of a driver would overwrite each other's slices, and two binding
drivers would attach and detach each other's devices. Nothing is reverted at the end. The next process continues
from the slices that it finds, also after a kill between any two writes.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from dradriver.aio.tasks import Background, end
from dradriver.driver import PoolDriver
from dradriver.driver.code_places import at, defined_at
from dradriver.kube import Client
from dradriver.model.resource.pool import Pool
from dradriver.node.devices.discovery import Discovery
from dradriver.node.devices.inventory import DiscoveredDevices
from dradriver.node.driver_calls import Calls
from dradriver.node.driver_context import ContextRequests, ProcessContext
from dradriver.node.reporting.metrics import NodeMetrics
from dradriver.node.reporting.readiness import ProcessReadiness
from dradriver.publish import OwnerRef, PoolStatus, PublishController

__all__ = ["PoolProcess"]

_log = logging.getLogger("dradriver.runner")

_REDISCOVER_DELAY: Final = 0.1


class PoolProcess:
    """Runs one pool driver: `await run(stop)`, once.

    Args:
        driver: the author's driver.
        client: the API server.
        owner: the owner of the slices. Without one they stay until they are withdrawn.
        guard: raises a DraError when the driver's methods may not be called any more.

    Attributes:
        metrics: the metrics; those of claims stay empty.
    """

    def __init__(
        self,
        driver: PoolDriver,
        client: Client,
        owner: OwnerRef | None = None,
        guard: Callable[[], None] = lambda: None,
    ) -> None:
        self.metrics = NodeMetrics(driver.name)
        self._guard = guard
        self._driver = driver
        self._client = client
        self._owner = owner
        self._statuses: dict[str, PoolStatus] = {}
        self._inventory = DiscoveredDevices()
        self._readiness = ProcessReadiness(discovery=lambda: self._inventory.failure)

    @property
    def readiness(self) -> str:
        """Return why its pools are not published yet; empty when they are."""
        return self._readiness.missing

    async def liveness(self) -> str:
        """Return no reason for a restart: an answer already proves that the loop runs."""
        return ""

    async def run(self, stop: asyncio.Event, grace: float = 30.0) -> None:
        """Publish until `stop` is set; `shutdown()` then gets `grace` seconds.

        Raises:
            Exception: a background task failed because of a defect. The process should end and be restarted.
        """
        await self.adopt()
        calls, background = Calls(self._driver, self._guard), Background()
        discovery = Discovery(calls, None, self._inventory, self._want, self.metrics, _REDISCOVER_DELAY)
        self._publisher = publisher = PublishController(
            self._client,
            self._driver.name,
            owner=self._owner,
            on_dropped=discovery.fallback,
            on_status=self._record_status,
            origin=at(defined_at(self._driver.discover)),
        )
        context = ProcessContext(ContextRequests(rediscover=discovery.rediscover))
        self._driver.set_context(context)
        background.start("discover", discovery.run())
        background.start("publish", publisher.run())
        self.start(calls, background)
        waiting = asyncio.create_task(stop.wait(), name="wait for stop")
        failing = asyncio.create_task(background.failure(), name="wait for failure")
        try:
            await asyncio.wait({waiting, failing}, return_when=asyncio.FIRST_COMPLETED)
            if failing.done():
                await failing
        finally:
            self._readiness.stopping()
            await end({waiting, failing})
            await background.stop()
            context.close()
            await self._shut_down(calls, grace)
            calls.close()

    async def adopt(self) -> None:
        """Adopt the required data of an earlier process before anything is published."""

    def start(self, calls: Calls, background: Background) -> None:
        """Start the work beside discovery and publishing."""

    async def _shut_down(self, calls: Calls, grace: float) -> None:
        last = asyncio.create_task(calls.call(self._driver.shutdown), name="shutdown()")
        await end({last}, grace)
        if last.done() and not last.cancelled() and (error := last.exception()):
            _log.error("%s", error)

    def _want(self, pools: Sequence[Pool]) -> None:
        self._publisher.want(pools)
        self._readiness.want([pool.name for pool in pools])

    def _record_status(self, status: PoolStatus) -> None:
        """Record the outcome of an attempt to publish a pool, which the publisher has logged."""
        self.metrics.pool(self._statuses.get(status.pool), status)
        self._readiness.tried(status)
        self._statuses[status.pool] = status
