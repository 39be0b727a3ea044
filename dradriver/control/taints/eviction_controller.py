"""The device taint eviction controller: delete each pod when NoExecute taints on its devices require this.

`eviction` computes when a pod must be evicted, and `rule_status` computes the status of a rule. The controller
stores in memory which pods are due (to report a canceled eviction), which pods were deleted, and how many pods
were deleted for each rule. If the process dies, this data is lost, as in Kubernetes: the next process finds the
due pods again, and counts from zero.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Final

from msgspec.structs import replace

from dradriver.control.claims.pod_claims import pod_reference
from dradriver.control.runtime.actions import Action, EmitEvent, Evict, NextAction, SetRuleCondition, Step
from dradriver.control.runtime.bounded_set import BoundedSet
from dradriver.control.runtime.caches import Caches, Index
from dradriver.control.runtime.executor import Executor
from dradriver.control.runtime.loop import Loop, LoopController
from dradriver.control.runtime.metrics import ControlMetrics
from dradriver.control.runtime.work_queue import ObjectKey, WorkQueue
from dradriver.control.taints.eviction import EvictingTaint, Eviction, TaintsOf, pod_eviction
from dradriver.control.taints.published_taints import PublishedTaints
from dradriver.control.taints.rule_status import STATUS_PERIOD, Counts, next_condition, next_update
from dradriver.kube import ChangeKind
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import DeviceResult, ResourceClaim
from dradriver.model.resource.slices import ResourceSlice
from dradriver.model.resource.taint_rule import DeviceTaintRule

__all__ = ["NAME", "EvictionController"]

NAME: Final = "device-taint-eviction-controller"
"""The name of the controller's work queue, the component of its events, and its field manager."""

_REASON: Final = "DeletionByDeviceTaintManager"
_MESSAGE: Final = "Device Taint manager: deleting due to NoExecute taint"
_EVENT: Final = ("DeviceTaintManagerEviction", "Marking for deletion")


class EvictionController(LoopController[ObjectKey]):
    """Evicts pods, and writes the rules' status: `async with EvictionController(caches, executor)`.

    Create the controller before the caches are entered, like `ClaimController`.
    """

    def __init__(
        self, caches: Caches, executor: Executor, metrics: ControlMetrics | None = None, *, workers: int = 8
    ) -> None:
        self._caches = caches
        self._published = PublishedTaints()
        self._evicting_rules: dict[str, DeviceTaintRule] = {}
        self._claims_by_pool = Index(caches.claims, _pools_of)
        self._due: dict[str, Eviction] = {}
        self._evicted = BoundedSet()
        self._evicted_by_rule: Counter[str] = Counter()
        self._execute = executor.execute
        self._metrics = metrics or ControlMetrics()
        self._queue = WorkQueue[ObjectKey](0.005, 30.0)
        self._queue.register_metrics(self._metrics.queues, NAME)
        self._loop = Loop(NAME, self, self._carry_out, workers=workers, queue=self._queue)
        caches.rules.subscribe(self._rule_changed)
        caches.slices.subscribe(self._slice_changed)
        caches.claims.subscribe(self._claim_changed)
        caches.pods.subscribe(self._pod_changed)

    async def decide(self, key: ObjectKey) -> Step:
        """Return the next step for a pod or a rule."""
        return self._decide_pod(key) if key.kind == "pod" else self._decide_rule(key)

    def _decide_pod(self, key: ObjectKey) -> Step:
        pod = self._caches.pods.items.get(key.name)
        if pod is None or pod.metadata.deletion_timestamp is not None or pod.metadata.uid in self._evicted:
            self._forget(key.name)
            return Step(NextAction.DONE)
        eviction = pod_eviction(pod, self._caches.claims.items, self._taints_of)
        if eviction is None:
            if self._forget(key.name) is None:
                return Step(NextAction.DONE)
            event = EmitEvent(pod_reference(pod), "Normal", "DeviceTaintManagerEviction", "Cancelling deletion")
            return Step(NextAction.DONE, event)
        if self._due.get(key.name) != eviction:
            self._due[key.name] = eviction
            self._schedule_status(eviction)
        wait = (eviction.when - datetime.now(UTC)).total_seconds()
        if wait > 0:
            self._queue.add_after(key, wait)
            return Step(NextAction.WAIT)
        return Step(NextAction.CONTINUE, Evict(pod, _REASON, _MESSAGE, _EVENT))

    def _forget(self, ref: str) -> Eviction | None:
        eviction = self._due.pop(ref, None)
        if eviction is not None:
            self._schedule_status(eviction)
        return eviction

    def _schedule_status(self, eviction: Eviction) -> None:
        """Schedule updates of the status of the eviction's rules, delayed because more pods may follow."""
        for rule in self._evicting_rules.values():
            if rule.metadata.uid in eviction.rules:
                self._queue.add_after(ObjectKey("rule", rule.metadata.name), STATUS_PERIOD.total_seconds())

    async def _carry_out(self, action: Action) -> bool:
        done = await self._execute(action)
        if done and isinstance(action, Evict):
            self._evicted.add(action.pod.metadata.uid)
            eviction = self._due.get(action.pod.ref)
            if eviction is not None:
                self._evicted_by_rule.update(eviction.rules)
                self._metrics.record_eviction((datetime.now(UTC) - eviction.when).total_seconds())
        return done

    def _decide_rule(self, key: ObjectKey) -> Step:
        rule = self._caches.rules.items.get(key.name)
        if rule is None:
            return Step(NextAction.DONE)
        now = datetime.now(UTC)
        due = next_update(rule)
        if due is not None and due > now:
            self._queue.add_after(key, (due - now).total_seconds())
            return Step(NextAction.WAIT)
        condition = next_condition(rule, self._counts(rule), now.replace(microsecond=0))
        return Step(NextAction.DONE, SetRuleCondition(rule, condition) if condition is not None else None)

    def _counts(self, rule: DeviceTaintRule) -> Counts:
        evicted = self._evicted_by_rule[rule.metadata.uid]
        if rule.spec.taint.effect == "NoSchedule":
            return Counts(evicted=evicted)
        # A rule with the effect None reports what would happen if its effect were NoExecute.
        as_if = replace(rule, spec=replace(rule.spec, taint=replace(rule.spec.taint, effect="NoExecute")))
        rules = {**self._evicting_rules, rule.metadata.name: as_if}
        selected = list(self._selected_claims(rule))
        pods = {pod.ref: pod for claim in selected for pod in self._pods_of(claim)}
        pending = [pod for pod in pods.values() if self._would_be_evicted(pod, as_if, rules)]
        results = [r for claim in selected for r in claim.results if rule.selects(r.driver, r.pool, r.device)]
        return Counts(
            published=self._published.count_selected(rule),
            allocated=len(results),
            pending=len(pending),
            namespaces=len({pod.metadata.namespace for pod in pending}),
            evicted=evicted,
        )

    def _would_be_evicted(self, pod: Pod, rule: DeviceTaintRule, rules: dict[str, DeviceTaintRule]) -> bool:
        if pod.metadata.deletion_timestamp is not None:
            return False
        eviction = pod_eviction(pod, self._caches.claims.items, self._taints_under(rules))
        return eviction is not None and rule.metadata.uid in eviction.rules

    def _taints_of(self, result: DeviceResult) -> Iterable[EvictingTaint]:
        return self._taints_under(self._evicting_rules)(result)

    def _taints_under(self, rules: dict[str, DeviceTaintRule]) -> TaintsOf:
        def taints_of(result: DeviceResult) -> Iterator[EvictingTaint]:
            yield from self._published.find(result.id)
            for rule in rules.values():
                if rule.selects(result.driver, result.pool, result.device):
                    name = f"DeviceTaintRule {rule.metadata.name}"
                    yield EvictingTaint(rule.spec.taint, name, rule.metadata.uid)

        return taints_of

    def _selected_claims(self, rule: DeviceTaintRule) -> Iterator[ResourceClaim]:
        for claim in self._caches.claims.items.values():
            if any(rule.selects(result.driver, result.pool, result.device) for result in claim.results):
                yield claim

    def _pods_of(self, claim: ResourceClaim) -> Iterator[Pod]:
        for consumer in claim.status.reserved_for:
            pod = self._caches.pods.items.get(f"{claim.metadata.namespace}/{consumer.name}")
            if pod is not None and pod.metadata.uid == consumer.uid:
                yield pod

    def _enqueue_pods(self, claims: Iterable[ResourceClaim]) -> None:
        for claim in claims:
            for pod in self._pods_of(claim):
                self._queue.add(ObjectKey("pod", pod.ref))

    def _rule_changed(
        self, _kind: ChangeKind, old: DeviceTaintRule | None, new: DeviceTaintRule | None
    ) -> None:
        is_same = old is not None and new is not None and old.metadata.uid == new.metadata.uid
        if old is not None and new is not None and is_same and old.spec == new.spec:
            return  # this controller's own write
        if old is not None:
            self._evicting_rules.pop(old.metadata.name, None)
            if not is_same:
                del self._evicted_by_rule[old.metadata.uid]
        if new is not None:
            if new.spec.taint.effect == "NoExecute":
                self._evicting_rules[new.metadata.name] = new
            # The rule is added before its pods, so that it is before them in the queue.
            self._queue.add(ObjectKey("rule", new.metadata.name))
        for rule in (old, new):
            if rule is not None and rule.spec.taint.effect == "NoExecute":
                self._enqueue_pods(self._selected_claims(rule))

    def _slice_changed(self, _kind: ChangeKind, old: ResourceSlice | None, new: ResourceSlice | None) -> None:
        changed = set(self._published.apply(old, new))
        for driver, pool in {(device.driver, device.pool) for device in changed}:
            for claim in list(self._claims_by_pool.find(f"{driver}/{pool}")):
                if any(result.id._replace(share_id="") in changed for result in claim.results):
                    self._enqueue_pods([claim])

    def _claim_changed(self, _kind: ChangeKind, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        if self._is_idle or (
            old is not None and new is not None and _select_claim_fields(old) == _select_claim_fields(new)
        ):
            return
        self._enqueue_pods(each for each in (old, new) if each is not None)

    def _pod_changed(self, _kind: ChangeKind, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        if (
            pod is None
            or self._is_idle
            or (old is not None and new is not None and _select_pod_fields(old) == _select_pod_fields(new))
        ):
            return  # usually the change is the condition that this controller has set for the eviction
        self._queue.add(ObjectKey("pod", pod.ref))

    @property
    def _is_idle(self) -> bool:
        """Return whether no device has an evicting taint and no pod is due."""
        return not (self._published or self._evicting_rules or self._due)


def _pools_of(claim: ResourceClaim) -> Iterable[str]:
    return {f"{result.driver}/{result.pool}" for result in claim.results}


def _select_claim_fields(claim: ResourceClaim) -> tuple[object, ...]:
    return claim.metadata.uid, claim.status.allocation, claim.status.reserved_for


def _select_pod_fields(pod: Pod) -> tuple[object, ...]:
    return (
        pod.metadata.uid,
        pod.metadata.deletion_timestamp,
        pod.spec.node_name,
        pod.status.resource_claim_statuses,
    )
