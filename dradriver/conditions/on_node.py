"""The loop of a `NodeBindingDriver`: attach devices that are allocated on its node.

No record is kept and nothing is detached: changes to a node's device stay on the node. If the process dies at
any point, the claim still has neither a ready nor a failed condition, and the next process calls `attach`
again.
"""

import asyncio
from collections.abc import Awaitable, Callable

from dradriver.conditions.attaching import Attacher, Keeper
from dradriver.conditions.attachment_diff import on_node, to_admit
from dradriver.conditions.claim_tasks import ClaimTasks
from dradriver.conditions.reports import AttachmentReports
from dradriver.driver import Attachment, NodeBindingDriver
from dradriver.kube import CLAIMS, Cache, Client
from dradriver.model.resource.claim import DeviceResult, ResourceClaim
from dradriver.model.resource.device import Device
from dradriver.node.driver_calls import Calls

__all__ = ["NodeBinding"]


class NodeBinding:
    """Attaches the devices of a driver on one node: `await run()`, once, until canceled.

    Args:
        driver: the author's driver.
        client: the API server. It needs `list` and `watch` of claims, and `patch` of their status
            (`associated-node`).
        node: the node.
        calls: calls the driver.
        device: returns a device as `discover()` last returned it.
        keeper: keeps failed devices from new claims.
        free: raises a DraError while a device of the claim is prepared for another claim.
        reports: receives errors, and attachments that the driver cannot finish.
    """

    def __init__(
        self,
        driver: NodeBindingDriver,
        client: Client,
        node: str,
        *,
        calls: Calls,
        device: Callable[[str, str], Device | None],
        keeper: Keeper,
        reports: AttachmentReports,
        free: Callable[[ResourceClaim], Awaitable[None]],
    ) -> None:
        self._driver = driver
        self._node = node
        self._free = free
        self._claims = Cache(client, CLAIMS, ResourceClaim)
        self._attacher = Attacher(
            *(driver, client, self._claims),
            calls=calls,
            device=device,
            keeper=keeper,
            reports=reports,
            due=self._due,
        )
        self._tasks = ClaimTasks(self._claims.items, self._concerns_us, self._step)
        self._running = False

    async def run(self) -> None:
        """Work until canceled; the next process continues unfinished attachments."""
        stop = self._claims.subscribe(lambda _, old, new: self._changed(new or old))
        async with self._claims:
            try:
                await self._claims.synced()
                self._running = True
                for ref in list(self._claims.items):
                    self._tasks.serve(ref)
                await asyncio.get_running_loop().create_future()
            finally:
                self._running = False
                stop()
                await self._tasks.end()
                await self._attacher.end()

    def nudge(self) -> None:
        """Wake the tasks that wait for devices, because a claim was unprepared."""
        self._tasks.nudge()

    def _changed(self, claim: ResourceClaim | None) -> None:
        if self._running and claim is not None:
            self._tasks.serve(claim.ref)

    def _due(self, claim: ResourceClaim) -> tuple[Attachment, ...]:
        return on_node(claim, self._driver.name, self._node, self._driver.own_conditions)

    def _to_admit(self, claim: ResourceClaim) -> tuple[DeviceResult, ...]:
        return to_admit(claim, self._driver.name, self._driver.own_conditions, self._node)

    def _concerns_us(self, claim: ResourceClaim) -> bool:
        return bool(self._due(claim) or self._to_admit(claim))

    async def _step(self, claim: ResourceClaim, news: asyncio.Event) -> bool:
        if results := self._to_admit(claim):
            await self._attacher.admit(claim, results)
        elif due := self._due(claim):
            await self._free(claim)
            await self._attacher.attach_all(claim, due, news)
        else:
            return False
        return True
