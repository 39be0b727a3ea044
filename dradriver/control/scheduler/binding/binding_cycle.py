"""The binding cycle: carry out the plans of pods with `binding`, one write at a time.

Plans are made one after the other (`scheduling_cycle`), and written concurrently. A pod that waits for binding
conditions (KEP-5007) keeps its plan, but occupies no worker. Its next decision is made when its claims change
or its deadline passes.

If the process dies, only the plans are lost, and the next process continues from the objects (see `binding`).
The caches may be stale, so this process may not know that a pod is bound. Therefore a plan is not reverted
before its unconfirmed writes were read back (`unconfirmed_writes`).

If the API server rejects a write of Unreserve, the claim stays allocated and reserved, so no other pod gets its
devices. The next attempt for the pod uses the claim, or frees it at PostFilter.
"""

import dataclasses
import logging
from abc import abstractmethod
from collections.abc import Mapping
from datetime import UTC, datetime
from types import TracebackType
from typing import Final, Self

from dradriver.allocator.supply.devices_in_use import PoolKey
from dradriver.control.classic.allocation_wait import find_unallocated
from dradriver.control.conflicts.allocation_index import AllocationIndex
from dradriver.control.preemption.controller import PreemptionController
from dradriver.control.queueing.attempts import Attempts
from dradriver.control.queueing.pending_pods import PendingPods
from dradriver.control.queueing.queueing_hints import UnschedulablePods, select_pod_fields
from dradriver.control.queueing.waiting import SeenConditions, WaitingPods
from dradriver.control.runtime.actions import Action, Bind, CreateClaim, LookUpPlan, NextAction, Step
from dradriver.control.runtime.caches import Caches
from dradriver.control.runtime.executor import Executor
from dradriver.control.runtime.loop import Loop, LoopController
from dradriver.control.runtime.metrics import ControlMetrics
from dradriver.control.runtime.work_queue import WorkQueue
from dradriver.control.scheduler.binding.failed_plan import FailedPlan
from dradriver.control.scheduler.binding.object_changes import ObjectChanges
from dradriver.control.scheduler.binding.plan_writes import (
    BindingFailed,
    PlanFailed,
    Preempted,
    WriteFailed,
    is_bound,
    merge_special_claim,
    next_step,
)
from dradriver.control.scheduler.binding.pods_of_claims import PodsOfClaims
from dradriver.control.scheduler.binding.unconfirmed_writes import UnconfirmedWrites
from dradriver.control.scheduler.cluster_view import ClusterView
from dradriver.control.scheduler.scheduling_cycle import SchedulingCycle
from dradriver.control.scheduler.snapshot import Plan, Unschedulable
from dradriver.control.settings import SchedulerSettings
from dradriver.errors import DraError
from dradriver.kube import ChangeKind
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import ResourceClaim

__all__ = ["BindingCycle"]

_log = logging.getLogger(__name__)

_WORKERS: Final = 16
"""Number of pods that are bound concurrently."""
_BACKOFF: Final = (0.02, 1.0)
"""The first and the longest wait, in seconds, before a pod is tried again after a change that may help."""


class BindingCycle(LoopController[str]):
    """Carries out plans, and tries pods again after changes that may help: `async with BindingCycle(...)`.

    A subclass decides when to make a plan, and what happens after one failed. Create it before the caches are
    entered, like `ClaimController`.

    Attributes:
        allocations: finds the claims that must give way to other claims.
        pods_of_claims: finds the pods that use a claim.
        scheduling: makes the plans.
    """

    def __init__(
        self,
        name: str,
        caches: Caches,
        executor: Executor,
        settings: SchedulerSettings,
        metrics: ControlMetrics,
    ) -> None:
        """Create a binding cycle that does not run yet.

        Args:
            name: the name of the loop in its tasks and logs.
            caches: the cached objects of the cluster.
            executor: carries out the writes.
            settings: the settings of scheduling.
            metrics: receives counts and durations of attempts and bindings.
        """
        self._caches = caches
        self._settings = settings
        self.allocations = AllocationIndex(caches)
        self._view = ClusterView(caches, settings, self.allocations)
        self._plans = self._view.plans
        self._failures = self._view.failures
        self._written: dict[str, Plan] = {}
        """By `namespace/name` of the pod: the plan to which its last step belongs."""
        self._releasing: dict[str, Unschedulable] = {}
        self._unreleased: dict[str, Unschedulable] = {}
        self._unconfirmed = UnconfirmedWrites()
        self._waiting_pods = WaitingPods(
            SeenConditions(caches.claims),
            settings.binding_timeout,
            enabled=settings.features.binding_conditions,
        )
        self._metrics = metrics
        self._attempts = Attempts(settings.pod_backoff, self._metrics)
        self.pods_of_claims = PodsOfClaims(caches)
        queue = WorkQueue[str](*_BACKOFF)
        self._unschedulable = UnschedulablePods(caches, queue, lambda: self._view.has_anti_affinity)
        pending = PendingPods(
            caches.pods, queue, self._unschedulable, self._waiting_pods, self.is_responsible_for
        )
        self._metrics.show_pending(pending.count)
        self._execute = executor.execute
        self._preemptions = PreemptionController(caches, executor, self._view.nominate, self.cancel_plan)
        self.scheduling = SchedulingCycle(
            self._view, self._attempts, self._unschedulable, self._waiting_pods, self._preemptions, metrics
        )
        self._loop = Loop(name, self, self._carry_out, workers=_WORKERS, queue=queue)
        caches.pods.subscribe(self._pod_changed)
        ObjectChanges(
            caches,
            queue,
            self._unschedulable,
            self._waiting_pods,
            self.pods_of_claims,
            self._plans,
            self._failures,
        )
        caches.subscribe_served(self._unschedulable.wake_all)

    async def __aenter__(self) -> Self:
        await self._preemptions.__aenter__()
        return await super().__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await super().__aexit__(kind, error, trace)
        await self._preemptions.__aexit__(kind, error, trace)

    @abstractmethod
    def is_responsible_for(self, pod: Pod) -> bool:
        """Return whether this process must find a node for the pod."""

    @abstractmethod
    async def decide_without_plan(self, key: str, pod: Pod) -> Step:
        """Return the next step for a pod that has no plan; it may make one with `scheduling`."""

    @abstractmethod
    def report_failure(self, key: str, pod: Pod, failure: FailedPlan) -> Step:
        """Return the step after a failed plan was reverted."""

    async def decide(self, key: str) -> Step:
        """Return the next step for a pod. If the pod has a plan, this step continues the writes of the plan."""
        plan, pod = self._plans.get(key), self._caches.pods.items.get(key)
        self._releasing.pop(key, None)
        self._written.pop(key, None)
        if plan is not None and self._is_unconfirmed(key):
            self._written[key] = plan
            return Step(NextAction.CONTINUE, LookUpPlan(key, tuple(self._claims_of(plan)), pod))
        if pod is None or not self.is_responsible_for(pod):
            self.forget(key)
            self._attempts.forget(key)
            return Step(NextAction.DONE)
        if plan is not None and plan.pod_uid == pod.metadata.uid:
            step = self._schedule_deadline(self._write(key, pod, plan), key)
            if key in self._plans:
                self._written[key] = self._plans[key]
            return step
        return await self.decide_without_plan(key, pod)

    async def handle_error(self, key: str, error: DraError) -> None:
        """Give up a plan if its write failed, unless `UnconfirmedWrites.record_failure` allows a retry.

        If a write of Unreserve or PostFilter failed, the claim stays allocated.
        """
        plan = self._plans.get(key)
        if plan is None:
            if (verdict := self._releasing.pop(key, None)) is not None:
                self._unreleased[key] = verdict
                self._attempts.back_off(key)
            return
        if plan is not self._written.get(key):
            return  # the plan was made while a write without it was in progress, such as a nudge
        if self._unconfirmed.record_failure(key, error):
            return
        failure = self._failures.get(key)
        if failure is None:
            self._give_up(key, plan, WriteFailed(str(error)))
        else:
            failure.record_rejection(str(error))
            self._unconfirmed.reset_failures(key)

    async def _carry_out(self, action: Action) -> bool:
        if isinstance(action, Bind):
            return await self._bind(action)
        if not isinstance(action, CreateClaim):
            done = await self._execute(action)
            if done and isinstance(action, LookUpPlan):
                self._unconfirmed.confirm(action.pod_ref)
            return done
        done = False
        try:
            done = await self._execute(action)
        finally:
            self._metrics.count_special_claim("success" if done else "failure")
        return done

    async def _bind(self, action: Bind) -> bool:
        start, done = self._attempts.now(), False
        try:
            done = await self._execute(action)
        finally:
            self._attempts.record_bind(self._attempts.now() - start, succeeded=done)
        if done:
            self._unconfirmed.add(action.pod.ref)
        return done

    def is_binding(self, key: str) -> bool:
        """Return whether a write for a pod (`namespace/name`) may be in progress, such as its binding."""
        return self._loop.queue.is_processing(key) or self._is_unconfirmed(key)

    def _is_unconfirmed(self, key: str) -> bool:
        plan, pod = self._plans.get(key), self._caches.pods.items.get(key)
        return plan is not None and key in self._unconfirmed and not is_bound(plan, pod)

    def _schedule_deadline(self, step: Step, key: str) -> Step:
        if step.deadline is not None:
            wait = (step.deadline - datetime.now(UTC)).total_seconds()
            self._loop.queue.add_after(key, max(0.0, wait))
        return step

    def forget(self, key: str) -> None:
        """Drop the plan of a pod, and all records about the pod but its attempts."""
        self._unschedulable.discard(key)
        self._waiting_pods.forget(key)
        failure = self._failures.get(key)
        self._written.pop(key, None)
        self._unconfirmed.forget(key)
        self._unreleased.pop(key, None)
        plan = self._view.drop_plan(key)
        pod = self._caches.pods.items.get(key)
        if plan is not None and is_bound(plan, pod):
            self._record_prebind(key, plan, "success")
            self._attempts.record_bound(key)
        elif plan is not None and failure is None:
            self._record_prebind(key, plan, "error")  # the pod was deleted, or another scheduler bound it
        if plan is not None and (pod is None or not pod.spec.node_name):
            self._unschedulable.wake_all()  # the plan's devices are free now

    def cancel_plan(self, key: str, reason: str) -> bool:
        """Give up the plan of a pod, because a pod of higher priority needs its devices.

        Args:
            key: `namespace/name` of the pod.
            reason: the message for users.

        Returns:
            False if the pod may be bound already.
        """
        plan, pod = self._plans.get(key), self._caches.pods.items.get(key)
        if plan is None or key in self._failures:
            return True
        if self._is_unconfirmed(key) or is_bound(plan, pod):
            return False
        self._give_up(key, plan, Preempted(reason))
        self._loop.queue.add(key)
        return True

    def _write(self, key: str, pod: Pod, plan: Plan) -> Step:
        claims, deadline = self._caches.claims.items, self._waiting_pods.deadline(key)
        plan = merge_special_claim(plan, pod, claims)
        self._view.update_plan(key, plan)
        if key not in self._failures:
            try:
                self._check_plan(key, plan)
                classic = self._view.take_classic(pod, self._claims_of(plan))
                step = next_step(plan, pod, claims, deadline, self.allocations.find_conflict, classic)
            except PlanFailed as problem:
                self._give_up(key, plan, problem)
            else:
                if plan.pending_classic:
                    if step.next is NextAction.WAIT and find_unallocated(plan, claims):
                        return self._waiting_pods.driver_wait_step(key, step)
                    self._waiting_pods.end_driver_wait(key)
                if step.next is NextAction.WAIT:
                    return self._wait(key, pod, plan, step)
                self._attempts.end_wait(key, bind=isinstance(step.action, Bind))
                return step
        failure = self._failures[key]
        if (release := failure.next_release(plan, pod, claims, deadline)) is not None:
            return Step(NextAction.CONTINUE, release)
        self.forget(key)
        return self.report_failure(key, pod, failure)

    def _check_plan(self, key: str, plan: Plan) -> None:
        if key in self._waiting_pods and plan.node not in self._caches.nodes.items:
            raise PlanFailed(f"node {plan.node} was deleted in the meantime")
        if unserved := self._view.explain_unserved(plan):
            raise PlanFailed(unserved)

    def _wait(self, key: str, pod: Pod, plan: Plan, step: Step) -> Step:
        """Return the step of a pod that waits for binding conditions.

        The allocations are removed from the plan, because the claims contain them now.
        """
        self._view.update_plan(key, dataclasses.replace(plan, allocations={}))
        self._attempts.begin_wait(key)
        return self._waiting_pods.wait_step(key, pod, self._claims_of(plan), step)

    def has_planned(self, claim: ResourceClaim) -> bool:
        """Return whether the claim has the allocation of a plan in flight, so that this process wrote it."""
        return self._view.is_planned(claim)

    def set_unserved(self, pools: Mapping[PoolKey, str]) -> None:
        """Replace the pools from which no device is allocated.

        Args:
            pools: the pools by driver and name, with the reason of each.
        """
        self._view.set_unserved(pools)
        self._unschedulable.wake_all()

    def _claims_of(self, plan: Plan) -> list[ResourceClaim]:
        known = self._caches.claims.items
        return [known[ref] for ref, _ in plan.claims if ref in known]

    def _give_up(self, key: str, plan: Plan, problem: PlanFailed) -> None:
        self._view.fail_plan(key, problem)
        self._unconfirmed.reset_failures(key)
        self._record_prebind(key, plan, problem.state.value if isinstance(problem, BindingFailed) else "error")

    def _record_prebind(self, key: str, plan: Plan, status: str) -> None:
        # If the feature gate is off, binding conditions of earlier allocations are ignored.
        claims = self._claims_of(plan) if self._settings.features.binding_conditions else []
        has_claims = bool(plan.claims) or plan.special is not None
        self._attempts.record_prebind(key, status, claims, has_claims=has_claims)

    def _pod_changed(self, _kind: ChangeKind, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        if pod is None or (
            old is not None and new is not None and select_pod_fields(old) == select_pod_fields(new)
        ):
            return  # only a status that the scheduler or the kubelet wrote has changed
        # The plan is forgotten immediately, because other pods may wait for its devices. But if a write of the
        # plan is in progress or unconfirmed, it may still be stored: then the next decision forgets the plan.
        if (new is None or not self.is_responsible_for(new)) and not self.is_binding(pod.ref):
            self.forget(pod.ref)
            self._attempts.forget(pod.ref)
        # Added even if the plan was forgotten: the decision resets the key's backoff.
        self._loop.queue.add(pod.ref)
