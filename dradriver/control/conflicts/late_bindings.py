"""The late binding controller: report pods that are bound, but whose claims do not have devices on their node.

The scheduler binds a pod when all its claims are allocated and reserved. But a former leader may have been
stopped right before it sent the binding (`kube.leading`), and the present leader may have given the devices to
another pod meanwhile. If nothing else has changed the pod, the API server stores the late binding. A former
leader may also release a claim late. If the claim was allocated and reserved already, the present leader has
bound its pod without a write to the claim, so the API server stores the release. A binding cannot be undone,
and the kubelet starts no container without its devices. So the controller writes a Warning Event on the pod,
which names the remedy.

At the start, the controller checks all bound pods, and later each pod that is bound or whose claim is released.
The claims in the cache may be older than the binding, so they are read before the Event is written. For the
same reason, a claim that does not exist is no problem. The controller only remembers which Events it has
written. If the process dies after an Event, the next process writes another one.
"""

import asyncio
from collections.abc import Mapping
from typing import Final

from dradriver.control.claims.pod_claims import pod_reference, used_names_with_special
from dradriver.control.runtime.actions import Action, EmitEvent, LookUpPlan, NextAction, Step
from dradriver.control.runtime.bounded_set import BoundedSet
from dradriver.control.runtime.caches import Caches
from dradriver.control.runtime.executor import Executor
from dradriver.control.runtime.loop import Loop, LoopController
from dradriver.control.runtime.metrics import ControlMetrics
from dradriver.control.runtime.work_queue import WorkQueue
from dradriver.errors import InvalidObjectError
from dradriver.kube import ChangeKind
from dradriver.model.classic.controlled_claims import resolve
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import ResourceClaim
from dradriver.model.resource.deviceclass import DeviceClass

__all__ = ["LateBindingController", "find_claim_without_devices"]

_NAME: Final = "dradriver-late-binding-controller"
_REASON: Final = "BoundWithoutDevices"


def find_claim_without_devices(
    pod: Pod, claims: Mapping[str, ResourceClaim], classes: Mapping[str, DeviceClass]
) -> str:
    """Return the claim of a bound pod that has no devices for the pod, and why; empty if there is none.

    A pod that has started is not checked, because the kubelet has prepared its claims. Two kinds of claims are
    completed after the binding: a controller allocates classic claims, and kube-controller-manager reserves
    claims that are allocated.

    Args:
        pod: the pod.
        claims: all claims by `namespace/name`. A claim that does not exist is ignored.
        classes: all classes by name.
    """
    has_started = pod.status.phase not in {"", "Pending"}
    if not pod.spec.node_name or has_started or pod.metadata.deletion_timestamp is not None:
        return ""
    for claim in (claims[ref] for ref in used_names_with_special(pod) if ref in claims):
        if claim.allocation is None:
            if _is_classic(claim, classes):
                continue
            return f"resourceclaim {claim.ref} is not allocated"
        selector = claim.allocation.node_selector
        node = selector.only_node if selector is not None else ""
        if node not in {"", pod.spec.node_name}:
            return f"resourceclaim {claim.ref} is allocated on node {node}"
    return ""


def _is_classic(claim: ResourceClaim, classes: Mapping[str, DeviceClass]) -> bool:
    try:
        return resolve(claim, classes) is not None
    except InvalidObjectError:
        return False


class LateBindingController(LoopController[str]):
    """Reports pods without their devices: `async with LateBindingController(...)`. A key is a pod.

    Create the controller before the caches are entered, like `ClaimController`.
    """

    def __init__(self, caches: Caches, executor: Executor, metrics: ControlMetrics) -> None:
        """Create a controller that does not run yet.

        Args:
            caches: the cached objects of the cluster.
            executor: reads the claims and writes the events.
            metrics: receives the metrics of the work queue.
        """
        self._caches = caches
        self._execute = executor.execute
        self._read: set[str] = set()
        self._reported = BoundedSet()
        queue = WorkQueue[str](0.005, 30.0)
        queue.register_metrics(metrics.queues, _NAME)
        self._loop = Loop(_NAME, self, self._carry_out, workers=1, queue=queue)
        caches.pods.subscribe(self._pod_changed)
        caches.claims.subscribe(self._claim_changed)

    async def decide(self, key: str) -> Step:
        """Return the next step for a pod: read its claims, then report the claim without devices."""
        await asyncio.sleep(0)  # at the start there is a key for each bound pod
        pod, claims = self._caches.pods.items.get(key), self._caches.claims.items
        classes = self._caches.classes.items
        problem = find_claim_without_devices(pod, claims, classes) if pod is not None else ""
        if pod is None or not problem or pod.metadata.uid in self._reported:
            self._read.discard(key)
            return Step(NextAction.DONE)
        if key not in self._read:
            known = tuple(claims[ref] for ref in used_names_with_special(pod) if ref in claims)
            return Step(NextAction.CONTINUE, LookUpPlan(key, known, pod))
        self._read.discard(key)
        self._reported.add(pod.metadata.uid)
        message = (
            f"the pod is bound to node {pod.spec.node_name}, but {problem}; the pod cannot start: delete it"
        )
        return Step(NextAction.DONE, EmitEvent(pod_reference(pod), "Warning", _REASON, message))

    async def _carry_out(self, action: Action) -> bool:
        done = await self._execute(action)
        if done and isinstance(action, LookUpPlan):
            self._read.add(action.pod_ref)
        return done

    def _pod_changed(self, _kind: ChangeKind, old: Pod | None, new: Pod | None) -> None:
        if new is None or not new.spec.node_name or not used_names_with_special(new):
            return
        is_same = old is not None and old.metadata.uid == new.metadata.uid
        if old is None or not is_same or not old.spec.node_name:
            self._loop.queue.add(new.ref)

    def _claim_changed(self, _kind: ChangeKind, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        if old is None or not old.status.reserved_for:
            return
        kept = {user.uid for user in new.status.reserved_for} if new is not None else set[str]()
        for user in old.status.reserved_for:
            if user.uid not in kept:
                self._loop.queue.add(f"{old.metadata.namespace}/{user.name}")
