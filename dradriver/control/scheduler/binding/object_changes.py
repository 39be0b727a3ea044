"""Return pods to the queue when their claims, their contexts or the nodes of their plans change."""

from collections.abc import Collection, Mapping

from dradriver.control.queueing.queueing_hints import UnschedulablePods
from dradriver.control.queueing.waiting import WaitingPods
from dradriver.control.runtime.caches import Caches
from dradriver.control.runtime.work_queue import WorkQueue
from dradriver.control.scheduler.binding.pods_of_claims import PodsOfClaims
from dradriver.control.scheduler.snapshot import Plan
from dradriver.kube import ChangeKind
from dradriver.model.classic.scheduling import PodSchedulingContext
from dradriver.model.core.workload import Node
from dradriver.model.resource.claim import ResourceClaim

__all__ = ["ObjectChanges"]


class ObjectChanges:
    """Returns pods to the queue after changes of claims, contexts and nodes.

    `UnschedulablePods` also returns pods to the queue: those that found no node.
    """

    def __init__(
        self,
        caches: Caches,
        queue: WorkQueue[str],
        unschedulable: UnschedulablePods,
        waiting: WaitingPods,
        pods_of_claims: PodsOfClaims,
        plans: Mapping[str, Plan],
        failed: Collection[str],
    ) -> None:
        """Follow the caches from now on.

        Args:
            caches: the cached objects, which have not been entered yet.
            queue: receives the keys (`namespace/name`) of the pods.
            unschedulable: the pods that found no node.
            waiting: the pods that wait for binding conditions or for controllers.
            pods_of_claims: finds the pods that use a claim.
            plans: the plans in flight.
            failed: the keys of plans that failed and are being reverted.
        """
        self._queue = queue
        self._unschedulable = unschedulable
        self._waiting = waiting
        self._pods_of_claims = pods_of_claims
        self._plans = plans
        self._failed = failed
        caches.claims.subscribe(self._claim_changed)
        caches.nodes.subscribe(self._node_changed)
        caches.contexts.subscribe(self._context_changed)

    def _claim_changed(self, _kind: ChangeKind, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        if old is not None and old.allocation is not None and (new is None or new.allocation is None):
            self._waiting.forget_claim(old)
        claim = new or old
        for pod in self._pods_of_claims.find(claim) if claim is not None else ():
            # A pod whose plan failed must not return to the queue because of its own release.
            if pod.ref in self._unschedulable or (pod.ref in self._waiting and pod.ref not in self._failed):
                self._queue.add(pod.ref)

    def _context_changed(
        self, _kind: ChangeKind, old: PodSchedulingContext | None, new: PodSchedulingContext | None
    ) -> None:
        """Return a pod to the queue if a controller has answered, or if the context is gone."""
        context = new or old
        if context is None:
            return
        key = context.ref
        is_own_write = new is not None and (old is None or old.status == new.status)
        if (key in self._unschedulable and not is_own_write) or (
            key in self._waiting and key not in self._failed
        ):
            self._queue.add(key)

    def _node_changed(self, _kind: ChangeKind, old: Node | None, new: Node | None) -> None:
        if new is None and old is not None:
            for key, plan in self._plans.items():
                if plan.node == old.metadata.name:
                    self._queue.add(key)
