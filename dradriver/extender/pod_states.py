"""The states of the pods of the extender, for users.

A pod goes through these states:

| state     | begins when                     | ends when                                          |
|-----------|---------------------------------|----------------------------------------------------|
| refused   | `filter` found no node          | a change may help: nominated and nudged if it fits |
| nominated | `filter` or a nudge made a plan | `bind` is called, or the plan expires              |
| binding   | `bind` was called               | the pod is bound, or the plan failed               |
| releasing | the plan failed                 | its writes are reverted: `bind` is answered        |
"""

from collections.abc import Mapping

from dradriver.control.classic.allocation_wait import find_unallocated
from dradriver.control.queueing.queueing_hints import UnschedulablePods
from dradriver.control.queueing.waiting import WaitingPods
from dradriver.control.runtime.caches import Caches
from dradriver.control.scheduler.binding.failed_plan import FailedPlan
from dradriver.control.scheduler.snapshot import Plan
from dradriver.extender.bind_calls import BindCalls
from dradriver.extender.filter_calls import FilterCalls
from dradriver.extender.nominations import Nominations

__all__ = ["PodStates"]


class PodStates:
    """Describes the state of a pod from the records of the cycle, which the cycle keeps."""

    def __init__(
        self,
        caches: Caches,
        plans: Mapping[str, Plan],
        failures: Mapping[str, FailedPlan],
        waiting: WaitingPods,
        unschedulable: UnschedulablePods,
        filter_calls: FilterCalls,
        nominations: Nominations,
        bind_calls: BindCalls,
    ) -> None:
        """Describe pods from now on.

        Args:
            caches: the cached objects of the cluster.
            plans: the plans in flight, by `namespace/name` of the pod.
            failures: the plans that failed and are being reverted.
            waiting: the pods that wait for binding conditions or for controllers.
            unschedulable: the pods that found no node.
            filter_calls: what the calls of `filter` showed.
            nominations: the plans that wait for `bind`.
            bind_calls: the calls of `bind` in progress.
        """
        self._claims = caches.claims
        self._contexts = caches.contexts
        self._plans = plans
        self._failures = failures
        self._waiting = waiting
        self._unschedulable = unschedulable
        self._filter_calls = filter_calls
        self._nominations = nominations
        self._calls = bind_calls

    def describe(self, key: str) -> tuple[str, str]:
        """Return the state of a pod (`namespace/name`), and one sentence about it."""
        plan, node = self._plans.get(key), self._calls.node(key)
        if key in self._failures:
            return "releasing", f"the devices of the last attempt are being released: {self._failures[key]}"
        if node is not None:
            waits = key in self._waiting
            what = "binding conditions of its devices"
            if self._waiting.awaits_drivers(key):
                what = self._describe_drivers(key)
            return "binding", f"is being bound to node {node}" + (f" and waits for {what}" if waits else "")
        if key in self._nominations and plan is not None:
            left = max(0.0, self._nominations.seconds_left(key))
            return (
                "nominated",
                f"has devices on node {plan.node} for {left:.0f} s, until kube-scheduler binds it",
            )
        if key in self._unschedulable:
            return (
                "refused",
                f"no node suits it: {self._filter_calls.refusal(key) or 'it has not been tried yet'}",
            )
        return "unknown", "kube-scheduler has not asked about it, or it is bound"

    def _describe_drivers(self, key: str) -> str:
        """Return the controllers for which a pod with a plan waits, their claims, and the round."""
        plan, context = self._plans.get(key), self._contexts.items.get(key)
        left = find_unallocated(plan, self._claims.items) if plan is not None else ()
        generation = context.metadata.generation if context is not None else 0
        return f"{', '.join(map(str, left))} (round {generation})"
