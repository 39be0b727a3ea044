"""The loop of a `NodeBindingDriver`: attach devices that are allocated on its node.

No record is kept and nothing is detached: changes to a node's device stay on the node. If the process dies at
any point, the claim still has neither a ready nor a failed condition, and the next process calls `attach`
again.

A node cannot taint a device that another process publishes. It reports the failure in a condition of its own
(`node_failure_type`), and does not call `attach` again for this allocation. The publisher taints the device and
sets the failure condition: `node_failures`.

With `node_releases`, `attach` for such a device begins as a `prepare` does: it is recorded in the prepared
state and in the node's usage note (`node.usage`). If no `prepare` follows, it is reverted
(`releases.take_back`).
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager

from dradriver.conditions.attaching import Attacher
from dradriver.conditions.attachment_diff import (
    find_admin_access,
    find_node_attachments,
    node_failure_type,
)
from dradriver.conditions.declared import fill_on_node
from dradriver.conditions.quarantine.quarantine import Quarantine
from dradriver.conditions.releases.take_back import TakeBack
from dradriver.conditions.reports import AttachmentReports
from dradriver.conditions.writes.writer import NodeConditionWriter
from dradriver.driver import Attachment, NodeBindingDriver
from dradriver.kube import CLAIMS, Cache, Client
from dradriver.kube.object_tasks import ObjectTasks
from dradriver.model.resource.claim import DeviceResult, ResourceClaim
from dradriver.node.claims.context import ClaimContext
from dradriver.node.claims.lookup import ClaimLookup, claim_ref
from dradriver.node.devices.inventory import DiscoveredDevices
from dradriver.node.driver_calls import Calls
from dradriver.node.state.claim_states import ClaimState
from dradriver.node.usage.attach_uses import AttachUses

__all__ = ["NodeBinding"]


class NodeAttacher(Attacher):
    """Attaches devices on a node; see `Attacher`.

    Args:
        driver: the author's driver.
        client: the API server.
        claims: the claims as they are now.
        inventory: the devices as `discover()` last returned them.
        calls, quarantine, reports, pending: as for `Attacher`.
    """

    writer = NodeConditionWriter

    def __init__(
        self,
        driver: NodeBindingDriver,
        client: Client,
        claims: Cache[ResourceClaim],
        *,
        inventory: DiscoveredDevices,
        calls: Calls,
        quarantine: Quarantine,
        reports: AttachmentReports,
        pending: Callable[[ResourceClaim], Collection[Attachment]],
    ) -> None:
        super().__init__(
            *(driver, client, claims),
            calls=calls,
            device=inventory.device,
            quarantine=quarantine,
            reports=reports,
            pending=pending,
        )
        self._inventory = inventory

    async def contain(self, result: DeviceResult) -> str:
        """Taint a bad device, or return the condition that reports it to its publisher."""
        if self._inventory.select_shared([result.pool]):
            return node_failure_type(result.driver)
        return await super().contain(result)


class NodeBinding:
    """Attaches the devices of a driver on one node: `await run()`, once, works until it is canceled.

    Args:
        driver: the author's driver.
        client: the API server. It needs `list` and `watch` of claims, and `patch` of their status
            (`associated-node`).
        context: prepares and unprepares the claims of the node.
        quarantine: taints failed devices.
        check_free: raises a DraError while a device of the claim is prepared for another claim.
        reports: receives errors, and attachments that the driver cannot finish.
    """

    def __init__(
        self,
        driver: NodeBindingDriver,
        client: Client,
        *,
        context: ClaimContext,
        quarantine: Quarantine,
        reports: AttachmentReports,
        check_free: Callable[[ResourceClaim], Awaitable[None]],
    ) -> None:
        self._driver = driver
        self._context = context
        self._node = context.node
        self._check_free = check_free
        self._claims = Cache(client, CLAIMS, ResourceClaim)
        self._attacher = NodeAttacher(
            *(driver, client, self._claims),
            calls=context.calls,
            inventory=context.inventory,
            quarantine=quarantine,
            reports=reports,
            pending=self._pending,
        )
        self._inventory = context.inventory
        self._uses = AttachUses(context)
        if driver.node_releases:
            self._attacher.permit = self._permit
        self._take_back = TakeBack(context, ClaimLookup(client), self._claims.items)
        self._tasks = ObjectTasks("claim", self._claims.items.get, self._has_work, self._step)
        self._running = False

    async def run(self) -> None:
        """Work until canceled; the next process continues unfinished attachments."""
        stop = self._claims.subscribe(lambda _, old, new: self._changed(old, new))
        async with self._claims:
            try:
                await self._claims.wait_synced()
                self._running = True
                if self._driver.node_releases:
                    await self._take_back.start()
                self.serve_all()
                await asyncio.get_running_loop().create_future()
            finally:
                self._running = False
                stop()
                await self._tasks.end()
                await self._attacher.end()
                await self._take_back.end()

    def serve_all(self) -> None:
        """Look at all claims again, because the devices of the node are known now."""
        if self._running:
            for ref in list(self._claims.items):
                self._tasks.serve(ref)

    def on_unprepared(self, uid: str) -> None:
        """Wake the tasks that wait for devices, and look at the claim again: it may still be allocated."""
        self._tasks.wake_all()
        if self._running:
            for ref in [ref for ref, claim in self._claims.items.items() if claim.metadata.uid == uid]:
                self._tasks.serve(ref)

    def _changed(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        if not self._running:
            return
        if (claim := new or old) is not None:
            if self._context.changes is not None:
                self._context.changes.notify(claim.metadata.uid)
            self._tasks.serve(claim.ref)
        for each in (old, new):
            if each is not None:
                self._take_back.serve(each.metadata.uid)

    @asynccontextmanager
    async def _permit(self, claim: ResourceClaim, attachment: Attachment) -> AsyncIterator[None]:
        """Record and note the use of a device that another process publishes.

        Raises:
            DraError: also if the allocation is gone. The cache may still have it, so the claim is tried again
                after a pause, or when it has changed.
        """
        if not self._inventory.select_shared([attachment.pool]):
            yield
            return
        try:
            async with self._uses.use(claim):
                yield
        finally:
            self._take_back.add(claim_ref(claim))

    async def _is_prepared(self, claim: ResourceClaim) -> bool:
        """Return whether the claim is recorded as prepared on this node, in this boot or an earlier one."""
        row = await self._context.stores.state.read(lambda rows: rows.get(claim.metadata.uid))
        return row is not None and row.state is ClaimState.PREPARED

    def _fill(self, claim: ResourceClaim) -> ResourceClaim:
        """Return the claim with the conditions that the API server dropped from its allocation.

        Before the first discovery it is unknown which pools are the node's own.
        """
        if not self._inventory.is_known:
            return claim
        known = {*self._driver.own_conditions, *self._driver.attach_after}
        return fill_on_node(
            claim, self._driver.name, known, lambda pool: bool(self._inventory.select_shared([pool]))
        )

    def _pending(self, claim: ResourceClaim) -> tuple[Attachment, ...]:
        driver = self._driver
        return find_node_attachments(
            *(self._fill(claim), driver.name, self._node), driver.own_conditions, driver.attach_after
        )

    def _admin_access(self, claim: ResourceClaim) -> tuple[DeviceResult, ...]:
        return find_admin_access(claim, self._driver.name, self._driver.own_conditions, self._node)

    def _has_work(self, claim: ResourceClaim) -> bool:
        return bool(self._pending(claim) or self._admin_access(claim))

    async def _step(self, claim: ResourceClaim, changed: asyncio.Event) -> bool:
        if results := self._admin_access(claim):
            await self._attacher.admit(claim, results)
        elif pending := self._pending(claim):
            filled = self._fill(claim)
            if filled is not claim and await self._is_prepared(claim):
                # Its containers use the device: it was prepared before the pool driver wrote conditions.
                return False
            await self._check_free(claim)
            await self._attacher.attach_all(filled, pending, changed)
        else:
            return False
        return True
