"""Carry out preemptions: nominate the pod, and remove its victims one after the other.

The pod is nominated first, so that no pod of lower priority takes the devices of a victim that has left.
kube-scheduler writes the result of an attempt asynchronously, so it may clear the nomination late, even after
the last eviction. Until the victims have left, a nomination that is missing is written again. A victim that is
not bound yet is not deleted: its plan is given up, as kube-scheduler does with waiting pods.

The preemptions are in memory only. If the process dies, the pod's next attempt decides again: pods that are
being deleted already count as leaving, so no pod is evicted in their place.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from dradriver.control.preemption.victims import PREEMPTED, Preemption
from dradriver.control.runtime.actions import Evict, NextAction, Nominate, Step
from dradriver.control.runtime.caches import Caches
from dradriver.control.runtime.executor import Executor
from dradriver.control.runtime.loop import Loop, LoopController
from dradriver.control.runtime.work_queue import WorkQueue
from dradriver.model.core.workload import Pod

__all__ = ["PreemptionController", "preemption_step"]

_WORKERS: Final = 4


def preemption_step(
    pod: Pod,
    preemption: Preemption,
    find_pod: Callable[[str], Pod | None],
    cancel: Callable[[str, str], bool],
) -> Step:
    """Return the next write of a preemption.

    Args:
        pod: the pod that preempts, as it is now.
        preemption: the node and the victims.
        find_pod: returns the current version of a pod (`namespace/name`); None if it does not exist.
        cancel: gives up the plan of a pod (`namespace/name`) for a reason. It returns False if the plan's last
            write may be stored already.
    """
    if pod.status.nominated_node_name != preemption.node:
        return Step(NextAction.CONTINUE, Nominate(pod, preemption.node))
    next_action = NextAction.DONE
    for victim in preemption.victims:
        current = _find_unfinished(victim, find_pod)
        if current is None or current.metadata.deletion_timestamp is not None:
            continue
        if not current.spec.node_name:
            if not cancel(victim.ref, f"preempted by pod {pod.ref} on node {preemption.node}"):
                next_action = NextAction.RETRY
            continue
        scheduler = pod.spec.scheduler_name or "default-scheduler"
        message = f"{scheduler}: preempting to accommodate a higher priority pod"
        event = "Preempted", f"Preempted by pod {pod.metadata.uid} on node {preemption.node}"
        return Step(NextAction.CONTINUE, Evict(current, PREEMPTED, message, event))
    return Step(next_action)


@dataclass(frozen=True, slots=True)
class _Begun:
    """A preemption that is carried out.

    Attributes:
        uid: the UID of the pod that preempts.
        preemption: the node and the victims; after the evictions, only the victims that are leaving.
        is_evicted: whether all evictions are written.
    """

    uid: str
    preemption: Preemption
    is_evicted: bool = False


class PreemptionController(LoopController[str]):
    """Carries out preemptions: `async with PreemptionController(...)`.

    Args:
        caches: the caches.
        executor: carries out the writes.
        nominate: called with a pod and its node before anything is written, so that other decisions count the
            pod on this node from now on. Called with an empty node when the pod's status counts again.
        cancel: as in `preemption_step`.
    """

    def __init__(
        self,
        caches: Caches,
        executor: Executor,
        nominate: Callable[[Pod, str], None],
        cancel: Callable[[str, str], bool],
    ) -> None:
        self._caches = caches
        self._nominate = nominate
        self._cancel = cancel
        self._begun: dict[str, _Begun] = {}
        queue = WorkQueue[str](0.02, 10.0)
        self._loop = Loop("preemption", self, executor.execute, workers=_WORKERS, queue=queue)
        caches.pods.subscribe(self._pod_changed)

    def begin(self, pod: Pod, preemption: Preemption | None) -> None:
        """Carry out the result of a pod's latest attempt.

        Args:
            pod: the pod.
            preemption: the node and the victims. None: evictions that are still to be written are dropped. If
                there are no victims, earlier evictions from this node continue.
        """
        self._nominate(pod, preemption.node if preemption is not None else "")
        if preemption is None:
            self._begun.pop(pod.ref, None)
        elif preemption.victims or self.nominated_node(pod) != preemption.node:
            self._begun[pod.ref] = _Begun(pod.metadata.uid, preemption)
            self._loop.queue.add(pod.ref)

    def nominated_node(self, pod: Pod) -> str:
        """Return the node for which a pod is nominated by its preemption; empty if it has none."""
        begun = self._begun.get(pod.ref)
        return begun.preemption.node if begun is not None and begun.uid == pod.metadata.uid else ""

    async def decide(self, key: str) -> Step:
        """Return the next write of a pod's preemption."""
        begun, pod = self._begun.get(key), self._caches.pods.items.get(key)
        if begun is None or pod is None or pod.metadata.uid != begun.uid or not _is_waiting(pod):
            self._begun.pop(key, None)
            return Step(NextAction.DONE)
        if not begun.is_evicted or self._find_leaving(begun.preemption):
            step = preemption_step(pod, begun.preemption, self._caches.pods.items.get, self._cancel)
            if step.next is not NextAction.DONE:
                return step
            if leaving := self._find_leaving(begun.preemption):
                self._begun[key] = _Begun(
                    begun.uid, Preemption(begun.preemption.node, leaving), is_evicted=True
                )
                return Step(NextAction.WAIT)  # the nomination may still be cleared
        del self._begun[key]
        self._nominate(pod, "")  # the nomination is written
        return Step(NextAction.DONE)

    def _find_leaving(self, preemption: Preemption) -> tuple[Pod, ...]:
        """Return the victims that still run. A victim without a node has given up its plan."""
        current = (_find_unfinished(victim, self._caches.pods.items.get) for victim in preemption.victims)
        return tuple(victim for victim in current if victim is not None and victim.spec.node_name)

    def _pod_changed(self, _kind: object, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        if pod is None or not self._begun:
            return
        for key, begun in self._begun.items():
            if key == pod.ref or any(victim.ref == pod.ref for victim in begun.preemption.victims):
                self._loop.queue.add(key)


def _is_waiting(pod: Pod) -> bool:
    return not pod.spec.node_name and not pod.finished and pod.metadata.deletion_timestamp is None


def _find_unfinished(victim: Pod, find_pod: Callable[[str], Pod | None]) -> Pod | None:
    """Return the current version of a victim; None if it has ended, or another pod has its name."""
    current = find_pod(victim.ref)
    if current is None or current.metadata.uid != victim.metadata.uid or current.finished:
        return None
    return current
