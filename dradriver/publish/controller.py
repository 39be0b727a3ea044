"""Keep the pools of one driver published. Each pool has a worker, and one loop manages all workers.

`want` sets the wanted pools. For each of them, a `PoolWorker` writes the slices to the API server. If the
process dies, nothing is lost: the next process starts from the slices that it finds on the server.
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

    Every pool has its own worker, so a rejected, pinned or failing pool does not stop other pools. If another
    client deletes or changes a slice, the slice is usually repaired within a fraction of a second. The end of
    `run()` deletes nothing, so slices stay published while the driver restarts. `withdraw()` deletes all
    slices.

    Args:
        client: the API server.
        driver: the driver's name.
        node: the node for which the publisher runs. None for a publisher of the control plane. Each pool of a
            control-plane publisher must have its own node selection.
        owner: only for a publisher of the control plane: the owner of its slices. Kubernetes deletes the slices
            when the owner is deleted. Without an owner, the slices stay until `withdraw()`. For a publisher of
            a node, the owner of the slices is the Node.
        on_dropped: returns fallback pools if the server drops fields without which a pool is unsafe.
        allocation_lookup: returns the claims that hold devices. Default: reads the allocated claims from the
            server.
        on_status: called after each attempt to publish a pool.
        origin: the location of the pools' definition, such as ` (leds.py:12)`. It is appended to the message
            about an invalid pool.
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
        self._status_changed = asyncio.Event()
        self._context = self._new_context()

    @property
    def status(self) -> Mapping[str, PoolStatus]:
        """Return the status of each pool by name. It includes removed pools until their slices are deleted."""
        return MappingProxyType({name: worker.status for name, worker in self._workers.items()})

    def want(self, pools: Sequence[Pool]) -> None:
        """Replace all wanted pools, for this and later runs. This returns immediately.

        Args:
            pools: all pools of the driver. Pools that are omitted are deleted.
        """
        names = Tally(pool.name or self._node or "" for pool in pools)
        self._wanted = {}
        for pool in pools:
            name = pool.name or self._node or ""
            duplicate = f"name: is used by {names[name]} pools, must be unique" if names[name] > 1 else ""
            self._wanted[name] = (pool, duplicate)
        if self._running:
            self._assign()

    async def run(self) -> None:
        """Keep the pools published until this call is canceled. After that, `run` may be called again.

        Each run observes the slices and the server anew, because other clients may have written since the last
        run.

        Raises:
            UsageError: another call of `run` is in progress.
        """
        if self._running:
            raise UsageError(f"publisher of driver {self._driver}: is already running")
        self._context = self._new_context()
        slices = self._context.slices
        async with slices:
            self._running = True
            try:
                if self._wanted is not None:
                    self._assign()
                await slices.wait_synced()
                self._adopt()
                self._status_changed.set()
                await slices.open_shared_if_used()
                await slices.wait_synced()
                self._status_changed.set()
                await asyncio.get_running_loop().create_future()  # the workers run until this is canceled
            finally:
                self._running = False
                tasks = list(self._tasks.values())
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                self._tasks.clear()
                self._workers.clear()

    async def wait_settled(self, timeout: float | None = None) -> Mapping[str, PoolStatus]:
        """Wait until no pool is pending.

        Args:
            timeout: maximum wait in seconds. None: no limit.

        Returns:
            The status of each pool by name, at the end of the wait. After a timeout, some pools are still
            pending.
        """
        try:
            async with asyncio.timeout(timeout):
                while self._wanted is None or not self._running or self._is_busy():
                    self._status_changed.clear()
                    await self._status_changed.wait()
        except TimeoutError:
            pass
        return self.status

    async def withdraw(self) -> None:
        """Delete all slices of this publisher, for an uninstall. `run()` may be in progress or not.

        Raises:
            ApiError: a slice could not be deleted. Call `withdraw` again.
        """
        self.want(())
        while any(worker.is_working for worker in self._workers.values()):  # with earlier wanted pools
            self._status_changed.clear()
            await self._status_changed.wait()
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
            features=ServerFeatures(self._client, owner, lambda: slices.interruptions),
            allocation_lookup=self._allocation_lookup,
            on_dropped=self._on_dropped,
            wake_all=self._wake_all,
            report=self._report,
            origin=self._origin,
        )

    def _is_busy(self) -> bool:
        return not self._context.slices.is_synced or any(worker.is_busy for worker in self._workers.values())

    def _assign(self) -> None:
        """Give each wanted pool to its worker, and let the workers of other pools delete their slices."""
        wanted = self._wanted or {}
        for name in {*wanted, *self._workers}:
            pool, rejection = wanted.get(name, (None, ""))
            self._worker(name).want(pool, rejection)
        self._adopt()

    def _adopt(self) -> None:
        """Create workers for unwanted pools of an earlier process. These workers delete the slices."""
        if self._wanted is None:
            return
        for name in self._context.slices.pools() - set(self._workers):
            self._worker(name).want(None)

    def _worker(self, name: str) -> PoolWorker:
        worker = self._workers.get(name)
        if worker is None:
            worker = self._workers[name] = PoolWorker(name, self._context)
            self._tasks[name] = asyncio.create_task(self._run_worker(name, worker), name=f"pool {name}")
        return worker

    async def _run_worker(self, name: str, worker: PoolWorker) -> None:
        try:
            await worker.run()
        finally:
            if self._workers.get(name) is worker:
                del self._workers[name], self._tasks[name]
            self._status_changed.set()

    def _slice_changed(self, pool: str, kind: ChangeKind) -> None:
        """Handle a change of a slice by another writer."""
        if kind is ChangeKind.DELETED:
            self._context.owner.invalidate()
        if self._wanted is None or not self._running:
            return
        if pool in self._workers:
            self._workers[pool].repair()
        else:
            self._worker(pool).want(None)

    def _watch_reopened(self) -> None:
        """Probe the server again, because it may have been restarted with other feature gates."""
        for worker in self._workers.values():
            if worker.depends_on_gates:
                worker.wake()

    def _wake_all(self) -> None:
        for worker in self._workers.values():
            worker.wake()

    def _report(self, status: PoolStatus) -> None:
        self._status_changed.set()
        if self._on_status is None:
            return
        try:
            self._on_status(status)
        except Exception:  # a defect of the callback must not end the attempt
            _log.exception("pool %s: the status callback failed", status.pool)
