"""The device taint eviction controller: deletes pods whose devices get a NoExecute taint, when they are due.

`eviction` decides when a pod must be evicted, and `rule_status` what a rule reports. This module calls them. It
remembers which pods are due (to report a canceled eviction), which were deleted, and how many for each rule. If
the process dies, it loses these counts, like Kubernetes', and nothing else.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Final, Literal, NamedTuple

from msgspec.structs import replace

from dradriver.control.claims.pod_claims import pod_reference
from dradriver.control.runtime.actions import Action, EmitEvent, Evict, NextAction, SetRuleCondition, Step
from dradriver.control.runtime.bounded_set import BoundedSet
from dradriver.control.runtime.caches import Caches, Index
from dradriver.control.runtime.executor import Executor
from dradriver.control.runtime.loop import Loop, Looping
from dradriver.control.runtime.metrics import ControlMetrics
from dradriver.control.runtime.work_queue import WorkQueue
from dradriver.control.taints.eviction import EvictingTaint, Eviction, TaintsOf, pod_eviction
from dradriver.control.taints.published_taints import PublishedTaints
from dradriver.control.taints.rule_status import STATUS_PERIOD, Counts, condition_of, may_be_told_at
from dradriver.errors import DraError
from dradriver.kube import ChangeKind
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import DeviceResult, ResourceClaim
from dradriver.model.resource.slices import ResourceSlice
from dradriver.model.resource.taint_rule import DeviceTaintRule

__all__ = ["NAME", "EvictionController"]

NAME: Final = "device-taint-eviction-controller"
"""The name of its work queue, of its events, and of the field manager of rules' status."""


class _Key(NamedTuple):
    kind: Literal["pod", "rule"]
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


class EvictionController(Looping[_Key]):
    """Evicts pods, and writes the rules' status: `async with EvictionController(caches, executor)`.

    Create it before the caches are entered, like `ClaimController`.
    """

    def __init__(
        self, caches: Caches, executor: Executor, metrics: ControlMetrics | None = None, *, workers: int = 8
    ) -> None:
        self._caches = caches
        self._published = PublishedTaints()
        self._evicting: dict[str, DeviceTaintRule] = {}
        self._holders = Index(caches.claims, _pools_of)
        self._due: dict[str, Eviction] = {}
        self._evicted = BoundedSet()
        self._numbers: Counter[str] = Counter()
        self._execute = executor.execute
        self._metrics = metrics or ControlMetrics()
        self._queue = WorkQueue[_Key](0.005, 30.0)
        self._queue.count(self._metrics.queues, NAME)
        self._loop = Loop(NAME, self, self._carry_out, workers=workers, queue=self._queue)
        caches.rules.subscribe(self._rule_changed)
        caches.slices.subscribe(self._slice_changed)
        caches.claims.subscribe(self._claim_changed)
        caches.pods.subscribe(self._pod_changed)

    async def decide(self, key: _Key) -> Step:
        """Return the next step for a pod or a rule."""
        return self._of_pod(key) if key.kind == "pod" else self._of_rule(key)

    async def failed(self, key: _Key, error: DraError) -> None:
        """Do nothing: the next decision starts from the objects."""

    def _of_pod(self, key: _Key) -> Step:
        pod = self._caches.pods.items.get(key.name)
        if pod is None or pod.metadata.deletion_timestamp is not None or pod.metadata.uid in self._evicted:
            self._forget(key.name)
            return Step(NextAction.DONE)
        eviction = pod_eviction(pod, self._caches.claims.items, self._taints_of)
        if eviction is None:
            if self._forget(key.name) is None:
                return Step(NextAction.DONE)
            said = EmitEvent(pod_reference(pod), "Normal", "DeviceTaintManagerEviction", "Cancelling deletion")
            return Step(NextAction.DONE, said)
        if self._due.get(key.name) != eviction:
            self._due[key.name] = eviction
            self._tell_later(eviction)
        wait = (eviction.when - datetime.now(UTC)).total_seconds()
        if wait > 0:
            self._queue.add_after(key, wait)
            return Step(NextAction.WAIT)
        return Step(NextAction.AGAIN, Evict(pod))

    def _forget(self, ref: str) -> Eviction | None:
        eviction = self._due.pop(ref, None)
        if eviction is not None:
            self._tell_later(eviction)
        return eviction

    def _tell_later(self, eviction: Eviction) -> None:
        """Schedule the status of the eviction's rules for later, because more pods may follow soon."""
        for rule in self._evicting.values():
            if rule.metadata.uid in eviction.rules:
                self._queue.add_after(_Key("rule", rule.metadata.name), STATUS_PERIOD.total_seconds())

    async def _carry_out(self, action: Action) -> bool:
        done = await self._execute(action)
        if done and isinstance(action, Evict):
            self._evicted.add(action.pod.metadata.uid)
            eviction = self._due.get(action.pod.ref)
            if eviction is not None:
                self._numbers.update(eviction.rules)
                self._metrics.evicted((datetime.now(UTC) - eviction.when).total_seconds())
        return done

    def _of_rule(self, key: _Key) -> Step:
        rule = self._caches.rules.items.get(key.name)
        if rule is None:
            return Step(NextAction.DONE)
        now = datetime.now(UTC)
        earliest = may_be_told_at(rule)
        if earliest is not None and earliest > now:
            self._queue.add_after(key, (earliest - now).total_seconds())
            return Step(NextAction.WAIT)
        condition = condition_of(rule, self._counts(rule), now.replace(microsecond=0))
        return Step(NextAction.DONE, SetRuleCondition(rule, condition) if condition is not None else None)

    def _counts(self, rule: DeviceTaintRule) -> Counts:
        evicted = self._numbers[rule.metadata.uid]
        if rule.spec.taint.effect == "NoSchedule":
            return Counts(evicted=evicted)
        # A rule with the effect None reports what would happen with NoExecute.
        as_if = replace(rule, spec=replace(rule.spec, taint=replace(rule.spec.taint, effect="NoExecute")))
        rules = {**self._evicting, rule.metadata.name: as_if}
        selected = list(self._selected(rule))
        pods = {pod.ref: pod for claim in selected for pod in self._pods_of(claim)}
        pending = [pod for pod in pods.values() if self._would_go(pod, as_if, rules)]
        results = [r for claim in selected for r in claim.results if rule.selects(r.driver, r.pool, r.device)]
        return Counts(
            published=self._published.selected(rule),
            allocated=len(results),
            pending=len(pending),
            namespaces=len({pod.metadata.namespace for pod in pending}),
            evicted=evicted,
        )

    def _would_go(self, pod: Pod, rule: DeviceTaintRule, rules: dict[str, DeviceTaintRule]) -> bool:
        if pod.metadata.deletion_timestamp is not None:
            return False
        eviction = pod_eviction(pod, self._caches.claims.items, self._under(rules))
        return eviction is not None and rule.metadata.uid in eviction.rules

    def _taints_of(self, result: DeviceResult) -> Iterable[EvictingTaint]:
        return self._under(self._evicting)(result)

    def _under(self, rules: dict[str, DeviceTaintRule]) -> TaintsOf:
        def taints_of(result: DeviceResult) -> Iterator[EvictingTaint]:
            yield from self._published.of(result.id)
            for rule in rules.values():
                if rule.selects(result.driver, result.pool, result.device):
                    name = f"DeviceTaintRule {rule.metadata.name}"
                    yield EvictingTaint(rule.spec.taint, name, rule.metadata.uid)

        return taints_of

    def _selected(self, rule: DeviceTaintRule) -> Iterator[ResourceClaim]:
        for claim in self._caches.claims.items.values():
            if any(rule.selects(result.driver, result.pool, result.device) for result in claim.results):
                yield claim

    def _pods_of(self, claim: ResourceClaim) -> Iterator[Pod]:
        for consumer in claim.status.reserved_for:
            pod = self._caches.pods.items.get(f"{claim.metadata.namespace}/{consumer.name}")
            if pod is not None and pod.metadata.uid == consumer.uid:
                yield pod

    def _look_at(self, claims: Iterable[ResourceClaim]) -> None:
        for claim in claims:
            for pod in self._pods_of(claim):
                self._queue.add(_Key("pod", pod.ref))

    def _rule_changed(
        self, _kind: ChangeKind, old: DeviceTaintRule | None, new: DeviceTaintRule | None
    ) -> None:
        same = old is not None and new is not None and old.metadata.uid == new.metadata.uid
        if old is not None and new is not None and same and old.spec == new.spec:
            return  # this controller's own write
        if old is not None:
            self._evicting.pop(old.metadata.name, None)
            if not same:
                del self._numbers[old.metadata.uid]
        if new is not None:
            if new.spec.taint.effect == "NoExecute":
                self._evicting[new.metadata.name] = new
            # The rule is added before its pods, so that it comes first in the queue.
            self._queue.add(_Key("rule", new.metadata.name))
        for rule in (old, new):
            if rule is not None and rule.spec.taint.effect == "NoExecute":
                self._look_at(self._selected(rule))

    def _slice_changed(self, _kind: ChangeKind, old: ResourceSlice | None, new: ResourceSlice | None) -> None:
        changed = set(self._published.change(old, new))
        for driver, pool in {(device.driver, device.pool) for device in changed}:
            for claim in list(self._holders.of(f"{driver}/{pool}")):
                if any(result.id._replace(share_id="") in changed for result in claim.results):
                    self._look_at([claim])

    def _claim_changed(self, _kind: ChangeKind, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        if self._idle or (old is not None and new is not None and _held(old) == _held(new)):
            return
        self._look_at(each for each in (old, new) if each is not None)

    def _pod_changed(self, _kind: ChangeKind, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        if pod is None or self._idle or (old is not None and new is not None and _place(old) == _place(new)):
            return  # mostly the condition that this controller set for the eviction
        self._queue.add(_Key("pod", pod.ref))

    @property
    def _idle(self) -> bool:
        """Return whether no device has an evicting taint and no pod is due."""
        return not (self._published or self._evicting or self._due)


def _pools_of(claim: ResourceClaim) -> Iterable[str]:
    return {f"{result.driver}/{result.pool}" for result in claim.results}


def _held(claim: ResourceClaim) -> tuple[object, ...]:
    return claim.metadata.uid, claim.status.allocation, claim.status.reserved_for


def _place(pod: Pod) -> tuple[object, ...]:
    return (
        pod.metadata.uid,
        pod.metadata.deletion_timestamp,
        pod.spec.node_name,
        pod.status.resource_claim_statuses,
    )
