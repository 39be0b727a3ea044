"""The controller of PodSchedulingContexts: carries out the decisions of `contexts`.

It runs in the process of the scheduler, and beside the extender. If the process dies, the next process reads
all pods and contexts, so no record is lost.
"""

from typing import Final

from dradriver.control.claims.pod_claims import ClaimUnusable, claims_of, is_reserved_for, used_names
from dradriver.control.classic.contexts import context_step
from dradriver.control.classic.values import AwaitedClaim, ClassicClasses, is_controlled, list_awaited
from dradriver.control.runtime.actions import NextAction, Step
from dradriver.control.runtime.caches import Caches
from dradriver.control.runtime.executor import Executor
from dradriver.control.runtime.loop import Loop, LoopController
from dradriver.control.runtime.metrics import ControlMetrics
from dradriver.control.runtime.work_queue import WorkQueue
from dradriver.errors import InvalidObjectError
from dradriver.kube import ChangeKind
from dradriver.model.classic.scheduling import PodSchedulingContext
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import ResourceClaim
from dradriver.model.resource.deviceclass import DeviceClass

__all__ = ["NAME", "ContextController"]

NAME: Final = "dradriver-scheduling-context-controller"
"""Name of the controller's work queue, and component of its events if it has an own recorder."""


class ContextController(LoopController[str]):
    """Creates and deletes contexts: `async with ContextController(caches, executor)`. A key is a pod.

    Create the controller before the caches are entered, like `ClaimController`.
    """

    def __init__(self, caches: Caches, executor: Executor, metrics: ControlMetrics) -> None:
        self._caches = caches
        self._classes = ClassicClasses()
        self._deleted_pods = executor.deleted_pods
        self._incomplete: dict[str, frozenset[str]] = {}
        """The bound pods (`namespace/name`) that need a claim, allocation or reservation, with their claims."""
        # client-go's rate limiter for controllers starts at 5 ms.
        queue = WorkQueue[str](0.005, 30.0)
        queue.register_metrics(metrics.queues, NAME)
        self._loop = Loop(NAME, self, executor.execute, workers=4, queue=queue)
        caches.classes.subscribe(self._class_changed)
        caches.pods.subscribe(self._pod_changed)
        caches.claims.subscribe(self._claim_changed)
        caches.contexts.subscribe(self._context_changed)
        caches.subscribe_served(self._add_bound_pods)

    async def decide(self, key: str) -> Step:
        """Return the next step for the context of a pod."""
        if not self._caches.has_contexts:
            return Step(NextAction.DONE)
        pod = self._caches.pods.items.get(key)
        awaited = self._find_awaited(pod) if pod is not None else ()
        return context_step(pod, self._caches.contexts.items.get(key), awaited, self._deleted_pods)

    def _find_awaited(self, pod: Pod) -> tuple[AwaitedClaim, ...]:
        """Return the claims that controllers must allocate for a pod, if the pod is bound and they exist."""
        self._incomplete.pop(pod.ref, None)
        if not pod.spec.node_name or pod.finished:
            return ()
        try:
            claims = claims_of(pod, self._caches.claims.items)
        except ClaimUnusable:
            self._incomplete[pod.ref] = frozenset(used_names(pod))
            return ()
        found = []
        for claim in claims:
            try:
                controlled = self._classes.resolve(claim) if claim.allocation is None else None
            except InvalidObjectError:
                continue
            if controlled is not None and controlled.is_delayed:
                found.append(controlled)
        if found or any(is_controlled(claim) and not is_reserved_for(claim, pod) for claim in claims):
            self._incomplete[pod.ref] = frozenset(used_names(pod))
        return list_awaited(pod, found)

    def _pod_changed(self, _kind: ChangeKind, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        if pod is None or not pod.spec.resource_claims:
            return
        if new is None:
            self._incomplete.pop(pod.ref, None)
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._deleted_pods.add(old.metadata.uid)
        if pod.ref in self._caches.contexts.items or (self._classes and pod.spec.node_name):
            self._loop.queue.add(pod.ref)

    def _claim_changed(self, _kind: ChangeKind, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        claim = new or old
        if claim is None:
            return
        if new is None:
            self._classes.forget(claim)
        for ref, claims in self._incomplete.items():
            if claim.ref in claims:
                self._loop.queue.add(ref)

    def _context_changed(
        self, _kind: ChangeKind, old: PodSchedulingContext | None, new: PodSchedulingContext | None
    ) -> None:
        context = new or old
        if context is not None:
            self._loop.queue.add(context.ref)

    def _class_changed(self, _kind: ChangeKind, old: DeviceClass | None, new: DeviceClass | None) -> None:
        was_known = bool(self._classes)
        if new is not None:
            self._classes.put(new)
        elif old is not None:
            self._classes.remove(old.metadata.name)
        if was_known or self._classes:
            self._add_bound_pods()

    def _add_bound_pods(self) -> None:
        for pod in self._caches.pods.items.values():
            if pod.spec.node_name and pod.spec.resource_claims and not pod.finished:
                self._loop.queue.add(pod.ref)
