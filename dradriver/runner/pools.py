"""Run a pool driver: discover its pools and keep them published, without a kubelet.

Only the leader works (`leading`), because two versions of a driver would overwrite each other's slices, and two
binding drivers would attach and detach each other's devices. At the end, the slices stay. The next process
continues from the slices that it finds, even after a kill between any two writes.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from dradriver.aio.tasks import Background, end
from dradriver.driver import PoolDriver
from dradriver.driver.source_locations import find_definition, format_location
from dradriver.kube import Client
from dradriver.model.resource.pool import Pool
from dradriver.node.devices.discovery import Discovery
from dradriver.node.devices.inventory import DiscoveredDevices
from dradriver.node.driver_calls import SourceCalls
from dradriver.node.driver_context import ContextRequests, ProcessContext
from dradriver.node.reporting.metrics import NodeMetrics
from dradriver.node.reporting.readiness import ProcessReadiness
from dradriver.publish import OwnerRef, PoolStatus, PublishController
from dradriver.publish.features.dropped_fields import DroppedField

__all__ = ["PoolProcess"]

_log = logging.getLogger("dradriver.runner")

_REDISCOVER_DELAY: Final = 0.1


class PoolProcess:
    """Runs one pool driver; call `await run(stop)` once.

    Args:
        driver: the author's driver.
        client: the API server.
        owner: the owner of the slices. When the owner is deleted, the slices are deleted too. None: the slices
            stay until they are withdrawn.
        guard: called before each method of the driver. It raises a DraError if no method must be called any
            more.

    Attributes:
        metrics: the metrics. The metrics of claims stay empty.
    """

    def __init__(
        self,
        driver: PoolDriver,
        client: Client,
        owner: OwnerRef | None = None,
        guard: Callable[[], None] = lambda: None,
    ) -> None:
        self.metrics = NodeMetrics(driver.name, kubelet=False)
        self._guard = guard
        self._driver = driver
        self._client = client
        self._owner = owner
        self._statuses: dict[str, PoolStatus] = {}
        self._inventory = DiscoveredDevices()
        self._readiness = ProcessReadiness(discovery=lambda: self._inventory.failure)

    @property
    def readiness(self) -> str:
        """Return why the driver's pools are not published yet; empty if they are published."""
        return self._readiness.missing

    async def liveness(self) -> str:
        """Return "", because an answer already proves that the event loop is not blocked."""
        return ""

    async def run(self, stop: asyncio.Event, grace: float = 30.0) -> None:
        """Publish until `stop` is set; then the driver's `shutdown()` may take `grace` seconds.

        Raises:
            Exception: a background task failed because of a defect. The caller should end the process, so that
                the process is restarted.
        """
        await self.adopt()
        calls, background = SourceCalls(self._driver, self._guard), Background()
        discovery = Discovery(calls, None, self._inventory, self._want, self.metrics, _REDISCOVER_DELAY)
        self._publisher = publisher = PublishController(
            self._client,
            self._driver.name,
            owner=self._owner,
            on_dropped=partial(self._fallback, discovery),
            on_status=self._record_status,
            origin=format_location(find_definition(self._driver.discover)),
        )
        context = ProcessContext(self.requests(discovery.rediscover))
        self._driver.set_context(context)
        background.start("discover", discovery.run())
        background.start("publish", publisher.run())
        self.start(calls, background)
        try:
            await background.run_until(stop)
        finally:
            self._readiness.set_stopping()
            await background.stop()
            context.close()
            await self._shut_down(calls, grace)
            calls.close()

    def complete_fallback(self, pools: Sequence[Pool]) -> Sequence[Pool]:
        """Return the driver's fallback layout; a subclass can override this to complete it."""
        return pools

    async def _fallback(
        self, discovery: Discovery, pool: str, dropped: frozenset[DroppedField]
    ) -> Sequence[Pool] | None:
        pools = await discovery.fallback(pool, dropped)
        return None if pools is None else self.complete_fallback(pools)

    def requests(self, rediscover: Callable[[], None]) -> ContextRequests:
        """Return the functions that serve the requests of the driver; a subclass can add more.

        Args:
            rediscover: requests `discover()`.
        """
        return ContextRequests(rediscover=rediscover)

    async def adopt(self) -> None:
        """Do nothing; a subclass can override this to adopt data of an earlier process before publishing."""

    def start(self, calls: SourceCalls, background: Background) -> None:
        """Do nothing; a subclass can override this to start more background tasks."""

    async def _shut_down(self, calls: SourceCalls, grace: float) -> None:
        shutdown = asyncio.create_task(calls.call(self._driver.shutdown), name="shutdown()")
        await end({shutdown}, grace)
        if shutdown.done() and not shutdown.cancelled() and (error := shutdown.exception()):
            _log.error("%s", error)

    def _want(self, pools: Sequence[Pool]) -> None:
        self._publisher.want(pools)
        self._readiness.set_wanted([pool.name for pool in pools])

    def _record_status(self, status: PoolStatus) -> None:
        """Record the result of an attempt to publish a pool; the publisher has already logged it."""
        self.metrics.record_pool(self._statuses.get(status.pool), status)
        self._readiness.record(status)
        self._statuses[status.pool] = status
