"""The double allocation controller: revert the allocation of a claim whose device another claim keeps.

At the start, the controller checks all allocated claims, and later each claim whose allocation has changed. It
writes a Warning Event on the claim that must give way, and then reverts the allocation (`Release`). If a pod of
this claim may be running, the allocation is kept, and only the Event is written. A claim that a controller has
allocated (KEP-3063) is not released: the controller is asked to deallocate it.

The binding cycle does not bind a pod while `AllocationIndex.find_conflict` has a reason against one of its
claims. The controller does not revert an allocation while a pod of the claim is being bound, and reads the
claim's pods from the API server first. So no pod is bound whose allocation is gone.

The controller only remembers which Events it has written. If the process dies, the next process finds the
conflict again at its start:

| last write before the process dies     | what the next process does                                      |
|----------------------------------------|-----------------------------------------------------------------|
| the second allocation, by either side  | writes the Event, and reverts the newer allocation              |
| the Event                              | writes the Event again, which increments its count, and reverts |
| the release of the claim               | nothing is left; the scheduler allocates the claim again        |
"""

import asyncio
from collections.abc import Callable
from typing import Final

from dradriver.control.classic.values import is_controlled, must_be_deallocated
from dradriver.control.conflicts.allocation_index import AllocationIndex
from dradriver.control.conflicts.double_allocations import DoubleAllocation
from dradriver.control.runtime.actions import (
    Action,
    EmitEvent,
    LookUpPod,
    NextAction,
    Release,
    RequestDeallocation,
    Step,
)
from dradriver.control.runtime.bounded_set import BoundedSet
from dradriver.control.runtime.caches import Caches
from dradriver.control.runtime.executor import Executor
from dradriver.control.runtime.loop import Loop, LoopController
from dradriver.control.runtime.metrics import ControlMetrics
from dradriver.control.runtime.work_queue import WorkQueue
from dradriver.kube import CLAIMS, ChangeKind
from dradriver.model.core.meta import ObjectReference
from dradriver.model.resource.claim import ResourceClaim

__all__ = ["NAME", "DoubleAllocationController"]

NAME: Final = "dradriver-double-allocation-controller"
"""Name of the controller's work queue, and component of its events if it has an own recorder."""

_REASON: Final = "DeviceAllocatedTwice"


class DoubleAllocationController(LoopController[str]):
    """Reverts double allocations: `async with DoubleAllocationController(...)`. A key is a claim.

    Create the controller before the caches are entered, like `ClaimController`.
    """

    def __init__(
        self,
        caches: Caches,
        allocations: AllocationIndex,
        executor: Executor,
        is_binding: Callable[[str], bool],
        metrics: ControlMetrics,
    ) -> None:
        """Create a controller that does not run yet.

        Args:
            caches: the cached objects of the cluster.
            allocations: finds the conflicts.
            executor: carries out the writes.
            is_binding: returns whether a pod (`namespace/name`) is being bound now, or may have been bound by a
                write without an answer.
            metrics: receives the metrics of the work queue.
        """
        self._caches = caches
        self._allocations = allocations
        self._execute = executor.execute
        self._is_binding = is_binding
        self._reported = BoundedSet()
        # client-go's rate limiter for controllers starts at 5 ms.
        queue = WorkQueue[str](0.005, 30.0)
        queue.register_metrics(metrics.queues, NAME)
        self._loop = Loop(NAME, self, self._carry_out, workers=1, queue=queue)
        caches.claims.subscribe(self._claim_changed)

    async def decide(self, key: str) -> Step:
        """Return the next step for a claim: report the conflict, then revert the allocation."""
        await asyncio.sleep(0)  # at the start there is a key for each allocated claim
        claim = self._caches.claims.items.get(key)
        if claim is None or claim.allocation is None:
            return Step(NextAction.DONE)
        conflict = self._allocations.find_conflict(claim)
        if conflict is None:
            for other in self._allocations.find_losers(claim):
                self._loop.queue.add(other.ref)
            return Step(NextAction.DONE)
        report = self._report(claim, conflict)
        if report is not None:
            return Step(NextAction.CONTINUE, report)
        record = self._caches.records.items.get(f"{claim.metadata.namespace}/{claim.metadata.uid}")
        if conflict.is_bound or (is_controlled(claim) and must_be_deallocated(claim, record)):
            return Step(NextAction.DONE)
        if self._is_being_bound(claim):
            return Step(NextAction.RETRY)
        if is_controlled(claim):
            return Step(NextAction.CONTINUE, RequestDeallocation(claim, record, message=str(conflict)))
        return Step(NextAction.CONTINUE, Release(claim, deallocate=True))

    def _report(self, claim: ResourceClaim, conflict: DoubleAllocation) -> EmitEvent | None:
        """Return the event about a conflict; None if it was returned before."""
        outcome = (
            "a pod of this claim is bound, so the allocation is kept, and the driver refuses the second prepare"
            if conflict.is_bound
            else "the allocation of this claim is reverted"
        )
        message = f"{conflict}; {outcome}"
        timestamp = claim.allocation.allocation_timestamp if claim.allocation is not None else None
        identity = f"{claim.metadata.uid} {timestamp} {message}"
        if identity in self._reported:
            return None
        self._reported.add(identity)
        meta = claim.metadata
        regarding = ObjectReference(
            api_version=CLAIMS.api_version,
            kind=CLAIMS.kind,
            namespace=meta.namespace,
            name=meta.name,
            uid=meta.uid,
        )
        return EmitEvent(regarding, "Warning", _REASON, message)

    def _is_being_bound(self, claim: ResourceClaim) -> bool:
        namespace = claim.metadata.namespace
        return any(self._is_binding(f"{namespace}/{user.name}") for user in claim.status.reserved_for)

    async def _carry_out(self, action: Action) -> bool:
        if not isinstance(action, Release | RequestDeallocation):
            return await self._execute(action)
        claim = action.claim
        for user in claim.status.reserved_for:
            await self._execute(LookUpPod(claim.metadata.namespace, user.name, user.uid))
        conflict = self._allocations.find_conflict(claim)
        if conflict is None or conflict.is_bound or self._is_being_bound(claim):
            return False
        with self._allocations.reverting(claim, conflict):
            return await self._execute(action)

    def _claim_changed(self, _kind: ChangeKind, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        if new is None or new.allocation is None:
            return
        is_same = old is not None and old.metadata.uid == new.metadata.uid
        if old is None or not is_same or old.allocation != new.allocation:
            self._loop.queue.add(new.ref)
