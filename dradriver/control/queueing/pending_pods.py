"""Count the pods without a node by the queue that contains them: `scheduler_pending_pods{queue}`."""

from collections.abc import Callable, Mapping

from dradriver.control.queueing.queueing_hints import UnschedulablePods
from dradriver.control.queueing.waiting import WaitingPods
from dradriver.control.runtime.work_queue import WorkQueue
from dradriver.kube import Cache
from dradriver.model.core.workload import Pod

__all__ = ["PendingPods"]


class PendingPods:
    """Counts each pod without a node once, although timers and records may name it several times."""

    def __init__(
        self,
        pods: Cache[Pod],
        queue: WorkQueue[str],
        unschedulable: UnschedulablePods,
        waiting: WaitingPods,
        is_pending: Callable[[Pod], bool],
    ) -> None:
        """Count the pods of these queues.

        Args:
            pods: the cached pods.
            queue: the pods to be tried, at once or after a backoff.
            unschedulable: the pods that found no node.
            waiting: the pods that wait for binding conditions or for controllers.
            is_pending: returns whether this process must find a node for a pod.
        """
        self._pods = pods
        self._queue = queue
        self._unschedulable = unschedulable
        self._waiting = waiting
        self._is_pending = is_pending

    def count(self) -> Mapping[str, int]:
        """Return the number of pods for each queue of `scheduler_pending_pods`."""
        queue = self._queue
        keys = {*self._unschedulable, *self._waiting, *queue.queued, *queue.delayed}
        counts = dict.fromkeys(("active", "backoff", "unschedulable", "gated", "waiting"), 0)
        for name in filter(None, map(self._queue_of, keys)):
            counts[name] += 1
        return counts

    def _queue_of(self, key: str) -> str | None:
        """Return the queue that contains a pod; None if the pod is processed now or needs no scheduling."""
        pod, queue = self._pods.items.get(key), self._queue
        if pod is None or not self._is_pending(pod):
            return None
        queues = (
            ("waiting", key in self._waiting),
            ("gated", bool(pod.spec.scheduling_gates)),
            (None, queue.is_processing(key)),
            ("active", key in queue.queued),
            ("backoff", key in queue.delayed),
        )
        return next((name for name, is_in in queues if is_in), "unschedulable")
