"""The scheduling cycle of a pod: make its plan in a worker thread, and record the attempt and its result.

Plans are made one after the other. The devices of a plan count as in use as soon as it is made (Reserve), so
two pods never get one device.
"""

from collections.abc import Collection, Mapping, Sequence

from dradriver.control.preemption.controller import PreemptionController
from dradriver.control.preemption.victims import Victims
from dradriver.control.queueing.attempts import Attempts
from dradriver.control.queueing.queueing_hints import UnschedulablePods
from dradriver.control.queueing.waiting import WaitingPods
from dradriver.control.runtime.metrics import ControlMetrics
from dradriver.control.scheduler.cluster_view import ClusterView
from dradriver.control.scheduler.planner import PodPlanner
from dradriver.control.scheduler.snapshot import UNDECIDED, Plan, Unschedulable
from dradriver.model.core.workload import Pod

__all__ = ["SchedulingCycle"]


class SchedulingCycle:
    """Makes plans, and records attempts, pods without a suitable node, and preemptions."""

    def __init__(
        self,
        view: ClusterView,
        attempts: Attempts,
        unschedulable: UnschedulablePods,
        waiting: WaitingPods,
        preemptions: PreemptionController,
        metrics: ControlMetrics,
    ) -> None:
        """Create a scheduling cycle.

        Args:
            view: the plans in flight and the cluster's state.
            attempts: receives the attempts and their durations.
            unschedulable: receives the pods that found no node.
            waiting: has the deadline of the wait for binding conditions.
            preemptions: evicts the victims of a pod.
            metrics: receives the number of victims.
        """
        self._attempts = attempts
        self._unschedulable = unschedulable
        self._waiting = waiting
        self._preemptions = preemptions
        self._metrics = metrics
        self._planner = PodPlanner(
            view,
            lambda: attempts.now(),  # noqa: PLW0108 - tests move the clock
            on_freed=unschedulable.wake_all,
            nominated_node=preemptions.nominated_node,
        )

    async def plan(
        self,
        key: str,
        pod: Pod,
        nodes: Collection[str] | None = None,
        others: int = 0,
        *,
        preempts: bool = False,
    ) -> Plan | Unschedulable:
        """Make a plan for a pod instead of its last plan, and assume its allocations.

        If the plan is for a scheduling attempt, call `Attempts.begin` first.

        Args:
            key: `namespace/name` of the pod.
            pod: the pod.
            nodes: the nodes from which to choose, as in `Snapshot`.
            others: maximum number of other suitable nodes to find.
            preempts: whether to evict other pods if no node suits the pod.
        """
        # From here on, every change that can help returns the pod to the queue.
        self._unschedulable.add(key, pod.priority)
        deadline = self._waiting.deadline
        result = await self._planner.plan(key, pod, deadline, nodes, others, preempts=preempts)
        verdict = result.verdict
        undecided = isinstance(verdict, Unschedulable) and verdict.reason == UNDECIDED
        self._attempts.record_cycle(result.times, undecided=undecided)
        if isinstance(verdict, Plan):
            self._attempts.begin_prebind(key)
            self._unschedulable.discard(key)
            self._preemptions.begin(pod, None)
        elif preempts:
            self._preemptions.begin(pod, verdict.preemption)
            victims = verdict.preemption.victims if verdict.preemption is not None else ()
            self._metrics.record_preemption(len(victims))
        return verdict

    async def trim_victims(self, pod: Pod, victims: Mapping[str, Sequence[Pod]]) -> Mapping[str, Victims]:
        """Return the nodes on which the eviction of another scheduler's victims gives a pod its devices, too.

        Args:
            pod: the pod that preempts.
            victims: for each node, the pods that the other scheduler will evict from it.

        Returns:
            For each node that is kept, all pods to evict, as in `preemption.trimming.trim_victims`.

        Raises:
            NoNode: the pod lacks claims.
        """
        return await self._planner.trim_victims(pod, self._waiting.deadline, victims)
