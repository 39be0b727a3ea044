"""The slices on the API server that belong to one publisher."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from types import TracebackType
from typing import Any, Self

from dradriver.errors import DraError
from dradriver.kube import SLICES, Cache, ChangeKind, Client, NotFound
from dradriver.kube.backoff import Backoff
from dradriver.model.resource.slices import ResourceSlice

__all__ = ["OwnSlices"]

_log = logging.getLogger(__name__)


class OwnSlices:
    """Two caches: the slices of the publisher's node, and the driver's slices that belong to no single node.

    In the second cache, a publisher of a node owns the slices whose owner is its Node. A publisher of the
    control plane owns the slices whose owner is not a Node. The second cache is opened when it is first needed.
    Few nodes publish shared pools, and an additional watch on each of thousands of nodes would load the server.
    """

    def __init__(
        self,
        client: Client,
        driver: str,
        node: str | None,
        on_change: Callable[[str, ChangeKind], None],
        on_reopen: Callable[[], None],
    ) -> None:
        self._client = client
        self._driver = driver
        self._node = node
        self._on_change = on_change
        self._on_reopen = on_reopen
        self._stack = AsyncExitStack()
        self._caches: list[Cache[ResourceSlice]] = []
        self._pools: dict[str, dict[str, ResourceSlice]] = {}
        self._is_shared_open = False
        self._is_muted = False
        self._lock = asyncio.Lock()

    async def __aenter__(self) -> Self:
        if self._node is None:
            await self.open_shared()
        else:
            await self._open(self.selector(self._driver, self._node))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    @staticmethod
    def selector(driver: str, node: str | None) -> str:
        """Return the field selector for a driver's slices of one node, or of no single node."""
        return f"spec.driver={driver},spec.nodeName={node or ''}"

    async def open_shared(self) -> None:
        """Open the cache of shared slices if it is not open yet."""
        async with self._lock:
            if not self._is_shared_open:
                await self._open(self.selector(self._driver, None))
                self._is_shared_open = True

    async def open_shared_if_used(self) -> None:
        """Open the cache of shared slices if an earlier process left such slices. Return when this is known."""
        backoff = Backoff(1.0, 60.0)
        while not self._is_shared_open:
            try:
                fields = self.selector(self._driver, None)
                listed = await self._client.list(SLICES, into=ResourceSlice, fields=fields)
            except DraError as error:
                _log.warning("shared slices of %s cannot be listed, retrying: %s", self._driver, error)
                await asyncio.sleep(backoff.next())
                continue
            if any(map(self.owns, listed.items)):
                await self.open_shared()
            return

    @property
    def problem(self) -> DraError | None:
        """Return the reason why a cache is not current; None if all caches are current."""
        return next((cache.problem for cache in self._caches if cache.problem is not None), None)

    @property
    def interruptions(self) -> int:
        """Return a number that grows when a watch ends or is reopened. The server may then be another one."""
        return sum(cache.interruptions for cache in self._caches)

    @property
    def is_synced(self) -> bool:
        """Return whether every open cache has read its first list."""
        return bool(self._caches) and all(cache.is_synced for cache in self._caches)

    async def wait_synced(self) -> None:
        """Wait until every open cache has read its first list."""
        for cache in tuple(self._caches):
            await cache.wait_synced()

    def of(self, pool: str) -> list[ResourceSlice]:
        """Return the slices of one pool."""
        return list(self._pools.get(pool, {}).values())

    async def list_raw(self, pool: str) -> list[dict[str, Any]]:
        """List the slices of one pool on the server, with all metadata.

        Raises:
            DraError: the slices cannot be listed.
        """
        listed: list[dict[str, Any]] = []
        for node in sorted({item.spec.node_name for item in self.of(pool)}, key=str):
            fields = self.selector(self._driver, node)
            listed += (await self._client.list(SLICES, into=dict, fields=fields)).items
        return [item for item in listed if item["metadata"]["name"] in self._pools.get(pool, {})]

    def pools(self) -> set[str]:
        """Return the names of all pools that have slices."""
        return set(self._pools)

    def owns(self, item: ResourceSlice) -> bool:
        """Return whether this publisher may change the slice."""
        if item.spec.driver != self._driver:
            return False
        if item.spec.node_name is not None:
            return item.spec.node_name == self._node
        owner = item.metadata.controller
        owner_node = owner.name if owner is not None and owner.kind == "Node" else None
        return owner_node == self._node

    def apply_written(self, item: ResourceSlice) -> None:
        """Store the result of a write of this publisher in the cache, without a notification of a change."""
        with self._mute_notifications():
            self._cache_of(item).apply_written(item)

    def apply_deleted(self, item: ResourceSlice) -> None:
        """Remove from the cache a slice that this publisher deleted, without a notification of a change."""
        with self._mute_notifications():
            self._cache_of(item).apply_deleted(item)

    @contextmanager
    def _mute_notifications(self) -> Iterator[None]:
        self._is_muted = True
        try:
            yield
        finally:
            self._is_muted = False

    async def refresh(self, item: ResourceSlice) -> None:
        """Read a slice again, because a write failed after another writer changed it."""
        try:
            self.apply_written(await self._client.get(SLICES, item.metadata.name, into=ResourceSlice))
        except NotFound:
            self.apply_deleted(item)

    def _cache_of(self, item: ResourceSlice) -> Cache[ResourceSlice]:
        return self._caches[0] if self._node is None or item.spec.node_name else self._caches[-1]

    async def _open(self, fields: str) -> None:
        cache = Cache(self._client, SLICES, ResourceSlice, fields=fields, on_reopen=self._on_reopen)
        cache.subscribe(self._handle_change)
        self._caches.append(await self._stack.enter_async_context(cache))

    def _handle_change(self, kind: ChangeKind, old: ResourceSlice | None, new: ResourceSlice | None) -> None:
        changed_pools: set[str] = set()
        if old is not None and self.owns(old):
            pool = old.spec.pool.name
            self._pools[pool].pop(old.metadata.name)
            if not self._pools[pool]:
                del self._pools[pool]
            changed_pools.add(pool)
        if new is not None and self.owns(new):
            self._pools.setdefault(new.spec.pool.name, {})[new.metadata.name] = new
            changed_pools.add(new.spec.pool.name)
        if not self._is_muted:
            for pool in changed_pools:
                self._on_change(pool, kind)
