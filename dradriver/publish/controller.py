"""Keep the pools of one driver published: one worker for each pool, one loop for all of them.

`want` sets the wanted pools, and `PoolWorker` changes the API server accordingly, pool by pool. If the process
dies, nothing is lost: the next process starts from the slices that it finds.
"""

import asyncio
import logging
from collections import Counter as Tally
from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType

from dradriver.errors import UsageError
from dradriver.kube import SLICES, ChangeKind, Client
from dradriver.model.resource.pool import Pool
from dradriver.model.resource.slices import ResourceSlice
from dradriver.publish.context import OnDropped, OnStatus, PublishContext
from dradriver.publish.features.api_features import ServerFeatures
from dradriver.publish.holds.allocation_lookup import AllocationLookup, look_up_allocations
from dradriver.publish.own_slices import OwnSlices
from dradriver.publish.owner import OwnerRef, SliceOwner
from dradriver.publish.pool_worker import PoolWorker
from dradriver.publish.status import NodeRef, PoolStatus

__all__ = ["PublishController"]

_log = logging.getLogger(__name__)


class PublishController:
    """Makes the API server's slices of one driver equal to the wanted pools, and keeps them equal.

    Every pool has a worker of its own: a rejected, pinned or failing pool stops no other. Slices that others
    delete or change are repaired within a fraction of a second. The end of `run()` deletes nothing: slices
    survive a restart. `withdraw()` deletes them permanently.

    Args:
        client: the API server.
        driver: the driver's name.
        node: the node that the publisher runs for. None for a publisher of the control plane, whose pools all
            need a node selection of their own.
        owner: the owner of its slices, for a publisher of the control plane: they are deleted with it. Without
            one they stay until `withdraw()`. The owner of a node's slices is its Node.
        on_dropped: returns fallback pools when the server drops fields without which a pool is unsafe.
        allocation_lookup: returns the claims that hold devices. Default: the allocated claims on the server.
        on_status: called after each attempt to publish a pool.
        origin: the place of the pools' definition, such as ` (leds.py:12)`; the end of the message about an
            invalid pool.
    """

    def __init__(
        self,
        client: Client,
        driver: str,
        *,
        node: NodeRef | None = None,
        owner: OwnerRef | None = None,
        on_dropped: OnDropped | None = None,
        allocation_lookup: AllocationLookup | None = None,
        on_status: OnStatus | None = None,
        origin: str = "",
    ) -> None:
        self._client = client
        self._driver = driver
        self._node = node.name if node else None
        self._owner = OwnerRef.of_node(node) if node else owner
        self._on_dropped = on_dropped
        self._allocation_lookup = allocation_lookup or partial(look_up_allocations, client)
        self._on_status = on_status
        self._origin = origin
        self._workers: dict[str, PoolWorker] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._wanted: dict[str, tuple[Pool, str]] | None = None
        self._running = False
        self._moved = asyncio.Event()
        self._context = self._new_context()

    @property
    def status(self) -> Mapping[str, PoolStatus]:
        """Return the status of each pool by name, including removed pools until their slices are gone."""
        return MappingProxyType({name: worker.status for name, worker in self._workers.items()})

    def want(self, pools: Sequence[Pool]) -> None:
        """Replace all wanted pools, for this and later runs; returns immediately.

        Args:
            pools: all pools of the driver. Pools that are omitted are deleted.
        """
        names = Tally(pool.name or self._node or "" for pool in pools)
        self._wanted = {}
        for pool in pools:
            name = pool.name or self._node or ""
            objection = (
                f"the pool is given {names[name]} times, names must be unique" if names[name] > 1 else ""
            )
            self._wanted[name] = (pool, objection)
        if self._running:
            self._assign()

    async def run(self) -> None:
        """Keep the pools published until canceled; it may be called again after that.

        A run relies on its own observations of the slices and the server. Others write between two runs, so
        each run starts without the knowledge of the previous one.

        Raises:
            UsageError: another call is running.
        """
        if self._running:
            raise UsageError("the publisher is running already")
        self._context = self._new_context()
        slices = self._context.slices
        async with slices:
            self._running = True
            try:
                if self._wanted is not None:
                    self._assign()
                await slices.synced()
                self._adopt()
                self._moved.set()
                await slices.look_for_shared()
                await slices.synced()
                self._moved.set()
                await asyncio.get_running_loop().create_future()  # the workers do the rest
            finally:
                self._running = False
                tasks = list(self._tasks.values())
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                self._tasks.clear()
                self._workers.clear()

    async def wait_settled(self, timeout: float | None = None) -> Mapping[str, PoolStatus]:
        """Wait until no pool is pending any more, at most `timeout` seconds; return the status then."""
        try:
            async with asyncio.timeout(timeout):
                while self._wanted is None or not self._running or self._busy():
                    self._moved.clear()
                    await self._moved.wait()
        except TimeoutError:
            pass
        return self.status

    async def withdraw(self) -> None:
        """Delete all slices of this publisher, for an uninstall; works with and without `run()`.

        Raises:
            ApiError: a slice could not be deleted; call it again.
        """
        self.want(())
        while any(worker.working for worker in self._workers.values()):  # on earlier wanted pools
            self._moved.clear()
            await self._moved.wait()
        slices = self._context.slices
        selectors = {slices.selector(self._driver, node) for node in (self._node, None)}
        for selector in sorted(selectors):
            listing = await self._client.list(SLICES, into=ResourceSlice, fields=selector)
            for item in filter(slices.owns, listing.items):
                await self._client.delete(SLICES, item.metadata.name, uid=item.metadata.uid)

    def _new_context(self) -> PublishContext:
        slices = OwnSlices(self._client, self._driver, self._node, self._slice_changed, self._watch_reopened)
        owner = SliceOwner(self._client, self._owner)
        return PublishContext(
            client=self._client,
            driver=self._driver,
            node=self._node,
            slices=slices,
            owner=owner,
            features=ServerFeatures(self._client, owner, lambda: slices.cuts),
            allocation_lookup=self._allocation_lookup,
            on_dropped=self._on_dropped,
            wake_all=self._wake_all,
            report=self._report,
            origin=self._origin,
        )

    def _busy(self) -> bool:
        return not self._context.slices.is_synced or any(worker.busy for worker in self._workers.values())

    def _assign(self) -> None:
        """Give each pool that is wanted, published or in progress to its worker."""
        wanted = self._wanted or {}
        for name in {*wanted, *self._workers}:
            pool, objection = wanted.get(name, (None, ""))
            self._worker(name).want(pool, objection)
        self._adopt()

    def _adopt(self) -> None:
        """Give pools of an earlier process that are no longer wanted to workers that delete them."""
        if self._wanted is None:
            return
        for name in self._context.slices.pools() - set(self._workers):
            self._worker(name).want(None)

    def _worker(self, name: str) -> PoolWorker:
        worker = self._workers.get(name)
        if worker is None:
            worker = self._workers[name] = PoolWorker(name, self._context)
            self._tasks[name] = asyncio.create_task(self._work(name, worker), name=f"pool {name}")
        return worker

    async def _work(self, name: str, worker: PoolWorker) -> None:
        try:
            await worker.run()
        finally:
            if self._workers.get(name) is worker:
                del self._workers[name], self._tasks[name]
            self._moved.set()

    def _slice_changed(self, pool: str, kind: ChangeKind) -> None:
        """Handle a change of a slice by another writer."""
        if kind is ChangeKind.DELETED:
            self._context.owner.doubt()
        if self._wanted is None or not self._running:
            return
        if pool in self._workers:
            self._workers[pool].repair()
        else:
            self._worker(pool).want(None)

    def _watch_reopened(self) -> None:
        """Probe again: the server may have been restarted with other feature gates."""
        for worker in self._workers.values():
            if worker.depends_on_gates:
                worker.wake()

    def _wake_all(self) -> None:
        for worker in self._workers.values():
            worker.wake()

    def _report(self, status: PoolStatus) -> None:
        self._moved.set()
        if self._on_status is None:
            return
        try:
            self._on_status(status)
        except Exception:  # a defect of the listener must not end the pool's attempt
            _log.exception("pool %s: the status listener failed", status.pool)
