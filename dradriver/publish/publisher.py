"""The only loop of this package: keeps the pools of one driver published."""

import asyncio
import logging
from collections import Counter as Tally
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from dradriver.errors import UsageError
from dradriver.kube import SLICES, ChangeKind, Client
from dradriver.model.resource.pool import Pool
from dradriver.model.resource.slices import ResourceSlice
from dradriver.publish.context import Desk, OnDropped
from dradriver.publish.features.api_features import Features
from dradriver.publish.holds.allocation_lookup import ClaimsOnServer, Holders
from dradriver.publish.own_slices import OwnSlices
from dradriver.publish.owner import OwnerRef, SliceOwner
from dradriver.publish.status import NodeRef, PoolStatus
from dradriver.publish.worker import PoolWorker

__all__ = ["Publisher"]

_log = logging.getLogger(__name__)


class Publisher:
    """Makes the API server's slices of one driver what the driver wants, and keeps them so.

    Every pool has a worker of its own: one that is refused, held or in trouble stops no other. Slices that
    others delete or change are repaired within a fraction of a second. Nothing is deleted at the end of
    `run()`: slices outlive a restart; `withdraw()` is for good.

    Args:
        client: the API server.
        driver: the driver's name.
        node: the node that the publisher runs for; None for one of the control plane, whose pools all need a
            node selection of their own.
        owner: what its slices go with, for a publisher of the control plane; without one they stay until
            `withdraw()`. A node's publisher has its Node.
        on_dropped: asked for fallback pools when the server drops fields without which a pool is unsafe.
        holders: who holds a device; by default the allocated claims on the server.
        on_status: called on each change of a pool's status.
        origin: where the pools come from, such as ` (leds.py:12)`: the message about one that breaks rules ends
            with it.
    """

    def __init__(
        self,
        client: Client,
        driver: str,
        *,
        node: NodeRef | None = None,
        owner: OwnerRef | None = None,
        on_dropped: OnDropped | None = None,
        holders: Holders | None = None,
        on_status: Callable[[PoolStatus], None] | None = None,
        origin: str = "",
    ) -> None:
        self._client = client
        self._driver = driver
        self._node = node.name if node else None
        self._on_status = on_status
        self._workers: dict[str, PoolWorker] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._wanted: dict[str, tuple[Pool, str]] | None = None
        self._running = False
        self._moved = asyncio.Event()
        self._owner = SliceOwner(client, OwnerRef.of_node(node) if node else owner)
        self._slices = OwnSlices(client, driver, self._node, self._changed, self._watched_again)
        self._desk = Desk(
            client=client,
            driver=driver,
            node=self._node,
            slices=self._slices,
            owner=self._owner,
            features=Features(client, self._owner),
            holders=holders or ClaimsOnServer(client),
            on_dropped=on_dropped,
            wake_all=self._wake_all,
            report=self._report,
            origin=origin,
        )

    @property
    def status(self) -> Mapping[str, PoolStatus]:
        """Where each pool stands, by name; removed pools are in it until their slices are gone."""
        return MappingProxyType({name: worker.status for name, worker in self._workers.items()})

    def want(self, pools: Sequence[Pool]) -> None:
        """Replaces everything that is wanted, and returns at once. Pools left out are deleted."""
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
        """Keeps the pools published until it is cancelled. Run it once, as one task."""
        if self._running:
            raise UsageError("the publisher is running already")
        async with self._slices:
            self._running = True
            try:
                if self._wanted is not None:
                    self._assign()
                await self._slices.synced()
                self._adopt()
                self._moved.set()
                await self._slices.look_for_shared()
                await self._slices.synced()
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

    async def settled(self, timeout: float | None = None) -> Mapping[str, PoolStatus]:
        """Waits until no pool is pending any more, at most `timeout` seconds; the status then."""
        try:
            async with asyncio.timeout(timeout):
                while self._wanted is None or not self._running or self._busy():
                    self._moved.clear()
                    await self._moved.wait()
        except TimeoutError:
            pass
        return self.status

    async def withdraw(self) -> None:
        """Deletes all slices of this publisher, for an uninstall; works with and without `run()`.

        Raises:
            ApiError: one could not be deleted; call it again.
        """
        self.want(())
        while any(worker.working for worker in self._workers.values()):  # on what was wanted before
            self._moved.clear()
            await self._moved.wait()
        selectors = {self._slices.selector(self._driver, node) for node in (self._node, None)}
        for selector in sorted(selectors):
            listing = await self._client.list(SLICES, into=ResourceSlice, fields=selector)
            for item in filter(self._slices.owns, listing.items):
                await self._client.delete(SLICES, item.metadata.name, uid=item.metadata.uid)

    def _busy(self) -> bool:
        return not self._slices.is_synced or any(worker.busy for worker in self._workers.values())

    def _assign(self) -> None:
        """Gives each pool that is wanted, published or in the works to its worker."""
        wanted = self._wanted or {}
        for name in {*wanted, *self._workers}:
            pool, objection = wanted.get(name, (None, ""))
            self._worker(name).want(pool, objection)
        self._adopt()

    def _adopt(self) -> None:
        """Slices of pools that nobody wants any more, from an earlier life, get a worker that deletes them."""
        if self._wanted is None:
            return
        for name in self._slices.pools() - set(self._workers):
            self._worker(name).want(None)

    def _worker(self, name: str) -> PoolWorker:
        worker = self._workers.get(name)
        if worker is None:
            worker = self._workers[name] = PoolWorker(name, self._desk)
            self._tasks[name] = asyncio.create_task(self._work(name, worker), name=f"pool {name}")
        return worker

    async def _work(self, name: str, worker: PoolWorker) -> None:
        try:
            await worker.run()
        finally:
            if self._workers.get(name) is worker:
                del self._workers[name], self._tasks[name]
            self._moved.set()

    def _changed(self, pool: str, kind: ChangeKind) -> None:
        """Someone else changed a slice."""
        if kind is ChangeKind.DELETED:
            self._owner.doubt()
        if self._wanted is None or not self._running:
            return
        if pool in self._workers:
            self._workers[pool].touched()
        else:
            self._worker(pool).want(None)

    def _watched_again(self) -> None:
        """The server that answers now may have been started with other gates."""
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
        except Exception:  # the listener's defect, not the pool's
            _log.exception("pool %s: the status listener failed", status.pool)
