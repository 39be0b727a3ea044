"""The scheduler of the extender: makes plans for `filter`, writes them for `bind`, and nudges pods.

kube-scheduler keeps the queue of pods. It does not try a refused pod again when slices change
(`UnrollWildCardResource` in its `framework/types.go` lists the changes after which it does). A waiting pod that
fits after a change of slices, classes or claims is nudged, and its plan is nominated, so that only as many pods
are nudged as can be placed. `pod_states` has a table of the states of a pod.

When a missing claim of a pod is created, kube-scheduler tries the pod again by itself. But its `filter` may
come before the extender has received the claim, and is then in vain. Such a pod is nudged later, also if it
does not fit, because only `filter` can evict other pods for it.
"""

import logging
from collections.abc import Collection, Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Self

from dradriver.aio.key_locks import KeyLocks
from dradriver.control.claims.pod_claims import is_reserved_for
from dradriver.control.extended import requested_amounts
from dradriver.control.preemption.victims import Preemption, Victims
from dradriver.control.runtime.actions import Action, Bind, NextAction, Nudge, Step, WriteContext
from dradriver.control.runtime.caches import Caches, Index
from dradriver.control.runtime.executor import Executor
from dradriver.control.runtime.metrics import ControlMetrics
from dradriver.control.scheduler.binding.binding_conditions import find_deadline
from dradriver.control.scheduler.binding.binding_cycle import BindingCycle
from dradriver.control.scheduler.binding.failed_plan import FailedPlan
from dradriver.control.scheduler.binding.plan_writes import PlanFailed
from dradriver.control.scheduler.pipeline import list_releases
from dradriver.control.scheduler.snapshot import NoNode, Plan, Unschedulable, assumed_allocations
from dradriver.control.settings import SchedulerSettings
from dradriver.errors import DraError
from dradriver.extender.bind_calls import BindCalls, BindError
from dradriver.extender.filter_calls import FilterCalls
from dradriver.extender.nominations import BIND_SECONDS, NUDGE_SECONDS, Nominations
from dradriver.extender.pod_states import PodStates
from dradriver.model.classic.names import MAX_POTENTIAL_NODES
from dradriver.model.core.workload import Pod

__all__ = ["MAX_NODES", "ExtenderCycle"]

_log = logging.getLogger(__name__)

MAX_NODES: Final = 100
"""Maximum number of nodes in an answer of `filter` (kube-scheduler's `minFeasibleNodesToFind`)."""

_NOT_HELD: Final = 0.9
"""Score of a node as good as the node of the plan: one point of `MAX_SCORE` less.

Until `bind`, only the devices of the plan are kept from other pods. On another node, `bind` must make a new
plan, and fails if the devices are gone.
"""


class ExtenderCycle(BindingCycle):
    """Makes and carries out the plans of the extender: `async with ExtenderCycle(...)`.

    Attributes:
        pod_states: describes the state of a pod for users.
    """

    def __init__(
        self,
        caches: Caches,
        executor: Executor,
        settings: SchedulerSettings,
        metrics: ControlMetrics,
        scheduler_names: Collection[str],
    ) -> None:
        """Create a cycle that does not run yet.

        Args:
            caches: the cached objects of the cluster.
            executor: carries out the writes.
            settings: the settings of scheduling.
            metrics: receives counts and durations.
            scheduler_names: the profiles of kube-scheduler that use this extender (`spec.schedulerName`).
        """
        super().__init__("extender", caches, executor, settings, metrics)
        self._loop.queue.register_metrics(metrics.queues, "extender")
        self._scheduler_names = frozenset(scheduler_names)
        self._pods_by_uid = Index(caches.pods, lambda pod: (pod.metadata.uid,))
        self._deciding = KeyLocks()
        self._nominations = Nominations()
        self._filter_calls = FilterCalls()
        self._abandoned: set[str] = set()
        self._context_writes: dict[str, WriteContext] = {}
        self._potential_nodes: dict[str, tuple[str, ...]] = {}
        self._calls = BindCalls(self._loop.queue.add)
        self.pod_states = PodStates(
            caches,
            self._plans,
            self._failures,
            self._waiting_pods,
            self._unschedulable,
            self._filter_calls,
            self._nominations,
            self._calls,
        )
        # Under `packed`, the devices decide on the node. Otherwise kube-scheduler chooses among suitable nodes.
        self._other_nodes = 0 if settings.order.compute_preferences is not None else MAX_NODES - 1

    async def __aenter__(self) -> Self:
        # A previous process may have refused any pod without a node, and nobody else tries these pods again.
        for key, pod in self._caches.pods.items.items():
            if _needs_devices(pod) and not pod.spec.scheduling_gates and self.is_responsible_for(pod):
                self._unschedulable.add(key, pod.priority)
                self._loop.queue.add(key)
        return await super().__aenter__()

    # --- the verbs -----------------------------------------------------------------------------

    async def find_nodes(self, pod: Pod, nodes: Sequence[str]) -> Plan | Unschedulable:
        """Make a plan for a pod, and nominate it until `bind` is called.

        Args:
            pod: the pod. It may be newer than the pod in the caches.
            nodes: the nodes that passed kube-scheduler's filters. Only the nominated node: if it does not suit
                the pod, the nomination stays, and kube-scheduler asks about all nodes next.

        Raises:
            BindError: the devices of the last attempt are being released.
        """
        key = pod.ref
        async with self._deciding.hold(key):
            self._end_last_call(key)
            self._caches.pods.apply_written(pod)
            self._abandoned.discard(key)
            self._context_writes.pop(key, None)
            before = self._plans.get(key)
            if self._filter_calls.is_first(key):
                self._attempts.begin(key)
            is_alone = self._filter_calls.begin(key, pod, nodes)
            try:
                verdict = await self._plan(key, pod, nodes, self._other_nodes, preempts=not is_alone)
            finally:
                if key not in self._plans:
                    self._nominations.discard(key)
                if _uses(before) - _uses(self._plans.get(key)):
                    self._unschedulable.wake_all(but=key)  # devices of the last plan are free now
            if isinstance(verdict, Unschedulable) and verdict.lacks_claims:
                self._filter_calls.record_lacked_claims(key, self._attempts.now())
            else:
                self._filter_calls.discard_lacked_claims(key)
            if is_alone and isinstance(verdict, Unschedulable):
                self._filter_calls.expect_all_nodes(key)
                return replace(verdict, releases=(), preemption=Preemption(pod.status.nominated_node_name))
            if isinstance(verdict, Unschedulable) and verdict.preemption and verdict.preemption.victims:
                self._filter_calls.record_evictions(key, verdict.preemption.node)
            is_in_vain = before is not None and before.node not in nodes
            has_writes = isinstance(verdict, Unschedulable) and bool(verdict.releases or verdict.preemption)
            self._exclude_nodes(key, nodes, start=is_in_vain or has_writes)
            if isinstance(verdict, Plan):
                self._nominate(key, verdict, BIND_SECONDS)
            elif verdict.releases:
                if isinstance(write := verdict.releases[0], WriteContext):
                    self._context_writes[key] = write  # a round of the negotiation does not wait for a backoff
                self._loop.queue.add(key)
        return verdict

    def _end_last_call(self, key: str) -> None:
        """End the call of `bind` of the last scheduling attempt.

        kube-scheduler filters no pod that it binds. So if there is a call, kube-scheduler was restarted, or it
        has given up the call, and the server has not noticed this.

        Raises:
            BindError: the devices of the last attempt are being released.
        """
        if key in self._calls:
            self._calls.fail(key, f"pod {key}: a new scheduling attempt has begun")
            self._loop.queue.add(key)
        if key in self._plans and key not in self._nominations:
            raise BindError(f"pod {key}: the devices of the last attempt are being released")

    def accepts_all(self, pod: Pod) -> bool:
        """Return whether a pod needs no devices, so that each node suits it; it needs no nomination.

        Args:
            pod: the pod. It may be newer than the pod in the caches, where `bind` will look for it.
        """
        if _needs_devices(pod):
            return False
        self._caches.pods.apply_written(pod)
        return True

    def _exclude_nodes(self, key: str, nodes: Sequence[str], *, start: bool) -> None:
        """Record which nodes kube-scheduler excludes for a pod.

        They are recorded only from the first attempt on for which they matter: the pod was nudged for one of
        them, has devices there that must be released, or evicts other pods although a device is free there.
        """
        if start or self._filter_calls.excluded(key) is not None:
            self._filter_calls.exclude(key, self._caches.nodes.items.keys() - set(nodes))

    def evicts_on(self, pod: Pod) -> str:
        """Return the node from which the last `filter` of a pod evicts pods; empty if there is none."""
        return self._filter_calls.evicts_on(pod.ref)

    def find_pods(self, uids: Iterable[str]) -> list[Pod]:
        """Return the pods with these UIDs.

        Raises:
            DraError: a pod is unknown. Its creation may not have been seen yet.
        """
        found: list[Pod] = []
        for uid in uids:
            pods = self._pods_by_uid.find(uid)
            if not pods:
                raise DraError(f"pod with uid {uid}: is unknown to the extender")
            found += pods
        return found

    async def trim_victims(self, pod: Pod, victims: Mapping[str, Sequence[Pod]]) -> Mapping[str, Victims]:
        """Return the nodes on which the eviction of kube-scheduler's victims gives a pod its devices, too.

        Args:
            pod: the pod that preempts. If it lacks claims, it is nudged when they are known: kube-scheduler has
                excluded all nodes itself, and does not try the pod again because of claims.
            victims: for each node, the pods that kube-scheduler will evict from it.

        Returns:
            For each node that is kept, all pods to evict.
        """
        try:
            return await self.scheduling.trim_victims(pod, victims)
        except NoNode as refusal:
            if (key := pod.ref) not in self._unschedulable and key not in self._plans:
                self._caches.pods.apply_written(pod)
                self._unschedulable.add(key, pod.priority)
                self._filter_calls.refuse(key, refusal.verdict.message)
                self._filter_calls.record_lacked_claims(key, self._attempts.now())
                self._exclude_nodes(key, (), start=True)
                self._loop.queue.add(key)  # the claims may have arrived meanwhile
            return {}

    def score_nodes(self, pod: Pod, nodes: Sequence[str]) -> dict[str, float]:
        """Return the scores of nodes, from 0 to 1. A node that the last `filter` did not find has the score 0.

        `filter` has compared the nodes, because it looks for the best node first.
        """
        start = self._attempts.now()
        found = self._nominations.scores(pod.ref)
        scores = {name: found.get(name, 0.0) for name in nodes}
        if _needs_devices(pod):
            self._attempts.record_score(self._attempts.now() - start)
        return scores

    def bind(self, key: str, uid: str, node: str) -> Coroutine[Any, Any, None]:
        """Reserve the devices of a pod, wait until they are ready, and bind the pod.

        Raises:
            BindError: the pod was not bound, and its devices were released.
        """
        return self._calls.wait(key, uid, node, self._loop.queue.add)

    # --- steps ---------------------------------------------------------------------------------

    def is_responsible_for(self, pod: Pod) -> bool:
        """Return whether the pod has no node, has not ended, and its scheduler uses this extender."""
        return (
            not pod.spec.node_name
            and not pod.finished
            and pod.metadata.deletion_timestamp is None
            and pod.spec.scheduler_name in self._scheduler_names
        )

    async def decide(self, key: str) -> Step:
        """Return the next step for a pod. A nominated plan is not written before `bind` is called."""
        try:
            return await self._decide(key)
        except Exception:
            # Otherwise kube-scheduler would wait until its time limit. The next decision reverts the plan.
            self._calls.fail(key, "internal error of `dradriver scheduler`, see its log")
            raise

    async def _decide(self, key: str) -> Step:
        async with self._deciding.hold(key):
            pod = self._caches.pods.items.get(key)
            if key not in self._nominations or pod is None or not self.is_responsible_for(pod):
                return await super().decide(key)
            if key in self._calls or key in self._failures:
                self._end_nomination(key)
                return await super().decide(key)
            if self._nominations.seconds_left(key) <= 0 and self._holds_devices(key, pod):
                self._nominations.add(key, NUDGE_SECONDS, self._nominations.scores(key))
            if (left := self._nominations.seconds_left(key)) > 0:
                self._loop.queue.add_after(key, left)
                return Step(NextAction.WAIT)
            _log.info("pod %s: its devices are free again: kube-scheduler did not bind it in time", key)
            self.forget(key)
            self._abandoned.add(key)
            return self._release(key, pod)

    def _holds_devices(self, key: str, pod: Pod) -> bool:
        """Return whether devices are ready or becoming ready for a pod, and their deadline has not passed.

        An earlier process, or an earlier call of `bind`, may have allocated them.
        """
        claims = [each for each in self._claims_of(self._plans[key]) if is_reserved_for(each, pod)]
        end = find_deadline(claims, deadline := self._waiting_pods.deadline(key))
        return end is not None and deadline.now is not None and deadline.now < end

    def _release(self, key: str, pod: Pod) -> Step:
        """Release the devices of a pod that kube-scheduler does not try any more, one claim at a time.

        Its other filters may exclude all nodes: then it never calls this extender about the pod.
        """
        releases = list_releases(pod, self._caches.claims.items, self._view.special_claims(pod))
        if releases:
            return Step(NextAction.CONTINUE, releases[0])
        self._abandoned.discard(key)
        return Step(NextAction.WAIT)

    def _end_nomination(self, key: str) -> None:
        """Use the nominated plan for the call of `bind`, if it is for the same pod and node."""
        plan = self._plans[key]
        self._nominations.discard(key)
        if key not in self._failures and not self._calls.is_for(key, plan.pod_uid, plan.node):
            self._potential_nodes[key] = plan.potential_nodes
            self._view.drop_plan(key)
            self._unschedulable.wake_all(but=key)  # the plan's devices are free now
        else:
            self._view.forget_other_nodes(key)

    def _write(self, key: str, pod: Pod, plan: Plan) -> Step:
        # The call may have been abandoned while the plan was made, or between two writes.
        if key not in self._failures and not self._calls.is_for(key, plan.pod_uid, plan.node):
            self._give_up(key, plan, PlanFailed("kube-scheduler gave up before the pod was bound"))
        return super()._write(key, pod, plan)

    async def decide_without_plan(self, key: str, pod: Pod) -> Step:
        """Make a plan for the call of `bind`; without a call, nudge the pod if it fits now."""
        if key in self._plans:
            self.forget(key)  # the plan is for a deleted pod of the same name
        node = self._calls.node(key)
        if node is not None:
            self._abandoned.discard(key)
            return await self._plan_for_bind(key, pod, node)
        if key in self._abandoned:
            return self._release(key, pod)
        if key not in self._unschedulable:
            return Step(NextAction.DONE)
        if (write := self._context_writes.pop(key, None)) is not None:
            return Step(NextAction.CONTINUE, write)
        if (backoff := self._attempts.remaining_backoff(key)) > 0:
            self._loop.queue.add_after(key, backoff)
            return Step(NextAction.WAIT)
        excluded = self._filter_calls.excluded(key)
        nodes = None if excluded is None else self._caches.nodes.items.keys() - excluded
        verdict = await self._plan(key, pod, nodes)
        if isinstance(verdict, Plan):
            self._nominate(key, verdict, NUDGE_SECONDS)
            self._attempts.back_off(key)
            return Step(NextAction.WAIT, Nudge(pod))
        if verdict.releases:
            self._releasing[key] = verdict
            return Step(NextAction.CONTINUE, verdict.releases[0])
        return Step(NextAction.WAIT, None if verdict.lacks_claims else self._repeat_call(key, pod))

    def _repeat_call(self, key: str, pod: Pod) -> Nudge | None:
        """Nudge a pod that has its claims now, if kube-scheduler does not call by itself in time."""
        lacked_at = self._filter_calls.lacked_claims_at(key)
        if lacked_at is None:
            return None
        if (left := lacked_at + NUDGE_SECONDS - self._attempts.now()) > 0:
            self._loop.queue.add_after(key, left)
            return None
        return Nudge(pod)

    async def _plan(
        self, key: str, pod: Pod, nodes: Collection[str] | None, others: int = 0, *, preempts: bool = False
    ) -> Plan | Unschedulable:
        """Make a plan for a pod with `scheduling`, and remember why there is none."""
        verdict = await self.scheduling.plan(key, pod, nodes, others, preempts=preempts)
        if isinstance(verdict, Plan):
            self._filter_calls.accept(key)
        else:
            self._filter_calls.refuse(key, verdict.message)
        return verdict

    async def _plan_for_bind(self, key: str, pod: Pod, node: str) -> Step:
        if pod.metadata.uid != self._calls.uid(key):
            self._calls.fail(key, f"pod {key} was deleted, and a new pod has its name")
        elif node not in self._caches.nodes.items:
            self._calls.fail(key, f"node {node} was deleted")
        else:
            verdict = await self.scheduling.plan(key, pod, [node])
            if isinstance(verdict, Plan):
                self._keep_potential_nodes(key, verdict)
                return Step(NextAction.CONTINUE)
            self._calls.fail(key, verdict.message)
        return Step(NextAction.WAIT)

    def _keep_potential_nodes(self, key: str, plan: Plan) -> None:
        """Keep the potential nodes of `filter`: for `bind`, the plan was made for one node."""
        known, context = self._potential_nodes.pop(key, ()), self._caches.contexts.items.get(key)
        if not known and context is not None and context.is_for(plan.pod_uid):
            known = tuple(context.spec.potential_nodes)
        if plan.pending_classic and known:
            names = dict.fromkeys([plan.node, *known])
            self._view.update_plan(key, replace(plan, potential_nodes=tuple(names)[:MAX_POTENTIAL_NODES]))

    def report_failure(self, key: str, pod: Pod, failure: FailedPlan) -> Step:
        """Answer the call of `bind`. kube-scheduler reports the failure, and tries the pod again."""
        self._calls.fail(key, str(failure))
        # kube-scheduler tries the pod again soon. If not, its devices are released.
        self._unschedulable.add(key, pod.priority)
        self._loop.queue.add_after(key, NUDGE_SECONDS)
        return Step(NextAction.WAIT)

    def forget(self, key: str) -> None:
        """Drop the plan of a pod, and answer its call of `bind`."""
        pod = self._caches.pods.items.get(key)
        super().forget(key)
        self._nominations.discard(key)
        self._filter_calls.forget(key)
        self._abandoned.discard(key)
        self._context_writes.pop(key, None)
        self._potential_nodes.pop(key, None)
        if pod is not None and self._calls.is_for(key, pod.metadata.uid, pod.spec.node_name):
            self._calls.succeed(key)
        elif pod is None or not self.is_responsible_for(pod):
            self._calls.fail(key, self._why_not(key, pod))

    def _why_not(self, key: str, pod: Pod | None) -> str:
        """Return why this process must not bind a pod."""
        if pod is not None and pod.spec.node_name:
            return f"pod {key} is bound to node {pod.spec.node_name}"
        if pod is not None and pod.spec.scheduler_name not in self._scheduler_names:
            return f"pod {key}: spec.schedulerName: {pod.spec.scheduler_name} is not a profile of the extender"
        return f"pod {key} was deleted, or has ended"

    async def _carry_out(self, action: Action) -> bool:
        if isinstance(action, Nudge):
            return await self._nudge(action)
        done = await super()._carry_out(action)
        if done and isinstance(action, Bind):
            meta = action.pod.metadata
            if self._calls.is_for(action.pod.ref, meta.uid, action.node):
                self._calls.succeed(action.pod.ref)
        return done

    async def _nudge(self, action: Nudge) -> bool:
        """Nudge a pod. If the write fails, the pod is refused again, and another attempt follows."""
        key = action.pod.ref
        plan, done = self._plans.get(key), False
        try:
            done = await super()._carry_out(action)
        finally:
            if done:
                self._filter_calls.discard_lacked_claims(key)
            if not done and key in self._nominations and self._plans.get(key) is plan:
                self._nominations.discard(key)
                self._view.drop_plan(key)
                self._unschedulable.add(key, action.pod.priority)
                self._unschedulable.wake_all()  # the plan's devices are free now
        return done

    def _nominate(self, key: str, plan: Plan, seconds: float) -> None:
        others = {name: _NOT_HELD * score for name, score in plan.other_nodes.items()}
        self._nominations.add(key, seconds, {plan.node: 1.0, **others})
        self._loop.queue.add_after(key, seconds)


def _needs_devices(pod: Pod) -> bool:
    return bool(pod.spec.resource_claims) or bool(requested_amounts(pod))


def _uses(plan: Plan | None) -> set[object]:
    """Return the node of a plan, and the devices that it assumes."""
    if plan is None:
        return set()
    assumed = [each.allocation for _, each in assumed_allocations(plan)]
    return {plan.node, *(result.id for allocation in assumed for result in allocation.devices.results)}
