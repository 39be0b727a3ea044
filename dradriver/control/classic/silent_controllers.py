"""Report in an Event of a pod that it waits for a controller that has never answered on this cluster.

It runs in the process of the scheduler, and beside the extender. If the process dies, the record of the Events
is lost, and the next process may repeat an Event.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from dradriver.control.claims.pod_claims import ClaimUnusable, claims_of, pod_reference, used_names
from dradriver.control.classic.values import ClassicClasses
from dradriver.control.runtime.actions import EmitEvent, NextAction, Step
from dradriver.control.runtime.caches import Caches, Index
from dradriver.control.runtime.executor import Executor
from dradriver.control.runtime.loop import Loop, LoopController
from dradriver.control.runtime.metrics import ControlMetrics
from dradriver.control.runtime.work_queue import WorkQueue
from dradriver.errors import InvalidObjectError
from dradriver.kube import ChangeKind
from dradriver.model.classic.allocation_records import ControllerAllocation
from dradriver.model.classic.controlled_claims import ControlledClaim, find_allocating_controller
from dradriver.model.classic.scheduling import PodSchedulingContext
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import ResourceClaim
from dradriver.model.resource.deviceclass import DeviceClass

__all__ = ["SilentControllers"]

_NAME: Final = "dradriver-silent-controllers"
_WARN_AFTER: Final = timedelta(seconds=30)


@dataclass(slots=True)
class _Wait:
    uid: str
    since: datetime
    warned: bool = False


class SilentControllers(LoopController[str]):
    """Writes the Events: `async with SilentControllers(caches, executor, metrics, timeout)`. A key is a pod.

    A controller has answered if a PodSchedulingContext has an answer of it, or if it has begun to allocate a
    claim. What happened before this process started counts only as far as the objects still show it.
    Create the reporter before the caches are entered, like `ClaimController`.

    Source: KEP-5007, "Rollout, Upgrade and Rollback Planning", for the controllers of KEP-3063.
    """

    def __init__(self, caches: Caches, executor: Executor, metrics: ControlMetrics, timeout: timedelta) -> None:
        """Create a reporter that does not run yet.

        Args:
            caches: the cached objects of the cluster.
            executor: writes the Events.
            metrics: receives the counts of the work queue.
            timeout: the maximum time that a pod with a selected node waits. The Event is written after a
                quarter of it, but at the latest after 30 seconds.
        """
        self._caches = caches
        self._warn_after = min(_WARN_AFTER, timeout / 4)
        self._classes = ClassicClasses()
        self._answered: set[str] = set()
        self._waits: dict[str, _Wait] = {}
        self._pods_by_claim = Index(caches.pods, used_names)
        # client-go's rate limiter for controllers starts at 5 ms.
        queue = WorkQueue[str](0.005, 30.0)
        queue.register_metrics(metrics.queues, _NAME)
        self._loop = Loop(_NAME, self, executor.execute, workers=1, queue=queue)
        caches.classes.subscribe(self._class_changed)
        caches.pods.subscribe(self._pod_changed)
        caches.claims.subscribe(self._claim_changed)
        caches.contexts.subscribe(self._context_changed)
        caches.records.subscribe(self._record_changed)

    async def decide(self, key: str) -> Step:
        """Return the Event for a pod, if it has waited long enough and no Event was written."""
        pod = self._caches.pods.items.get(key)
        if pod is None or pod.finished or pod.metadata.deletion_timestamp is not None:
            self._waits.pop(key, None)
            return Step(NextAction.DONE)
        silent = sorted({each for claim in self._find_pending(pod) for each in self._find_silent(claim)})
        if not silent:
            return Step(NextAction.DONE)
        wait, now = self._waits.get(key), datetime.now(UTC)
        if wait is None or wait.uid != pod.metadata.uid:
            wait = self._waits[key] = _Wait(pod.metadata.uid, now)
        if wait.warned:
            return Step(NextAction.DONE)
        if (left := wait.since + self._warn_after - now) > timedelta(0):
            self._loop.queue.add_after(key, left.total_seconds())
            return Step(NextAction.DONE)
        wait.warned = True
        names = ", ".join(f"{controller} (class {device_class})" for controller, device_class in silent)
        hint = "check that they run, and read the Events of the claims"
        message = f"controllers that have never answered on this cluster: {names}; {hint}"
        event = EmitEvent(pod_reference(pod), "Warning", "ControllerNeverAnswered", message)
        return Step(NextAction.DONE, event)

    def _find_pending(self, pod: Pod) -> Iterator[ControlledClaim]:
        """Yield the claims of a pod that controllers must allocate; none if a claim cannot be used."""
        try:
            claims = claims_of(pod, self._caches.claims.items)
        except ClaimUnusable:
            return
        for claim in claims:
            try:
                controlled = self._classes.resolve(claim) if claim.allocation is None else None
            except InvalidObjectError:
                continue  # the pod's condition has the error
            if controlled is not None:
                yield controlled

    def _find_silent(self, controlled: ControlledClaim) -> Iterator[tuple[str, str]]:
        if controlled.controller not in self._answered:
            for request in controlled.claim.spec.devices.requests:
                if request.exactly is not None:
                    yield controlled.controller, request.exactly.device_class_name

    def _pod_changed(self, _kind: ChangeKind, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        if pod is not None and pod.spec.resource_claims and (self._classes or pod.ref in self._waits):
            self._loop.queue.add(pod.ref)

    def _claim_changed(self, _kind: ChangeKind, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        if new is None:
            if old is not None:
                self._classes.forget(old)
            return
        if new.metadata.finalizers and (controller := find_allocating_controller(new)):
            self._answered.add(controller)
        if old is None and self._classes:
            for pod in self._pods_by_claim.find(new.ref):
                self._loop.queue.add(pod.ref)

    def _context_changed(
        self, _kind: ChangeKind, _old: PodSchedulingContext | None, new: PodSchedulingContext | None
    ) -> None:
        if new is not None:
            self._answered.update(answer.controller_name for answer in new.status.resource_claims)

    def _record_changed(
        self, _kind: ChangeKind, _old: ControllerAllocation | None, new: ControllerAllocation | None
    ) -> None:
        if new is not None:
            self._answered.add(new.spec.controller_name)

    def _class_changed(self, _kind: ChangeKind, old: DeviceClass | None, new: DeviceClass | None) -> None:
        was_known = bool(self._classes)
        if new is not None:
            self._classes.put(new)
        elif old is not None:
            self._classes.remove(old.metadata.name)
        if was_known or self._classes:
            for pod in self._caches.pods.items.values():
                if pod.spec.resource_claims and not pod.finished:
                    self._loop.queue.add(pod.ref)
