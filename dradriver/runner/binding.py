"""Run a binding driver: a pool driver that also attaches and detaches its devices."""

import asyncio
import logging
from collections.abc import Callable, Sequence

from dradriver.aio.tasks import Background
from dradriver.conditions.controller import BindingController
from dradriver.conditions.declared import mark_devices
from dradriver.conditions.quarantine.quarantine import Quarantine
from dradriver.conditions.releases.release_check import ReleaseCheck
from dradriver.conditions.reports import AttachmentReports
from dradriver.driver import BindingDriver
from dradriver.kube import Client, EventRecorder
from dradriver.model.resource.pool import Pool
from dradriver.node.driver_calls import SourceCalls
from dradriver.node.driver_context import ContextRequests
from dradriver.node.reporting.events import BURST
from dradriver.publish import OwnerRef
from dradriver.runner.pools import PoolProcess

__all__ = ["BindingProcess"]

_log = logging.getLogger("dradriver.runner")


class BindingProcess(PoolProcess):
    """Runs one binding driver, like `PoolProcess`; call `await run(stop)` once."""

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
        self._controller: BindingController | None = None
        self._quarantine = Quarantine(driver, client, self._publish_again, self.metrics.background_error)
        self._recorder = EventRecorder(client, driver.name, burst=BURST)
        self._reports = AttachmentReports(self._recorder, self.metrics.background_error)
        self.metrics.show_stuck(self._reports.stuck_counts)

    async def run(self, stop: asyncio.Event, grace: float = 30.0) -> None:
        """Publish, attach and detach until `stop` is set, as described in `PoolProcess.run`."""
        async with self._recorder:
            await super().run(stop, grace)

    def start(self, calls: SourceCalls, background: Background) -> None:
        """Start the background tasks that attach devices, and that manage the taints of failed devices."""
        self._controller = controller = BindingController(
            self._binding,
            self._client,
            calls=calls,
            device=self._inventory.device,
            quarantine=self._quarantine,
            reports=self._reports,
        )
        background.start("quarantine", self._quarantine.run())
        background.start("attach", controller.run())

    def requests(self, rediscover: Callable[[], None]) -> ContextRequests:
        """Also let a driver with `node_releases` read the reports of the nodes."""
        releases = ReleaseCheck(self._client, self._binding.name)
        return ContextRequests(
            rediscover=rediscover, node_reports=releases.read_reports if self._binding.node_releases else None
        )

    async def adopt(self) -> None:
        """Adopt the taints that an earlier process has set, before pools are published."""
        await self._quarantine.adopt()

    def complete_fallback(self, pools: Sequence[Pool]) -> Sequence[Pool]:
        """Return the fallback layout with the taints of failed devices.

        Devices that are attached although the API server drops their binding conditions are marked.
        """
        marked, omitted = mark_devices(pools, self._discovered)
        if omitted:
            _log.warning(
                "driver %s: devices %s are withdrawn: they have binds_to_node, which the API server drops",
                *(self._binding.name, ", ".join(omitted)),
            )
        return self._quarantine.add_taints(marked)

    def _want(self, pools: Sequence[Pool]) -> None:
        is_changed = pools != self._discovered
        self._discovered = pools
        super()._want(self._quarantine.add_taints(pools))
        if is_changed and self._controller is not None:
            self._controller.serve_all()

    def _publish_again(self) -> None:
        if self._discovered:
            super()._want(self._quarantine.add_taints(self._discovered))
