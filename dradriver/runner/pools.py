"""A pool driver at work: discovers, and keeps published what it has, beside no kubelet.

One instance works at a time, the one that leads (`leading`): two versions of a driver would write against
each other, and two binding drivers would attach and detach each other's devices. Nothing is taken back at
the end: the next process goes on from the slices that it finds, also after a kill between any two writes.
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
        owner: what the slices go with; without one they stay until they are withdrawn.
        guard: raises a DraError when the driver's methods may not be called any more.

    Attributes:
        metrics: what is counted; those of claims stay empty.
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
        """Why its pools are not published yet; empty when they are."""
        return self._readiness.missing

    async def liveness(self) -> str:
        """Nothing that another start would help against is known here but that the loop turns."""
        return ""

    async def run(self, stop: asyncio.Event, grace: float = 30.0) -> None:
        """Publishes until `stop` is set; `shutdown()` then gets `grace` seconds.

        Raises:
            Exception: a background task met a defect; the process should end and be started again.
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
        """Takes over what has to be known of an earlier process before anything is published."""

    def start(self, calls: Calls, background: Background) -> None:
        """Starts what runs beside discovery and publishing."""

    async def _shut_down(self, calls: Calls, grace: float) -> None:
        last = asyncio.create_task(calls.call(self._driver.shutdown), name="shutdown()")
        await end({last}, grace)
        if last.done() and not last.cancelled() and (error := last.exception()):
            _log.error("%s", error)

    def _want(self, pools: Sequence[Pool]) -> None:
        self._publisher.want(pools)
        self._readiness.want([pool.name for pool in pools])

    def _record_status(self, status: PoolStatus) -> None:
        """Records the outcome of a try to publish a pool, which the publisher has logged."""
        self.metrics.pool(self._statuses.get(status.pool), status)
        self._readiness.tried(status)
        self._statuses[status.pool] = status
