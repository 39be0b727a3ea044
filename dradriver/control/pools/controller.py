"""The pool controller: reports pools that no claim can use, and why, to the cluster's operators.

A ResourceSlice has no status. So the faults of a pool (KEP-4815, Validation) appear as events of its first
slice and in a gauge. `dradriver get pools` computes the same by itself. Both judge the newest generation as a
whole, which the driver is publishing; a node may still see an older one. A pool that is being written is broken
for a moment, so only lasting faults are reported. If the process dies, it forgets its reports, and the next one
reports once more.
"""

import time
from collections import Counter
from collections.abc import Mapping
from types import TracebackType
from typing import Final, NamedTuple, Self

from dradriver.allocator import ORDERED, Features, Order
from dradriver.allocator.supply.pools import PoolView
from dradriver.control.pools.pool_index import PoolIndex
from dradriver.control.runtime.actions import EmitEvent, NextAction, Step
from dradriver.control.runtime.caches import Caches
from dradriver.control.runtime.executor import Executor
from dradriver.control.runtime.loop import Loop, Looping
from dradriver.control.runtime.metrics import ControlMetrics
from dradriver.control.runtime.work_queue import WorkQueue
from dradriver.errors import DraError
from dradriver.kube import SLICES, ChangeKind
from dradriver.model.core.meta import ObjectReference
from dradriver.model.resource.slices import ResourceSlice

__all__ = ["NAME", "PoolController"]

NAME: Final = "dradriver-pool-controller"
"""Name of its work queue and component of its events."""

_LASTING_SECONDS: Final = 10.0
"""A pool is reported after it was broken this long: drivers need a moment to write many slices."""
_SOON: Final = 0.1
"""Fraction of that time after which a changed pool is first checked, so that one check covers many slices."""
_STATES: Final = {"incomplete": "PoolIncomplete", "invalid": "PoolInvalid"}
"""The first words of an inventory's problems, and the reason of the event for each."""
_USABLE: Final = "PoolUsable"


class _Key(NamedTuple):
    driver: str
    pool: str

    def __str__(self) -> str:
        return f"pool {self.driver}/{self.pool}"


class PoolController(Looping[_Key]):
    """Reports broken pools: `async with PoolController(caches, pools, executor, ...)`.

    Create it before the caches are entered, like `ClaimController`.
    """

    def __init__(
        self,
        caches: Caches,
        pools: PoolIndex,
        executor: Executor,
        metrics: ControlMetrics,
        features: Features,
        order: Order = ORDERED,
        *,
        lasting: float = _LASTING_SECONDS,
    ) -> None:
        self._pools = pools
        self._features = features
        self._skips_devices = order.skips_devices
        self._lasting = lasting
        self._since: dict[_Key, float] = {}
        self._told: dict[_Key, str] = {}
        self._changed: set[_Key] = set()
        self._running = False
        self._queue = WorkQueue[_Key](0.1, 30.0)
        self._loop = Loop(NAME, self, executor.execute, workers=1, queue=self._queue)
        self._queue.count(metrics.queues, NAME)
        metrics.show_broken_pools(self._broken)
        caches.slices.subscribe(self._slice_changed)

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        self._running = True
        for key in self._changed:
            self._queue.add_after(key, self._lasting * _SOON)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._running = False
        await super().__aexit__(kind, error, trace)

    async def decide(self, key: _Key) -> Step:
        """Return the event to write about a pool now, if any."""
        await self._pools.take()
        pool = self._pools.inventory.pools.get((key.driver, key.pool))
        problem = None
        if pool is not None:
            problem = pool.problem_under(self._features, skips_devices=self._skips_devices)
        if pool is None or problem is None:
            self._since.pop(key, None)
            if self._told.pop(key, None) is None or pool is None:
                return Step(NextAction.DONE)
            return Step(NextAction.DONE, _say(pool, _USABLE, "claims can use it again"))
        now = time.monotonic()
        rest = self._since.setdefault(key, now) + self._lasting - now
        if rest > 0:
            self._queue.add_after(key, rest)
            return Step(NextAction.WAIT)
        if self._told.get(key) == problem:
            return Step(NextAction.DONE)
        self._told[key] = problem
        return Step(NextAction.DONE, _say(pool, _STATES[_state(problem)], problem))

    async def failed(self, key: _Key, error: DraError) -> None:
        """Do nothing: this controller writes only events, which never fail."""

    def _broken(self) -> Mapping[str, int]:
        counted = Counter(map(_state, self._told.values()))
        return {state: counted[state] for state in _STATES}

    def _slice_changed(self, _kind: ChangeKind, old: ResourceSlice | None, new: ResourceSlice | None) -> None:
        for source in (old, new):
            if source is not None:
                key = _Key(source.spec.driver, source.spec.pool.name)
                if self._running:
                    self._queue.add_after(key, self._lasting * _SOON)
                else:
                    self._changed.add(key)


def _state(problem: str) -> str:
    return problem.partition(":")[0]


def _say(pool: PoolView, reason: str, message: str) -> EmitEvent:
    first = pool.slices[0].metadata
    regarding = ObjectReference(
        api_version=SLICES.api_version, kind=SLICES.kind, name=first.name, uid=first.uid
    )
    text = f"pool {pool.name} of driver {pool.driver}: {message}"
    return EmitEvent(regarding, "Normal" if reason == _USABLE else "Warning", reason, text)
