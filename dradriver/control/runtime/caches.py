"""The cached objects of the cluster, and indexes over them."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Generic, Self, TypeVar

from dradriver.kube import (
    CLAIMS,
    CLASSES,
    NODES,
    PODS,
    SLICES,
    TAINT_RULES,
    TEMPLATES,
    Cache,
    ChangeKind,
    Client,
)
from dradriver.model.core.workload import Node, Pod
from dradriver.model.resource.claim import ResourceClaim, ResourceClaimTemplate
from dradriver.model.resource.deviceclass import DeviceClass
from dradriver.model.resource.slices import ResourceSlice
from dradriver.model.resource.taint_rule import DeviceTaintRule

__all__ = ["Caches", "Index", "key_of"]

T = TypeVar("T", Pod, ResourceClaim)


def key_of(item: Pod | ResourceClaim) -> str:
    """Return `namespace/name`."""
    return item.ref


class Index(Generic[T]):
    """The objects of a cache by their traits."""

    def __init__(self, cache: Cache[T], traits: Callable[[T], Iterable[str]]) -> None:
        """Create an index that follows the cache from now on.

        Args:
            cache: an empty cache, or one that has not been entered yet.
            traits: returns an object's traits.
        """
        self._traits: Callable[[T], Iterable[str]] = traits
        self._found: defaultdict[str, dict[str, T]] = defaultdict(dict)
        cache.subscribe(self._follow)

    def of(self, trait: str) -> Collection[T]:
        """Return the objects that have the trait."""
        return self._found[trait].values() if trait in self._found else ()

    def sizes(self) -> dict[str, int]:
        """Return the number of objects for each trait that occurs."""
        return {trait: len(found) for trait, found in self._found.items()}

    def _follow(self, _kind: ChangeKind, old: T | None, new: T | None) -> None:
        for trait in self._traits(old) if old is not None else ():
            self._found[trait].pop(key_of(old), None)  # type: ignore[arg-type]
            if not self._found[trait]:
                del self._found[trait]
        for trait in self._traits(new) if new is not None else ():
            self._found[trait][key_of(new)] = new  # type: ignore[arg-type, assignment]


class Caches:
    """One cache per kind, shared by all controllers: `async with Caches(client) as caches`.

    `__aenter__` returns when all caches are filled, so no decision reads half of the cluster.
    """

    def __init__(self, client: Client, *, taint_rules: bool = True) -> None:
        """Create caches that are not filled yet.

        Args:
            client: a session that may list and watch the cached kinds.
            taint_rules: whether to cache DeviceTaintRules; without it, there are none.
        """
        self.pods = Cache(client, PODS, Pod)
        self.claims = Cache(client, CLAIMS, ResourceClaim)
        self.templates = Cache(client, TEMPLATES, ResourceClaimTemplate)
        self.classes = Cache(client, CLASSES, DeviceClass)
        self.slices = Cache(client, SLICES, ResourceSlice)
        self.nodes = Cache(client, NODES, Node)
        self.rules = Cache(client, TAINT_RULES, DeviceTaintRule)
        self._taint_rules = taint_rules
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            for cache in self._all():
                await stack.enter_async_context(cache)
            if self._taint_rules:
                await stack.enter_async_context(self.rules)
                await self.rules.synced()
            await asyncio.gather(*(cache.synced() for cache in self._all()))
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    def _all(
        self,
    ) -> tuple[
        Cache[Pod],
        Cache[ResourceClaim],
        Cache[ResourceClaimTemplate],
        Cache[DeviceClass],
        Cache[ResourceSlice],
        Cache[Node],
    ]:
        return self.pods, self.claims, self.templates, self.classes, self.slices, self.nodes
