"""Run a node's driver whose devices are attached while their pods wait: a plugin with one more loop.

The loop runs while this instance publishes: during a rolling update only one of two instances attaches, and it
publishes its own taints.
"""

import asyncio
from collections.abc import Sequence

from dradriver.conditions.on_node import NodeBinding
from dradriver.conditions.quarantine.quarantine import Quarantine
from dradriver.conditions.reports import AttachmentReports
from dradriver.driver import NodeBindingDriver
from dradriver.kube import Client
from dradriver.model.resource.claim import ResourceClaim
from dradriver.model.resource.pool import Pool
from dradriver.node import Plugin, PluginConfig
from dradriver.node.claims.prepare import check_free
from dradriver.node.crash_points import Observer, unobserved
from dradriver.node.errors import DeviceInUseError

__all__ = ["BindingPlugin"]


class BindingPlugin(Plugin):
    """Runs one driver on one node; see `Plugin`.

    Args:
        driver: the author's driver.
        client: the API server.
        config: settings of the process.
        observe: called after each side effect on claims (tests).
    """

    def __init__(
        self, driver: NodeBindingDriver, client: Client, config: PluginConfig, observe: Observer = unobserved
    ) -> None:
        super().__init__(driver, client, config, observe=observe)
        self._binding_driver = driver
        self._api = client
        self._discovered: Sequence[Pool] | None = None
        self._hold_off = Quarantine(driver, client, self._publish_again, self.metrics.background_error)
        self._reports = AttachmentReports(self.announcements.recorder, self.metrics.background_error)
        self.metrics.show_stuck(self._reports.stuck_counts)
        self._binding: NodeBinding | None = None

    async def _turn(self) -> None:
        await self._hold_off.adopt()
        self._publish_again()
        self._binding = NodeBinding(
            self._binding_driver,
            self._api,
            self.config.node_name,
            calls=self.parts.calls,
            device=self.parts.inventory.device,
            keeper=self._hold_off,
            reports=self._reports,
            free=self._check_free,
        )
        async with asyncio.TaskGroup() as group:
            group.create_task(super()._turn(), name="publish")
            group.create_task(self._hold_off.run(), name="hold off")
            group.create_task(self._binding.run(), name="attach")

    async def _check_free(self, claim: ResourceClaim) -> None:
        """Raise a DraError while a device of the claim is prepared, or being prepared, for another claim.

        A rebuilt state has claims that may never have been prepared: those that are gone are ended soon. A
        prepared claim ends only when the kubelet unprepares it, because its container may run.
        """
        try:
            await check_free(self.parts.claims, claim)
        except DeviceInUseError:
            self.parts.reconciler.nudge(prepared=False)
            raise

    def _want(self, pools: Sequence[Pool]) -> None:
        self._discovered = pools
        super()._want(self._hold_off.tainted(pools))

    def _publish_again(self) -> None:
        if self._discovered is not None:
            super()._want(self._hold_off.tainted(self._discovered))

    def _unprepared(self, uid: str) -> None:
        super()._unprepared(uid)
        if self._binding is not None:
            self._binding.nudge()
