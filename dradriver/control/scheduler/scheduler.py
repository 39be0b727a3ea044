"""The scheduler of the embedded cluster: makes a plan for every pod without a node, and writes it.

A waiting pod blocks no other pod: it is tried again when a change may help it. If the API server rejects a
write of PostFilter, the pod is reported as unschedulable, and is tried again after a backoff.
"""

from typing import Final

from dradriver.control.classic.allocation_wait import AllocationTimedOut, NodeRefused
from dradriver.control.runtime.actions import NextAction, ReportUnschedulable, Step
from dradriver.control.runtime.caches import Caches
from dradriver.control.runtime.executor import Executor
from dradriver.control.runtime.metrics import ControlMetrics
from dradriver.control.scheduler.binding.binding_cycle import BindingCycle
from dradriver.control.scheduler.binding.failed_plan import FailedPlan
from dradriver.control.scheduler.binding.plan_writes import BindingFailed, WriteFailed
from dradriver.control.scheduler.snapshot import Unschedulable
from dradriver.control.settings import SchedulerSettings
from dradriver.model.core.workload import Pod

__all__ = ["Scheduler"]

_NAME: Final = "default-scheduler"


class Scheduler(BindingCycle):
    """Schedules the pods that name it: `async with Scheduler(caches, executor)`."""

    def __init__(
        self,
        caches: Caches,
        executor: Executor,
        settings: SchedulerSettings | None = None,
        metrics: ControlMetrics | None = None,
    ) -> None:
        """Create a scheduler that does not run yet.

        Args:
            caches: the cached objects of the cluster.
            executor: carries out the writes.
            settings: the settings of scheduling. None: default values.
            metrics: receives counts and durations of attempts and bindings.
        """
        super().__init__(
            "scheduler", caches, executor, settings or SchedulerSettings(), metrics or ControlMetrics()
        )

    def is_responsible_for(self, pod: Pod) -> bool:
        """Return whether the pod has no node, has not ended, and names this scheduler or none."""
        return (
            not pod.spec.node_name
            and not pod.finished
            and pod.metadata.deletion_timestamp is None
            and (pod.spec.scheduler_name or _NAME) == _NAME
        )

    async def decide_without_plan(self, key: str, pod: Pod) -> Step:
        """Make a plan, or report why there is none."""
        unreleased = self._unreleased.get(key)
        self.forget(key)
        if unreleased is not None and (report := _report(pod, unreleased)) is not None:
            return Step(NextAction.CONTINUE, report)
        if (backoff := self._attempts.remaining_backoff(key)) > 0:
            self._loop.queue.add_after(key, backoff)
            return Step(NextAction.WAIT)
        self._attempts.begin(key)
        verdict = await self.scheduling.plan(key, pod, preempts=True)
        # Planning takes time, so the next call of `decide` returns the first write, with the newest version of
        # the pod.
        return (
            self._refuse(key, pod, verdict) if isinstance(verdict, Unschedulable) else Step(NextAction.CONTINUE)
        )

    def report_failure(self, key: str, pod: Pod, failure: FailedPlan) -> Step:
        """Report the failure, and try again: after a backoff if a write was rejected or devices failed.

        If a controller refused the node, the pod is tried again at once, and the next attempt reports.
        """
        if isinstance(failure.problem, NodeRefused) and not failure.unreleased:
            return Step(NextAction.CONTINUE)
        report = ReportUnschedulable(pod, "SchedulerError", str(failure))
        if (
            not isinstance(failure.problem, (AllocationTimedOut, BindingFailed, WriteFailed))
            and not failure.unreleased
        ):
            return Step(NextAction.RETRY, report)
        self._loop.queue.add_after(key, self._attempts.back_off(key))
        return Step(NextAction.WAIT, report)

    def _refuse(self, key: str, pod: Pod, verdict: Unschedulable) -> Step:
        if verdict.releases:
            self._releasing[key] = verdict
            return Step(NextAction.CONTINUE, verdict.releases[0])
        return Step(NextAction.WAIT, _report(pod, verdict))


def _report(pod: Pod, verdict: Unschedulable) -> ReportUnschedulable | None:
    """Return the report of a verdict; None if the pod's condition already contains it."""
    condition = next((c for c in pod.status.conditions if c.type == "PodScheduled"), None)
    is_reported = condition is not None and (condition.reason, condition.message) == (
        verdict.reason,
        verdict.message,
    )
    if verdict.quiet or (is_reported and pod.status.nominated_node_name == verdict.nominated_node):
        return None
    return ReportUnschedulable(pod, verdict.reason, verdict.message, verdict.nominated_node)
