"""The pool controller: report pools that no claim can use, with the reasons, to the cluster's operators.

A ResourceSlice has no status. So the controller reports the problems of a pool (KEP-4815, Validation) as events
of the pool's first slice, and in a gauge. `dradriver get pools` computes the problems itself. Both check all
slices of the newest generation, which the driver may still be writing. While a driver writes a pool, the pool
is broken for a moment, so only lasting problems are reported. If the process dies, the next process reports the
problems again.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Final, NamedTuple, Self

from dradriver.allocator import ORDERED, Features, Order
from dradriver.allocator.supply.pools import PoolView, PublishedPool
from dradriver.control.pools.pool_index import PoolIndex
from dradriver.control.runtime.actions import EmitEvent, NextAction, Step
from dradriver.control.runtime.caches import Caches
from dradriver.control.runtime.executor import Executor
from dradriver.control.runtime.loop import Loop, LoopController
from dradriver.control.runtime.metrics import ControlMetrics
from dradriver.control.runtime.work_queue import WorkQueue
from dradriver.kube import SLICES, ChangeKind
from dradriver.model.core.meta import ObjectReference
from dradriver.model.resource.slices import ResourceSlice

__all__ = ["NAME", "PoolController"]

NAME: Final = "dradriver-pool-controller"
"""Name of the controller's work queue, and component of its events."""

_REPORT_AFTER_SECONDS: Final = 10.0
"""Time for which a pool must be broken before it is reported; drivers need time to write many slices."""
_CHECK_FRACTION: Final = 0.1
"""Fraction of `_REPORT_AFTER_SECONDS` before the first check of a changed pool, as slices change in bursts."""
_STATES: Final = {"incomplete": "PoolIncomplete", "invalid": "PoolInvalid"}
"""The first word of each problem that an inventory reports, with the reason of its event."""
_USABLE: Final = "PoolUsable"


class _Key(NamedTuple):
    driver: str
    pool: str

    def __str__(self) -> str:
        return f"pool {self.driver}/{self.pool}"


class PoolController(LoopController[_Key]):
    """Reports broken pools: `async with PoolController(caches, executor, ...)`.

    Create the controller before the caches are entered, like `ClaimController`.
    """

    def __init__(
        self,
        caches: Caches,
        executor: Executor,
        metrics: ControlMetrics,
        features: Features,
        order: Order = ORDERED,
        *,
        report_after: float = _REPORT_AFTER_SECONDS,
    ) -> None:
        self._pools = PoolIndex(caches)
        self._features = features
        self._skips_devices = order.skips_devices
        self._report_after = report_after
        self._since: dict[_Key, float] = {}
        self._reported: dict[_Key, str] = {}
        self._changed: set[_Key] = set()
        self._running = False
        self._queue = WorkQueue[_Key](0.1, 30.0)
        self._loop = Loop(NAME, self, executor.execute, workers=1, queue=self._queue)
        self._queue.register_metrics(metrics.queues, NAME)
        metrics.show_broken_pools(self._count_broken)
        caches.slices.subscribe(self._slice_changed)

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        self._running = True
        for key in self._changed:
            self._queue.add_after(key, self._report_after * _CHECK_FRACTION)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._running = False
        await super().__aexit__(kind, error, trace)

    async def decide(self, key: _Key) -> Step:
        """Return the step with the event to write about a pool now, if there is one."""
        slices = self._pools.slices_of((key.driver, key.pool))
        pool = await asyncio.to_thread(_newest_generation, slices) if slices else None
        problem = None
        if pool is not None:
            problem = pool.problem_under(self._features, skips_devices=self._skips_devices)
        if pool is None or problem is None:
            self._since.pop(key, None)
            if self._reported.pop(key, None) is None or pool is None:
                return Step(NextAction.DONE)
            return Step(NextAction.DONE, _event(pool, _USABLE, "usable by claims again"))
        now = time.monotonic()
        remaining = self._since.setdefault(key, now) + self._report_after - now
        if remaining > 0:
            self._queue.add_after(key, remaining)
            return Step(NextAction.WAIT)
        if self._reported.get(key) == problem:
            return Step(NextAction.DONE)
        self._reported[key] = problem
        return Step(NextAction.DONE, _event(pool, _STATES[_state(problem)], problem))

    def _count_broken(self) -> Mapping[str, int]:
        counts = Counter(map(_state, self._reported.values()))
        return {state: counts[state] for state in _STATES}

    def _slice_changed(self, _kind: ChangeKind, old: ResourceSlice | None, new: ResourceSlice | None) -> None:
        for source in (old, new):
            if source is not None:
                key = _Key(source.spec.driver, source.spec.pool.name)
                if self._running:
                    self._queue.add_after(key, self._report_after * _CHECK_FRACTION)
                else:
                    self._changed.add(key)


def _newest_generation(slices: Sequence[ResourceSlice]) -> PoolView:
    return PublishedPool(slices).newest


def _state(problem: str) -> str:
    state = problem.partition(":")[0]
    # Kubernetes ignores slices whose fields a disabled gate adds, so their pool is incomplete for a scheduler.
    return state if state in _STATES else "incomplete"


def _event(pool: PoolView, reason: str, message: str) -> EmitEvent:
    first = pool.slices[0].metadata
    regarding = ObjectReference(
        api_version=SLICES.api_version, kind=SLICES.kind, name=first.name, uid=first.uid
    )
    text = f"pool {pool.name} of driver {pool.driver}: {message}"
    return EmitEvent(regarding, "Normal" if reason == _USABLE else "Warning", reason, text)
