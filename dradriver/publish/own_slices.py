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
    """Two caches: slices of the publisher's node, and slices of the driver that belong to no single node.

    In the second cache, a node's publisher owns the slices whose owner is its Node. A publisher of the control
    plane owns the slices without a Node as owner. This cache is opened when it is first needed: few nodes
    publish shared pools, and an additional watch on each of thousands of nodes costs the server.
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
        self._shared_open = False
        self._quiet = False
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
        """Return the field selector for slices of a driver on one node, or on no particular node."""
        return f"spec.driver={driver},spec.nodeName={node or ''}"

    async def open_shared(self) -> None:
        """Open the cache of shared slices, once."""
        async with self._lock:
            if not self._shared_open:
                await self._open(self.selector(self._driver, None))
                self._shared_open = True

    async def look_for_shared(self) -> None:
        """Open the cache of shared slices if an earlier process left any; returns once this is known."""
        backoff = Backoff(1.0, 60.0)
        while not self._shared_open:
            try:
                fields = self.selector(self._driver, None)
                found = await self._client.list(SLICES, into=ResourceSlice, fields=fields)
            except DraError as error:
                _log.warning("shared slices of %s can't be listed, trying again: %s", self._driver, error)
                await asyncio.sleep(backoff.next())
                continue
            if any(map(self.owns, found.items)):
                await self.open_shared()
            return

    @property
    def problem(self) -> DraError | None:
        """Return the problem that keeps a cache from being current, if there is one."""
        return next((cache.problem for cache in self._caches if cache.problem is not None), None)

    @property
    def cuts(self) -> int:
        """Return a number that grows when a watch ends or is reopened: the server may then be a new one."""
        return sum(cache.cuts for cache in self._caches)

    @property
    def is_synced(self) -> bool:
        """Return whether every open cache has its first list."""
        return bool(self._caches) and all(cache.is_synced for cache in self._caches)

    async def synced(self) -> None:
        """Wait until every open cache has its first list."""
        for cache in tuple(self._caches):
            await cache.synced()

    def of(self, pool: str) -> list[ResourceSlice]:
        """Return the slices of one pool."""
        return list(self._pools.get(pool, {}).values())

    async def list_raw(self, pool: str) -> list[dict[str, Any]]:
        """List the slices of one pool on the server, with all metadata.

        Raises:
            DraError: they cannot be listed.
        """
        found: list[dict[str, Any]] = []
        for node in sorted({item.spec.node_name for item in self.of(pool)}, key=str):
            fields = self.selector(self._driver, node)
            found += (await self._client.list(SLICES, into=dict, fields=fields)).items
        return [item for item in found if item["metadata"]["name"] in self._pools.get(pool, {})]

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
        """Store the result of one of our writes in the cache, without a change notification."""
        with self._without_notice():
            self._cache_of(item).apply_written(item)

    def apply_deleted(self, item: ResourceSlice) -> None:
        """Remove a slice that one of our writes deleted from the cache, without a change notification."""
        with self._without_notice():
            self._cache_of(item).apply_deleted(item)

    @contextmanager
    def _without_notice(self) -> Iterator[None]:
        self._quiet = True
        try:
            yield
        finally:
            self._quiet = False

    async def refresh(self, item: ResourceSlice) -> None:
        """Read a slice again after a write failed because the slice had changed."""
        try:
            self.apply_written(await self._client.get(SLICES, item.metadata.name, into=ResourceSlice))
        except NotFound:
            self.apply_deleted(item)

    def _cache_of(self, item: ResourceSlice) -> Cache[ResourceSlice]:
        return self._caches[0] if self._node is None or item.spec.node_name else self._caches[-1]

    async def _open(self, fields: str) -> None:
        cache = Cache(self._client, SLICES, ResourceSlice, fields=fields, on_reopen=self._on_reopen)
        cache.subscribe(self._changed)
        self._caches.append(await self._stack.enter_async_context(cache))

    def _changed(self, kind: ChangeKind, old: ResourceSlice | None, new: ResourceSlice | None) -> None:
        touched: set[str] = set()
        if old is not None and self.owns(old):
            pool = old.spec.pool.name
            self._pools[pool].pop(old.metadata.name)
            if not self._pools[pool]:
                del self._pools[pool]
            touched.add(pool)
        if new is not None and self.owns(new):
            self._pools.setdefault(new.spec.pool.name, {})[new.metadata.name] = new
            touched.add(new.spec.pool.name)
        if not self._quiet:
            for pool in touched:
                self._on_change(pool, kind)
