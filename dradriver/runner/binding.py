"""Run a binding driver: a pool driver whose devices are also attached and detached."""

import asyncio
from collections.abc import Callable, Sequence

from dradriver.aio.tasks import Background
from dradriver.conditions.controller import BindingController
from dradriver.conditions.quarantine.quarantine import Quarantine
from dradriver.conditions.reports import AttachmentReports
from dradriver.driver import BindingDriver
from dradriver.kube import Client, EventRecorder
from dradriver.model.resource.pool import Pool
from dradriver.node.driver_calls import Calls
from dradriver.node.reporting.events import BURST
from dradriver.publish import OwnerRef
from dradriver.runner.pools import PoolProcess

__all__ = ["BindingProcess"]


class BindingProcess(PoolProcess):
    """Runs one binding driver: `await run(stop)`, once; see `PoolProcess`."""

    def __init__(
        self,
        driver: BindingDriver,
        client: Client,
        owner: OwnerRef | None = None,
        guard: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(driver, client, owner, guard)
        self._binding = driver
        self._discovered: Sequence[Pool] = ()
        self._hold_off = Quarantine(driver, client, self._publish_again, self.metrics.background_error)
        self._recorder = EventRecorder(client, driver.name, burst=BURST)
        self._reports = AttachmentReports(self._recorder, self.metrics.background_error)
        self.metrics.show_stuck(self._reports.stuck_counts)

    async def run(self, stop: asyncio.Event, grace: float = 30.0) -> None:
        """Publish, attach and detach until `stop` is set; see `PoolProcess`."""
        async with self._recorder:
            await super().run(stop, grace)

    def start(self, calls: Calls, background: Background) -> None:
        """Start the work beside discovery and publishing."""
        controller = BindingController(
            self._binding,
            self._client,
            calls=calls,
            device=self._inventory.device,
            keeper=self._hold_off,
            reports=self._reports,
        )
        background.start("hold off", self._hold_off.run())
        background.start("attach", controller.run())

    async def adopt(self) -> None:
        """Adopt the taints of an earlier process before anything is published."""
        await self._hold_off.adopt()

    def _want(self, pools: Sequence[Pool]) -> None:
        self._discovered = pools
        super()._want(self._hold_off.tainted(pools))

    def _publish_again(self) -> None:
        if self._discovered:
            super()._want(self._hold_off.tainted(self._discovered))
