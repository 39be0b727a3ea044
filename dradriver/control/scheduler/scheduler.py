"""The scheduler: the plans of `pipeline` and the steps of `binding`, for every pod without a node.

Plans are made one after the other, in a worker thread so that a long search blocks nothing else. Each plan
counts as in use from the moment when it is made (Reserve), so two pods never get one device. Plans are written
concurrently. A pod that has to wait blocks no other pod: it is tried again when a change may help it. A pod
that waits for binding conditions (KEP-5007) keeps its plan but no worker. A change of its claims, or the end of
the timeout, triggers its next decision.

Only the plans are in memory. If the process dies, it loses the plans and nothing else: see `binding`. A plan is
not reverted while its pod may be bound without the knowledge of this process (`unconfirmed_writes`), however
late the watch is.

If the API server refuses a write of Unreserve, the claim stays allocated and reserved, so no other pod gets its
devices. The pod is reported and set back. Its next attempt uses the claim or frees it at PostFilter, with the
same report and setback if that fails.
"""

import asyncio
import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from dradriver.allocator import InUse
from dradriver.control.claims.pod_claims import used_names
from dradriver.control.extended import amounts_of, owners_of
from dradriver.control.pools.pool_index import PoolIndex
from dradriver.control.queueing.attempt_times import FilterTimes, PreBindTimes
from dradriver.control.queueing.attempts import Attempts
from dradriver.control.queueing.queueing_hints import asked_by, offered_by
from dradriver.control.queueing.waiting import SeenConditions, WaitingPods
from dradriver.control.runtime.actions import (
    Action,
    Bind,
    CreateClaim,
    LookUpPlan,
    NextAction,
    ReportUnschedulable,
    Step,
)
from dradriver.control.runtime.caches import Caches, Index
from dradriver.control.runtime.executor import Executor
from dradriver.control.runtime.loop import Loop, Looping
from dradriver.control.runtime.metrics import ControlMetrics
from dradriver.control.runtime.work_queue import WorkQueue
from dradriver.control.scheduler.assumed_allocations import with_assumed
from dradriver.control.scheduler.binding import (
    BindingFailed,
    PlanFailed,
    WriteFailed,
    is_bound,
    next_step,
    settled,
    unreserve,
)
from dradriver.control.scheduler.cluster_view import ClusterView
from dradriver.control.scheduler.pipeline import schedule
from dradriver.control.scheduler.snapshot import UNDECIDED, Plan, Snapshot, Unschedulable, holds
from dradriver.control.scheduler.unconfirmed_writes import UnconfirmedWrites
from dradriver.control.settings import SchedulerSettings
from dradriver.errors import DraError
from dradriver.kube import ChangeKind
from dradriver.model.core.workload import Node, Pod
from dradriver.model.resource.claim import ResourceClaim
from dradriver.model.resource.taint_rule import DeviceTaintRule

__all__ = ["Scheduler"]

DEFAULT_NAME: Final = "default-scheduler"

_WORKERS: Final = 16
"""Number of pods that are bound concurrently."""
_BACKOFF: Final = (0.02, 1.0)
"""Seconds before a pod's second attempt, and the longest wait between two attempts that a change may help."""


@dataclass(slots=True)
class _Failure:
    """A plan that is given up, and the progress of Unreserve.

    Attributes:
        problem: the reason.
        claim: `namespace/name` of the claim that is being released now.
        left: the claims that could not be released, with the API server's messages.
    """

    problem: PlanFailed
    claim: str = ""
    left: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        left = (f"; claim {ref} is not given back: {words}" for ref, words in self.left.items())
        return str(self.problem) + "".join(left)


class Scheduler(Looping[str]):
    """Schedules the pods that name it: `async with Scheduler(caches, pools, executor)`.

    Create it before the caches are entered, like `ClaimController`.
    """

    def __init__(
        self,
        caches: Caches,
        pools: PoolIndex,
        executor: Executor,
        settings: SchedulerSettings | None = None,
        metrics: ControlMetrics | None = None,
    ) -> None:
        """Create a scheduler that does not run yet.

        Args:
            caches: the cluster.
            pools: its pools.
            executor: carries out the writes.
            settings: the settings of scheduling.
            metrics: counts attempts and bindings.
        """
        self._caches = caches
        self._pools = pools
        self._settings = settings = settings or SchedulerSettings()
        self._plans: dict[str, Plan] = {}
        self._failed: dict[str, _Failure] = {}
        self._times: dict[str, PreBindTimes] = {}
        self._releasing: dict[str, Unschedulable] = {}
        self._unreleased: dict[str, Unschedulable] = {}
        self._doubts = UnconfirmedWrites()
        self._waits = WaitingPods(
            SeenConditions(caches.claims),
            settings.binding_timeout,
            enabled=settings.features.binding_conditions,
        )
        self._tries = Attempts(settings.setback)
        self._metrics = metrics or ControlMetrics()
        self._metrics.show_pending(self._pending)
        self._waiting: set[str] = set()
        self._turn = asyncio.Lock()
        self._users = Index(caches.pods, used_names)
        self._view = ClusterView(caches, pools, settings)
        queue = WorkQueue[str](*_BACKOFF)
        self._execute = executor.execute
        self._loop = Loop("scheduler", self, self._carry_out, workers=_WORKERS, queue=queue)
        caches.pods.subscribe(self._pod_changed)
        caches.claims.subscribe(self._claim_changed)
        caches.nodes.subscribe(self._node_changed)
        caches.slices.subscribe(lambda *_: self._wake())
        caches.rules.subscribe(self._rule_changed)
        caches.classes.subscribe(lambda *_: self._wake())

    async def decide(self, key: str) -> Step:
        """Return the next step for a pod: make a plan if there is none, then write it."""
        plan, pod = self._plans.get(key), self._caches.pods.items.get(key)
        self._releasing.pop(key, None)
        if plan is not None and self._in_doubt(key):
            return Step(NextAction.AGAIN, LookUpPlan(key, tuple(self._claims_of(plan)), pod))
        if pod is None or not self._mine(pod):
            self._forget(key)
            self._tries.forget(key)
            return Step(NextAction.DONE)
        if plan is not None and plan.pod_uid == pod.metadata.uid:
            return self._timed(self._write(key, pod, plan), key)
        unreleased = self._unreleased.get(key)
        self._forget(key)
        if unreleased is not None and (report := _news(pod, unreleased)) is not None:
            return Step(NextAction.AGAIN, report)
        if (rest := self._tries.rest(key)) > 0:
            self._loop.queue.add_after(key, rest)
            return Step(NextAction.WAIT)
        verdict = await self._schedule(key, pod)
        # Planning takes a while, so the next call decides on the writes with the newest version of the pod.
        return (
            self._unschedulable(key, pod, verdict)
            if isinstance(verdict, Unschedulable)
            else Step(NextAction.AGAIN)
        )

    async def failed(self, key: str, error: DraError) -> None:
        """Give up the plan whose write failed, unless the error is temporary (see `UnconfirmedWrites.failed`).

        If Unreserve or PostFilter could not release a claim, the claim stays as it is.
        """
        plan = self._plans.get(key)
        if plan is None:
            if (verdict := self._releasing.pop(key, None)) is not None:
                self._unreleased[key] = verdict
                self._tries.set_back(key)
            return
        if self._doubts.failed(key, error):
            return
        failure = self._failed.get(key)
        if failure is None:
            self._give_up(key, plan, WriteFailed(str(error)))
        else:
            failure.left[failure.claim] = str(error)
            self._doubts.restart(key)

    async def _carry_out(self, action: Action) -> bool:
        if not isinstance(action, CreateClaim):
            done = await self._execute(action)
            if done and isinstance(action, Bind):
                self._doubts.open(action.pod.ref)
            elif done and isinstance(action, LookUpPlan):
                self._doubts.settle(action.wanted_for)
            return done
        done = False
        try:
            done = await self._execute(action)
        finally:
            self._metrics.created_special("success" if done else "failure")
        return done

    def _in_doubt(self, key: str) -> bool:
        plan, pod = self._plans.get(key), self._caches.pods.items.get(key)
        return plan is not None and key in self._doubts and not is_bound(plan, pod)

    def _timed(self, step: Step, key: str) -> Step:
        if step.deadline is not None:
            wait = (step.deadline - datetime.now(UTC)).total_seconds()
            self._loop.queue.add_after(key, max(0.0, wait))
        return step

    def _mine(self, pod: Pod) -> bool:
        return (
            not pod.spec.node_name
            and not pod.finished
            and pod.metadata.deletion_timestamp is None
            and (pod.spec.scheduler_name or DEFAULT_NAME) == DEFAULT_NAME
        )

    def _forget(self, key: str) -> None:
        self._waiting.discard(key)
        self._waits.forget(key)
        failure = self._failed.pop(key, None)
        self._doubts.forget(key)
        self._unreleased.pop(key, None)
        plan = self._plans.pop(key, None)
        pod = self._caches.pods.items.get(key)
        if plan is not None and is_bound(plan, pod):
            self._bound(key, plan)
        elif plan is not None and failure is None:
            self._timed_prebind(key, plan, "error")  # the pod was deleted, or another scheduler bound it
        self._times.pop(key, None)
        if plan is not None and (pod is None or not pod.spec.node_name):
            self._wake()  # the plan's devices are free

    async def _schedule(self, key: str, pod: Pod) -> Plan | Unschedulable:
        # Every change from here on wakes the pod again.
        self._waiting.add(key)
        async with self._turn:
            await self._pools.take()
            # Assumed allocations and stored claims are read in one step, or a device could be in neither. All
            # slow work happens in the thread.
            began = self._tries.begin(key)
            view = self._view.of(pod, self._plans, self._waits.patience())
            times = FilterTimes(self._tries.now)
            verdict = await asyncio.to_thread(_plan, pod, view, times)
            now = self._tries.now()
            self._metrics.ran("Filter", _status(passed=isinstance(verdict, Plan)), now - began)
            for plugin, spent in times.plugins.items():
                self._metrics.ran_plugin(plugin, "Filter", _status(passed=spent.passed), spent.seconds)
            if isinstance(verdict, Unschedulable) and verdict.reason == UNDECIDED:
                self._metrics.gave_up()
            if isinstance(verdict, Plan):
                self._plans[key] = verdict
                self._times[key] = PreBindTimes(now)
                self._waiting.discard(key)
        return verdict

    def _write(self, key: str, pod: Pod, plan: Plan) -> Step:
        claims, patience = self._caches.claims.items, self._waits.patience()
        plan = self._plans[key] = settled(plan, pod, claims)
        if key not in self._failed:
            try:
                self._check_node(key, plan)
                step = next_step(plan, pod, claims, patience)
            except PlanFailed as problem:
                self._give_up(key, plan, problem)
            else:
                if step.then is NextAction.WAIT:
                    return self._wait(key, pod, plan, step)
                self._times[key].go_on(self._tries.now(), bind=isinstance(step.action, Bind))
                return step
        failure = self._failed[key]
        release = unreserve(plan, pod, claims, patience, failure.left)
        if release is not None:
            failure.claim = release.claim.ref
            return Step(NextAction.AGAIN, release)
        self._forget(key)
        report = ReportUnschedulable(pod, "SchedulerError", str(failure))
        if not isinstance(failure.problem, (BindingFailed, WriteFailed)) and not failure.left:
            return Step(NextAction.LATER, report)
        self._loop.queue.add_after(key, self._tries.set_back(key))
        return Step(NextAction.WAIT, report)

    def _check_node(self, key: str, plan: Plan) -> None:
        if key in self._waits and plan.node not in self._caches.nodes.items:
            raise PlanFailed(f"node {plan.node} was deleted in the meantime")

    def _wait(self, key: str, pod: Pod, plan: Plan, step: Step) -> Step:
        """Return the step of a pod that waits.

        Drops the plan's allocations: they are written, so the claims now contain them, as after a crash.
        """
        self._plans[key] = dataclasses.replace(plan, allocations={})
        self._times[key].wait(self._tries.now())
        return self._waits.go_on(key, pod, self._claims_of(plan), step)

    def _claims_of(self, plan: Plan) -> list[ResourceClaim]:
        known = self._caches.claims.items
        return [known[ref] for ref, _ in plan.claims if ref in known]

    def _bound(self, key: str, plan: Plan) -> None:
        self._timed_prebind(key, plan, "success")
        self._metrics.scheduled(*self._tries.so_far(key))

    def _give_up(self, key: str, plan: Plan, problem: PlanFailed) -> None:
        self._failed[key] = _Failure(problem)
        self._doubts.restart(key)
        self._timed_prebind(key, plan, problem.state.value if isinstance(problem, BindingFailed) else "error")

    def _timed_prebind(self, key: str, plan: Plan, status: str) -> None:
        now, times = self._tries.now(), self._times[key]
        seconds, waited = times.seconds(now), times.seconds_waited(now)
        through = "Success" if times.ended is not None else "Error"
        self._metrics.ran("PreBind", through, seconds)
        if not plan.claims and plan.special is None:
            return  # kube-scheduler skips the plugin for such pods
        self._metrics.ran_plugin("DynamicResources", "PreBind", through, seconds)
        if waited is None and status != "error":
            waited = 0.0  # there was nothing to wait for
        # With the gate off, the conditions of earlier allocations are ignored.
        claims = self._claims_of(plan) if self._settings.features.binding_conditions else []
        self._metrics.bound(claims, status, seconds, waited)

    def _pending(self) -> Mapping[str, int]:
        queue = self._loop.queue
        keys = {*self._waiting, *self._waits, *queue.in_line, *queue.put_off}
        counts = dict.fromkeys(("active", "backoff", "unschedulable", "gated", "waiting"), 0)
        for name in filter(None, map(self._queue_of, keys)):
            counts[name] += 1
        return counts

    def _queue_of(self, key: str) -> str | None:
        """Return the one queue that has a pod; None for a pod in work, or one that needs no scheduling here."""
        pod, queue = self._caches.pods.items.get(key), self._loop.queue
        if pod is None or not self._mine(pod):
            return None
        states = (
            ("waiting", key in self._waits),
            ("gated", bool(pod.spec.scheduling_gates)),
            (None, queue.is_worked_on(key)),
            ("active", key in queue.in_line),
            ("backoff", key in queue.put_off),
        )
        return next((name for name, is_so in states if is_so), "unschedulable")

    def _unschedulable(self, key: str, pod: Pod, verdict: Unschedulable) -> Step:
        if verdict.releases:
            self._releasing[key] = verdict
            return Step(NextAction.AGAIN, verdict.releases[0])
        return Step(NextAction.WAIT, _news(pod, verdict))

    def _wake(self) -> None:
        for key in self._waiting:
            self._loop.queue.add_later(key)

    def _pod_changed(self, _kind: ChangeKind, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        if pod is None or (old is not None and new is not None and asked_by(old) == asked_by(new)):
            return  # a status that this scheduler or the kubelet wrote
        left_its_node = old is not None and holds(old) and (new is None or not holds(new))
        if left_its_node and (self._view.keeps_distance or amounts_of(pod)):
            self._wake()  # pods that anti-affinity or a lack of resources kept waiting may fit now
        # At once, because others may wait for the plan's devices. But a write of the plan that is under way or
        # unconfirmed may still be stored: then the next decision forgets the plan.
        unknown = self._loop.queue.is_worked_on(pod.ref) or self._in_doubt(pod.ref)
        if (new is None or not self._mine(new)) and not unknown:
            self._forget(pod.ref)
            self._tries.forget(pod.ref)
        # In that case too: the queue forgets a key when its work is done.
        self._loop.queue.add(pod.ref)

    def _claim_changed(self, _kind: ChangeKind, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        if old is not None and old.allocation is not None and (new is None or new.allocation is None):
            self._wake()
            self._waits.let_go(old)
        claim = new or old
        for pod in self._users_of(claim) if claim is not None else ():
            # A pod that was set back is not woken by its own release.
            if pod.ref in self._waiting or (pod.ref in self._waits and pod.ref not in self._failed):
                self._loop.queue.add(pod.ref)

    def _users_of(self, claim: ResourceClaim) -> list[Pod]:
        owner = claim.metadata.controller
        pods = list(self._users.of(claim.ref))
        if owner is not None and owners_of(claim):  # no spec names a special claim
            pod = self._caches.pods.items.get(f"{claim.metadata.namespace}/{owner.name}")
            pods += [pod] if pod is not None else []
        return pods

    def _node_changed(self, _kind: ChangeKind, old: Node | None, new: Node | None) -> None:
        if new is not None and (old is None or offered_by(old) != offered_by(new)):
            self._wake()
        if new is None and old is not None:
            for key, plan in self._plans.items():
                if plan.node == old.metadata.name:
                    self._loop.queue.add(key)

    def _rule_changed(
        self, _kind: ChangeKind, old: DeviceTaintRule | None, new: DeviceTaintRule | None
    ) -> None:
        if old is None or new is None or old.spec != new.spec:
            self._wake()


def _plan(pod: Pod, view: tuple[Snapshot, Sequence[Plan]], times: FilterTimes) -> Plan | Unschedulable:
    snapshot, plans = view
    in_use = InUse.of(with_assumed(snapshot.claims.values(), plans))
    return schedule(pod, dataclasses.replace(snapshot, in_use=in_use), times)


def _status(*, passed: bool) -> str:
    return "Success" if passed else "Unschedulable"


def _news(pod: Pod, verdict: Unschedulable) -> ReportUnschedulable | None:
    """Return the report that the pod's condition does not contain yet, or None."""
    said = next((c for c in pod.status.conditions if c.type == "PodScheduled"), None)
    told = said is not None and (said.reason, said.message) == (verdict.reason, verdict.message)
    if verdict.quiet or (told and not pod.status.nominated_node_name):
        return None
    return ReportUnschedulable(pod, verdict.reason, verdict.message)
