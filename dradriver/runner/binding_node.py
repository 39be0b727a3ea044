"""Run a node's driver that attaches devices while pods wait: a `Plugin` with a loop that attaches the devices.

The loop runs while this instance publishes. So during a rolling update only one of two instances attaches
devices, and this instance also publishes the taints of failed devices.
"""

import asyncio
from collections.abc import Sequence

from dradriver.conditions.on_node import NodeBinding
from dradriver.conditions.quarantine.quarantine import Quarantine
from dradriver.conditions.releases.node_state import NodeStateReporter
from dradriver.conditions.reports import AttachmentReports
from dradriver.driver import NodeBindingDriver
from dradriver.kube import Client
from dradriver.model.resource.claim import ResourceClaim
from dradriver.model.resource.pool import Pool
from dradriver.node import Plugin, PluginConfig
from dradriver.node.claims.prepare import check_free
from dradriver.node.crash_points import Observer, observe_nothing
from dradriver.node.errors import DeviceInUseError

__all__ = ["BindingPlugin"]


class BindingPlugin(Plugin):
    """Runs one binding driver on one node, like `Plugin`.

    Args:
        driver: the author's driver.
        client: the API server.
        config: settings of the process.
        observe: called after each side effect on a claim, for tests.
    """

    def __init__(
        self,
        driver: NodeBindingDriver,
        client: Client,
        config: PluginConfig,
        observe: Observer = observe_nothing,
    ) -> None:
        super().__init__(driver, client, config, observe=observe)
        self._binding_driver = driver
        self._api = client
        self._discovered: Sequence[Pool] | None = None
        self._quarantine = Quarantine(driver, client, self._publish_again, self.metrics.background_error)
        self._reports = AttachmentReports(self.events.recorder, self.metrics.background_error)
        self.metrics.show_stuck(self._reports.stuck_counts)
        self._binding: NodeBinding | None = None
        self._reporter: NodeStateReporter | None = None

    async def _publish(self) -> None:
        await self._quarantine.adopt()
        self._publish_again()
        self._binding = NodeBinding(
            self._binding_driver,
            self._api,
            context=self.parts.claims,
            quarantine=self._quarantine,
            reports=self._reports,
            check_free=self._check_free,
        )
        async with asyncio.TaskGroup() as group:
            group.create_task(super()._publish(), name="publish")
            group.create_task(self._quarantine.run(), name="quarantine")
            group.create_task(self._binding.run(), name="attach")
            if (note := self.parts.note) is not None:
                self._reporter = NodeStateReporter(self._binding_driver, self.parts.calls, note)
                group.create_task(self._reporter.run(), name="report of the node")

    async def _check_free(self, claim: ResourceClaim) -> None:
        """Check that no device of the claim is prepared, or being prepared, for another claim.

        A rebuilt state contains claims that may never have been prepared, and that may no longer exist.
        Therefore a conflict triggers a collection, which unprepares claims that no longer exist and whose
        prepare was not finished. Prepared claims are left to the kubelet, because their containers may run.

        Raises:
            DraError: a device is in use.
        """
        try:
            await check_free(self.parts.claims, claim)
        except DeviceInUseError:
            self.parts.reconciler.request_collection(prepared=False)
            raise

    def _publish_pools(self, pools: Sequence[Pool]) -> None:
        is_first = self._discovered is None
        self._discovered = pools
        super()._publish_pools(self._quarantine.add_taints(pools))
        if is_first and self._binding is not None:
            self._binding.serve_all()
        if self._reporter is not None:
            self._reporter.request()
        if self.parts.note is not None:
            self.parts.note.wake()  # the node's own pools are known, and their devices need no entries

    def _publish_again(self) -> None:
        if self._discovered is not None:
            super()._publish_pools(self._quarantine.add_taints(self._discovered))

    def _on_unprepared(self, uid: str) -> None:
        super()._on_unprepared(uid)
        if self._binding is not None:
            self._binding.on_unprepared(uid)
