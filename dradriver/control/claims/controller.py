"""The resource claim controller: applies the decisions of `ownership` to every pod and claim that changes."""

import logging
from collections.abc import Iterable
from typing import Literal, NamedTuple

from dradriver.control.claims.ownership import Objects, claim_step, pod_step
from dradriver.control.claims.pod_claims import is_done, used_names
from dradriver.control.runtime.actions import Action, CreateClaim, NextAction, Step
from dradriver.control.runtime.caches import Caches, Index
from dradriver.control.runtime.executor import Executor
from dradriver.control.runtime.loop import Loop, Looping
from dradriver.control.runtime.metrics import ControlMetrics, asks_for_admin_access
from dradriver.control.runtime.work_queue import WorkQueue
from dradriver.errors import DraError
from dradriver.kube import ChangeKind
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import ResourceClaim, ResourceClaimTemplate

__all__ = ["ClaimController"]

_log = logging.getLogger(__name__)


class _Key(NamedTuple):
    kind: Literal["pod", "claim"]
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


class ClaimController(Looping[_Key]):
    """Creates claims from templates and cleans them up: `async with ClaimController(caches, executor)`.

    Create it before the caches are entered, so that it sees every object once at the start and finds the work
    that an earlier process left undone.
    """

    def __init__(
        self, caches: Caches, executor: Executor, metrics: ControlMetrics | None = None, *, workers: int = 8
    ) -> None:
        self._caches = caches
        self._owned = Index(caches.claims, _owner)
        self._users = Index(caches.pods, used_names)
        self._from_template = Index(caches.pods, _templates)
        self._objects = Objects(
            caches.pods.items, caches.claims.items, caches.templates.items, self._owned.of, executor.gone
        )
        self._gone = executor.gone
        # client-go's rate limiter for controllers starts at 5 ms.
        queue = WorkQueue[_Key](0.005, 30.0)
        self._execute = executor.execute
        self._metrics = metrics or ControlMetrics()
        queue.count(self._metrics.queues, "resource_claim")
        self._loop = Loop("claim controller", self, self._carry_out, workers=workers, queue=queue)
        caches.pods.subscribe(self._pod_changed)
        caches.claims.subscribe(self._claim_changed)
        caches.templates.subscribe(self._template_changed)

    async def decide(self, key: _Key) -> Step:
        """Return the next step for a pod or a claim; no action for one that is gone."""
        if key.kind == "pod":
            pod = self._caches.pods.items.get(key.name)
            return pod_step(pod, self._objects) if pod is not None else Step(NextAction.DONE)
        claim = self._caches.claims.items.get(key.name)
        return claim_step(claim, self._objects) if claim is not None else Step(NextAction.DONE)

    async def _carry_out(self, action: Action) -> bool:
        if not isinstance(action, CreateClaim):
            return await self._execute(action)
        status = "failure"
        try:
            done = await self._execute(action)
            status = "success" if done else status
        finally:
            self._metrics.created(status, admin_access=asks_for_admin_access(action.claim))
        return done

    async def failed(self, key: _Key, error: DraError) -> None:
        """Do nothing: the next decision starts from the objects."""

    def _pod_changed(self, _kind: ChangeKind, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        if pod is None or not (pod.spec.resource_claims or self._owned.of(pod.metadata.uid)):
            return
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._gone.add(old.metadata.uid)
        self._loop.queue.add(_Key("pod", pod.ref))
        if new is None or is_done(new):
            owned = (claim.ref for claim in self._owned.of(pod.metadata.uid))
            for name in dict.fromkeys([*used_names(pod), *owned]):
                self._loop.queue.add(_Key("claim", name))

    def _claim_changed(self, _kind: ChangeKind, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        claim = new or old
        if claim is None:
            return
        if new is not None:
            self._loop.queue.add(_Key("claim", claim.ref))
        for pod in self._users.of(claim.ref):
            self._loop.queue.add(_Key("pod", pod.ref))

    def _template_changed(
        self, _kind: ChangeKind, _old: ResourceClaimTemplate | None, new: ResourceClaimTemplate | None
    ) -> None:
        if new is not None:
            for pod in self._from_template.of(f"{new.metadata.namespace}/{new.metadata.name}"):
                self._loop.queue.add(_Key("pod", pod.ref))


def _owner(claim: ResourceClaim) -> Iterable[str]:
    return [owner.uid] if (owner := claim.metadata.controller) is not None else []


def _templates(pod: Pod) -> Iterable[str]:
    names = {claim.resource_claim_template_name for claim in pod.spec.resource_claims}
    return [f"{pod.metadata.namespace}/{name}" for name in names if name]
