"""Keeps an overview of a running cluster current, and reports what changed."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Final, Self
from weakref import WeakSet

from dradriver.aio.tasks import end
from dradriver.errors import DraError
from dradriver.kube import (
    CLAIMS,
    NODES,
    PODS,
    SLICES,
    TAINT_RULES,
    Cache,
    ChangeKind,
    Client,
)
from dradriver.model.core.workload import Node, Pod
from dradriver.model.resource.claim import ResourceClaim
from dradriver.model.resource.slice_reader import SliceReader
from dradriver.model.resource.taint_rule import DeviceTaintRule
from dradriver.overview import OverviewTracker, OverviewUpdate

__all__ = ["LiveOverview"]

_SECONDS_BETWEEN_UPDATES: Final = 0.1
_SECONDS_BETWEEN_CHECKS: Final = 1.0
"""Time after which `problem` and `missing` are compared, if nothing else changes."""
_POOLS_PER_STEP: Final = 20
"""Pools that are computed before other tasks run: some ten milliseconds."""


class LiveOverview:
    """An overview that follows a cluster: `async with LiveOverview(client) as live`.

    `__aenter__` returns when the objects of the cluster are read and computed. The user needs the permission to
    list and watch ResourceSlices and ResourceClaims. Without the permission for other objects, the overview
    lacks what they would show, and `missing` names them.

    Attributes:
        tracker: the tracker. Only this object applies changes to it.
        claims, slices, pods, nodes, rules: the cached objects, for readers that explain more than the overview.
    """

    def __init__(self, client: Client) -> None:
        """Create an overview that follows nothing yet.

        Args:
            client: the API server.
        """
        self._client = client
        self.tracker = OverviewTracker()
        # Equal parts of the slices of a large cluster are stored only once.
        self.slices = Cache(client, SLICES, SliceReader().read)
        self.claims = Cache(client, CLAIMS, ResourceClaim)
        self.pods = Cache(client, PODS, Pod)
        self.nodes = Cache(client, NODES, Node)
        self.rules = Cache(client, TAINT_RULES, DeviceTaintRule)
        self._required: dict[str, Cache[Any]] = {"resourceslices": self.slices, "resourceclaims": self.claims}
        self._optional: dict[str, Cache[Any]] = {
            "pods": self.pods,
            "nodes": self.nodes,
            "devicetaintrules": self.rules,
        }
        self._changed = asyncio.Event()
        # A subscriber lives as long as its generator, even if nobody iterates over the generator.
        self._subscribers = WeakSet[_Subscriber]()
        self._stack = AsyncExitStack()
        self._task: asyncio.Task[None] | None = None
        self._follow(self.rules, self.tracker.apply_rule)
        self._follow(self.nodes, self.tracker.apply_node)
        self._follow(self.slices, self.tracker.apply_slice)
        self._follow(self.claims, self.tracker.apply_claim)
        self._follow(self.pods, self.tracker.apply_pod)

    async def __aenter__(self) -> Self:
        """Read the cluster.

        Raises:
            DraError: the API server does not answer, or ResourceSlices or ResourceClaims cannot be listed.
        """
        async with AsyncExitStack() as stack:
            if not await self._client.serves(TAINT_RULES):
                del self._optional["devicetaintrules"]
            caches = [*self._required.values(), *self._optional.values()]
            for cache in caches:
                await stack.enter_async_context(cache)
            await asyncio.gather(*(cache.wait_answered() for cache in caches))
            for cache in self._required.values():
                if cache.problem is not None and not cache.is_synced:
                    raise cache.problem
            await self._update()
            self._task = asyncio.create_task(self._run(), name="live overview")
            self._task.add_done_callback(self._close_subscribers)
            stack.push_async_callback(end, [self._task])
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    @property
    def problem(self) -> DraError | None:
        """Return why the overview is not current; None if it is current."""
        caches = [*self._required.values(), *(cache for cache in self._optional.values() if cache.is_synced)]
        return next((cache.problem for cache in caches if cache.problem is not None), None)

    @property
    def missing(self) -> Mapping[str, str]:
        """Return the kinds of objects that the overview lacks, with the reason, by plural name.

        If the API server does not know DeviceTaintRules, they are not missing.
        """
        return {
            name: str(cache.problem)
            for name, cache in self._optional.items()
            if not cache.is_synced and cache.problem is not None
        }

    def updates(self) -> AsyncGenerator[OverviewUpdate, None]:
        """Yield what has changed in `tracker.overview` since this call, at most ten times a second.

        Changes that happen while the caller handles an update are yielded together. An update without changes
        means that `problem` or `missing` has changed, or that old entries of `Overview.changes` are gone. The
        generator ends when the `async with` block ends.
        """
        subscriber = _Subscriber()
        self._subscribers.add(subscriber)
        if self._task is None or self._task.done():
            subscriber.close()
        return self._take_all(subscriber)

    async def _take_all(self, subscriber: "_Subscriber") -> AsyncGenerator[OverviewUpdate, None]:
        while (update := await subscriber.take()) is not None:
            yield update
        if self._task is not None and not self._task.cancelled():
            self._task.result()

    def _follow(self, cache: Cache[Any], apply: Callable[[Any, Any], None]) -> None:
        def note(_kind: ChangeKind, old: object, new: object) -> None:
            apply(old, new)
            self._changed.set()

        cache.subscribe(note)

    def _close_subscribers(self, _task: asyncio.Task[None]) -> None:
        for subscriber in self._subscribers:
            subscriber.close()

    async def _run(self) -> None:
        state = self._state()
        while True:
            try:
                async with asyncio.timeout(_SECONDS_BETWEEN_CHECKS):
                    await self._changed.wait()
            except TimeoutError:
                pass
            self._changed.clear()
            update = await self._update()
            before, state = state, self._state()
            if update or before != state:
                for subscriber in self._subscribers:
                    subscriber.put(update)
                await asyncio.sleep(_SECONDS_BETWEEN_UPDATES)

    async def _update(self) -> OverviewUpdate:
        """Compute all changes in steps, so that other tasks can run between them."""
        update = self.tracker.update(datetime.now(UTC), _POOLS_PER_STEP)
        while not update.is_complete:
            await asyncio.sleep(0)
            update = update.then(self.tracker.update(datetime.now(UTC), _POOLS_PER_STEP))
        return update

    def _state(self) -> tuple[str, Mapping[str, str], int]:
        return str(self.problem), self.missing, len(self.tracker.overview.changes)


class _Subscriber:
    """The changes that one caller of `updates` has not received yet."""

    def __init__(self) -> None:
        self._update: OverviewUpdate | None = None
        self._is_closed = False
        self._has_update = asyncio.Event()

    def put(self, update: OverviewUpdate) -> None:
        self._update = update if self._update is None else self._update.then(update)
        self._has_update.set()

    def close(self) -> None:
        self._is_closed = True
        self._has_update.set()

    async def take(self) -> OverviewUpdate | None:
        """Return the changes since the last call; None if no more changes follow."""
        await self._has_update.wait()
        if self._is_closed:
            return None
        self._has_update.clear()
        update, self._update = self._update, None
        return update
