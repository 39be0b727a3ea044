"""Decide which changes of the cluster can help pods for which no node suits."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Final

from dradriver.control.claims.pod_claims import is_done
from dradriver.control.classic import is_controlled
from dradriver.control.extended import requested_amounts
from dradriver.control.runtime.caches import Caches
from dradriver.control.runtime.work_queue import WorkQueue
from dradriver.control.scheduler.node_choice.node_filters import select_node_fields
from dradriver.control.scheduler.snapshot import counts_on_node
from dradriver.kube import ChangeKind
from dradriver.kube.backoff import Backoff
from dradriver.model.core.workload import Node, Pod
from dradriver.model.resource.claim import ResourceClaim
from dradriver.model.resource.taint_rule import DeviceTaintRule

__all__ = ["UnschedulablePods", "select_pod_fields"]

_BACKOFF: Final = (0.02, 1.0)
"""The first and the longest wait, in seconds, between two changes after which all pods are tried again."""


class UnschedulablePods:
    """The pods without a plan, by `namespace/name`; in memory only.

    Each method `_..._changed` is a queueing hint: if a change of the cluster can help one of the pods, the
    method returns all of the pods to the queue. The scheduler itself handles changes of a pod and of the pod's
    claims.

    Args:
        caches: the caches, which must not have been entered yet.
        queue: the scheduling queue.
        has_anti_affinity: returns whether a pod with required anti-affinity exists.
    """

    def __init__(self, caches: Caches, queue: WorkQueue[str], has_anti_affinity: Callable[[], bool]) -> None:
        self._priorities: dict[str, int] = {}  # in order of their first refusal
        self._backoff = Backoff(*_BACKOFF)
        self._next_pass = 0.0
        self._queue = queue
        self._has_anti_affinity = has_anti_affinity
        caches.pods.subscribe(self._pod_changed)
        caches.claims.subscribe(self._claim_changed)
        caches.nodes.subscribe(self._node_changed)
        caches.slices.subscribe(lambda *_: self.wake_all())
        caches.rules.subscribe(self._rule_changed)
        caches.classes.subscribe(lambda *_: self.wake_all())

    def __iter__(self) -> Iterator[str]:
        return iter(self._priorities)

    def __contains__(self, key: str) -> bool:
        return key in self._priorities

    def add(self, key: str, priority: int) -> None:
        """Add a pod; each later change that can help returns the pod to the queue.

        Args:
            key: `namespace/name` of the pod.
            priority: the priority of the pod.
        """
        self._priorities[key] = priority

    def discard(self, key: str) -> None:
        """Remove a pod that has a plan or needs no plan."""
        self._priorities.pop(key, None)

    def wake_all(self, but: str = "") -> None:
        """Return all pods to the queue after a backoff: the highest priority first, then the first refusal.

        All pods have one backoff. Otherwise a pod that was refused often would be tried after later pods.

        Args:
            but: `namespace/name` of a pod that the change cannot help.
        """
        now = asyncio.get_running_loop().time()
        if self._next_pass <= now:
            if now - self._next_pass > _BACKOFF[1]:
                self._backoff.reset()
            self._next_pass = now + self._backoff.next()
        delay = self._next_pass - now
        for key in sorted(self._priorities, key=self._priorities.__getitem__, reverse=True):
            if key != but:
                self._queue.add_after(key, delay)

    def _pod_changed(self, _kind: ChangeKind, old: Pod | None, new: Pod | None) -> None:
        """If a pod leaves its node, its resources are free, and pods with anti-affinity may fit the node."""
        has_left = old is not None and counts_on_node(old) and (new is None or not counts_on_node(new))
        if has_left and old is not None and (self._has_anti_affinity() or requested_amounts(old)):
            self.wake_all()

        if old is not None and _is_nominated(old) and (new is None or not _is_nominated(new)):
            self.wake_all()  # the devices that were kept for the pod may be free

    def _claim_changed(self, _kind: ChangeKind, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        """If a claim loses its allocation, its devices are free. If it loses a user, preemption may help.

        If a controller deallocates a claim, no device of a slice is free. Its next answers return pods to the
        queue.
        """
        if old is None or old.allocation is None or is_controlled(old):
            return
        has_lost_user = new is not None and len(new.status.reserved_for) < len(old.status.reserved_for)
        if new is None or new.allocation is None or has_lost_user:
            self.wake_all()

    def _node_changed(self, _kind: ChangeKind, old: Node | None, new: Node | None) -> None:
        if new is not None and (old is None or select_node_fields(old) != select_node_fields(new)):
            self.wake_all()

    def _rule_changed(
        self, _kind: ChangeKind, old: DeviceTaintRule | None, new: DeviceTaintRule | None
    ) -> None:
        if old is None or new is None or old.spec != new.spec:
            self.wake_all()


def _is_nominated(pod: Pod) -> bool:
    """Return whether a pod without a node is nominated for one."""
    return bool(pod.status.nominated_node_name) and not pod.spec.node_name and not is_done(pod)


def select_pod_fields(pod: Pod) -> tuple[object, ...]:
    """Return the fields of a pod on which scheduling depends; status of schedulers and kubelets is omitted."""
    return (
        pod.metadata.uid,
        pod.metadata.deletion_timestamp,
        pod.spec,
        pod.status.resource_claim_statuses,
        pod.finished,
    )
