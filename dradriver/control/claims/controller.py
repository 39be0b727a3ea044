"""The resource claim controller: carries out the decisions of `ownership` for each changed pod and claim."""

import logging
from collections.abc import Iterable

from dradriver.control.claims.ownership import Objects, claim_step, pod_step
from dradriver.control.claims.pod_claims import is_done, used_names
from dradriver.control.runtime.actions import Action, CreateClaim, NextAction, Step
from dradriver.control.runtime.caches import Caches, Index
from dradriver.control.runtime.executor import Executor
from dradriver.control.runtime.loop import Loop, LoopController
from dradriver.control.runtime.metrics import ControlMetrics, has_admin_access
from dradriver.control.runtime.work_queue import ObjectKey, WorkQueue
from dradriver.kube import ChangeKind
from dradriver.model.classic.allocation_records import ControllerAllocation
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import ResourceClaim, ResourceClaimTemplate

__all__ = ["ClaimController"]

_log = logging.getLogger(__name__)


class ClaimController(LoopController[ObjectKey]):
    """Creates, releases and deletes claims of pods: `async with ClaimController(caches, executor)`.

    Create the controller before the caches are entered. Then it receives every object once at the start, and
    finds work that an earlier process did not finish.
    """

    def __init__(
        self, caches: Caches, executor: Executor, metrics: ControlMetrics | None = None, *, workers: int = 8
    ) -> None:
        self._caches = caches
        self._claims_by_owner = Index(caches.claims, _owner_uids)
        self._pods_by_claim = Index(caches.pods, used_names)
        self._pods_by_template = Index(caches.pods, _template_names)
        self._deleted_pods = deleted = executor.deleted_pods
        owned = self._claims_by_owner.find
        self._objects = Objects(
            caches.pods.items,
            caches.claims.items,
            caches.templates.items,
            owned,
            deleted,
            self._find_record,
        )
        # client-go's rate limiter for controllers starts at 5 ms.
        queue = WorkQueue[ObjectKey](0.005, 30.0)
        self._execute = executor.execute
        self._metrics = metrics or ControlMetrics()
        queue.register_metrics(self._metrics.queues, "resource_claim")
        self._loop = Loop("claim controller", self, self._carry_out, workers=workers, queue=queue)
        caches.pods.subscribe(self._pod_changed)
        caches.claims.subscribe(self._claim_changed)
        caches.templates.subscribe(self._template_changed)

    def _find_record(self, claim: ResourceClaim) -> ControllerAllocation | None:
        return self._caches.records.items.get(f"{claim.metadata.namespace}/{claim.metadata.uid}")

    async def decide(self, key: ObjectKey) -> Step:
        """Return the next step for a pod or a claim; no action if the object is gone."""
        if key.kind == "pod":
            pod = self._caches.pods.items.get(key.name)
            return pod_step(pod, self._objects) if pod is not None else Step(NextAction.DONE)
        claim = self._caches.claims.items.get(key.name)
        return claim_step(claim, self._objects) if claim is not None else Step(NextAction.DONE)

    async def _carry_out(self, action: Action) -> bool:
        if not isinstance(action, CreateClaim):
            return await self._execute(action)
        done = False
        try:
            done = await self._execute(action)
        finally:
            status = "success" if done else "failure"
            self._metrics.count_claim(status, admin_access=has_admin_access(action.claim))
        return done

    def _pod_changed(self, _kind: ChangeKind, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        if pod is None or not (pod.spec.resource_claims or self._claims_by_owner.find(pod.metadata.uid)):
            return
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._deleted_pods.add(old.metadata.uid)
        self._loop.queue.add(ObjectKey("pod", pod.ref))
        if new is None or is_done(new):
            owned = (claim.ref for claim in self._claims_by_owner.find(pod.metadata.uid))
            for name in dict.fromkeys([*used_names(pod), *owned]):
                self._loop.queue.add(ObjectKey("claim", name))

    def _claim_changed(self, _kind: ChangeKind, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        claim = new or old
        if claim is None:
            return
        if new is not None:
            self._loop.queue.add(ObjectKey("claim", claim.ref))
        for pod in self._pods_by_claim.find(claim.ref):
            self._loop.queue.add(ObjectKey("pod", pod.ref))

    def _template_changed(
        self, _kind: ChangeKind, _old: ResourceClaimTemplate | None, new: ResourceClaimTemplate | None
    ) -> None:
        if new is not None:
            for pod in self._pods_by_template.find(f"{new.metadata.namespace}/{new.metadata.name}"):
                self._loop.queue.add(ObjectKey("pod", pod.ref))


def _owner_uids(claim: ResourceClaim) -> Iterable[str]:
    return [owner.uid] if (owner := claim.metadata.controller) is not None else []


def _template_names(pod: Pod) -> Iterable[str]:
    names = {claim.resource_claim_template_name for claim in pod.spec.resource_claims}
    return [f"{pod.metadata.namespace}/{name}" for name in names if name]
