"""The pool controller: says of pools that no claim can use why, to those who look after the cluster.

A ResourceSlice has no status, so what is wrong with a pool (KEP-4815, Validation) is told in events of its
first slice and in a gauge; `dradriver get pools` finds the same out by itself. Both judge the newest generation
as a whole, which is what the driver is publishing; a node may still see an older one. A pool that is being
written is broken for a moment: only what has lasted is told. A process that dies forgets whom it told, and
tells once more.
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
"""The name of its work queue and of its events."""

_LASTING_SECONDS: Final = 10.0
"""How long a pool has to be broken before it is told: drivers need a moment to write many slices."""
_SOON: Final = 0.1
"""The part of that after which a changed pool is looked at first: one look for many slices."""
_STATES: Final = {"incomplete": "PoolIncomplete", "invalid": "PoolInvalid"}
"""The first words of an inventory's problems, and the reasons of the events."""
_USABLE: Final = "PoolUsable"


class _Key(NamedTuple):
    driver: str
    pool: str

    def __str__(self) -> str:
        return f"pool {self.driver}/{self.pool}"


class PoolController(Looping[_Key]):
    """Tells of broken pools: `async with PoolController(caches, pools, executor, ...)`.

    Built before the caches are entered, as `ClaimController`.
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
        """What has to be said of a pool now, if anything."""
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
        """Nothing is written but events, and these are never refused."""

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
