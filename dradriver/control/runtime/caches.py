"""The cached objects of the cluster, and indexes of them."""

import asyncio
from collections.abc import Callable, Collection, Iterable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from dradriver.control.runtime.optional_cache import OptionalCache
from dradriver.kube import (
    CLAIMS,
    CLASSES,
    CONTROLLER_ALLOCATIONS,
    DISRUPTION_BUDGETS,
    NODES,
    PODS,
    SCHEDULING_CONTEXTS,
    SLICES,
    TAINT_RULES,
    TEMPLATES,
    Cache,
    ChangeKind,
    Client,
)
from dradriver.model.classic.allocation_records import ControllerAllocation
from dradriver.model.classic.names import GROUP
from dradriver.model.classic.scheduling import PodSchedulingContext
from dradriver.model.core.disruption_budget import PodDisruptionBudget
from dradriver.model.core.workload import Node, Pod
from dradriver.model.resource.claim import ResourceClaim, ResourceClaimTemplate
from dradriver.model.resource.deviceclass import DeviceClass
from dradriver.model.resource.slices import ResourceSlice
from dradriver.model.resource.taint_rule import DeviceTaintRule

__all__ = ["Caches", "Index"]

T = TypeVar("T", Pod, ResourceClaim, PodSchedulingContext)


class Index(Generic[T]):
    """The objects of a cache, by indexed values, like client-go's `Indexer`."""

    def __init__(self, cache: Cache[T], index_values: Callable[[T], Iterable[str]]) -> None:
        """Create an index that follows the cache from now on.

        Args:
            cache: an empty cache, or one that has not been entered yet.
            index_values: returns the values by which an object is found (client-go's `IndexFunc`).
        """
        self._index_values: Callable[[T], Iterable[str]] = index_values
        # Most values have one object. A dict for each of them would be a large part of the memory of an index.
        self._objects: dict[str, tuple[T] | dict[str, T]] = {}
        cache.subscribe(self._update)

    def find(self, value: str) -> Collection[T]:
        """Return the objects that have the indexed value."""
        found = self._objects.get(value, ())
        return found.values() if isinstance(found, dict) else found

    def counts(self) -> dict[str, int]:
        """Return the number of objects for each indexed value."""
        return {value: len(objects) for value, objects in self._objects.items()}

    def _update(self, _kind: ChangeKind, old: T | None, new: T | None) -> None:
        if old is not None:
            for value in self._index_values(old):
                self._remove(value, old)
        if new is not None:
            for value in self._index_values(new):
                self._put(value, new)

    def _put(self, value: str, item: T) -> None:
        found = self._objects.get(value)
        if found is None or (not isinstance(found, dict) and found[0].ref == item.ref):
            self._objects[value] = (item,)
        elif isinstance(found, dict):
            found[item.ref] = item
        else:
            self._objects[value] = {found[0].ref: found[0], item.ref: item}

    def _remove(self, value: str, item: T) -> None:
        found = self._objects.get(value)
        if isinstance(found, dict):
            found.pop(item.ref, None)
        if found is not None and (not found or (not isinstance(found, dict) and found[0].ref == item.ref)):
            del self._objects[value]


class Caches:
    """One cache per kind, shared by all controllers: `async with Caches(client) as caches`.

    `__aenter__` returns when all caches are filled, so no decision is based on incomplete data.
    """

    def __init__(
        self, client: Client, *, taint_rules: bool = True, budgets: bool = True, classic: bool = False
    ) -> None:
        """Create caches that are not filled yet.

        Args:
            client: the API server. It needs rights to list and watch the cached kinds.
            taint_rules: whether to cache DeviceTaintRules. If False, the cache of rules stays empty.
            budgets: whether to cache PodDisruptionBudgets. If False, the cache of budgets stays empty.
            classic: whether to cache the objects of classic DRA (KEP-3063), if the API server serves them. If
                it does not, the caches stay empty until a class of a controller exists and the API server
                serves them.
        """
        self.pods = Cache(client, PODS, Pod)
        self.claims = Cache(client, CLAIMS, ResourceClaim)
        self.templates = Cache(client, TEMPLATES, ResourceClaimTemplate)
        self.classes = Cache(client, CLASSES, DeviceClass)
        self.slices = Cache(client, SLICES, ResourceSlice)
        self.nodes = Cache(client, NODES, Node)
        self.rules = Cache(client, TAINT_RULES, DeviceTaintRule)
        self.budgets = Cache(client, DISRUPTION_BUDGETS, PodDisruptionBudget)
        self._optional: list[OptionalCache] = []
        self.contexts = Cache(client, SCHEDULING_CONTEXTS, PodSchedulingContext)
        self.records = Cache(client, CONTROLLER_ALLOCATIONS, ControllerAllocation)
        self._is_classic_wanted = asyncio.Event()
        if classic:
            wanted = self._is_classic_wanted
            self._optional = [
                OptionalCache(client, SCHEDULING_CONTEXTS, self.contexts, wanted),
                OptionalCache(client, CONTROLLER_ALLOCATIONS, self.records, wanted),
            ]
            self.classes.subscribe(self._class_changed)
        self._has_rules, self._has_budgets = taint_rules, budgets
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            entered: list[Cache[Any]] = [
                *(self.pods, self.claims, self.templates, self.classes, self.slices, self.nodes),
                *([self.rules] if self._has_rules else []),
                *([self.budgets] if self._has_budgets else []),
            ]
            for cache in entered:
                await stack.enter_async_context(cache)
            await asyncio.gather(*(cache.wait_synced() for cache in entered))
            for optional in self._optional:
                await stack.enter_async_context(optional)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    @property
    def has_contexts(self) -> bool:
        """Return whether the API server serves PodSchedulingContexts, as far as it is known."""
        return bool(self._optional) and self._optional[0].is_served

    @property
    def uses_classic(self) -> bool:
        """Return whether a class of a controller has existed, or a controller's record exists."""
        return self._is_classic_wanted.is_set() or bool(self.records.items)

    def subscribe_served(self, callback: Callable[[], None]) -> None:
        """Call a function when the API server begins to serve an object of classic DRA."""
        for optional in self._optional:
            optional.subscribe(callback)

    async def check_served(self) -> None:
        """Ask the API server whether it still serves the objects of classic DRA.

        Raises:
            ApiError: the API server did not answer.
        """
        for optional in self._optional:
            await optional.check()

    def _class_changed(self, _kind: ChangeKind, _old: DeviceClass | None, new: DeviceClass | None) -> None:
        configs = new.spec.config if new is not None else ()
        if any(each.opaque is not None and each.opaque.driver == GROUP for each in configs):
            self._is_classic_wanted.set()
