"""The plans in flight, and the events that bring the cluster's state up to date before each decision.

An event only records which object has changed, so that events between two decisions are processed once. The
state is changed and read in the thread that plans, while the caches change in the event loop.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace as with_changes
from datetime import UTC, datetime
from functools import partial
from types import MappingProxyType
from typing import Final, TypeAlias, TypeVar

from msgspec.structs import replace

from dradriver.allocator.supply.devices_in_use import PoolKey
from dradriver.control.claims.pod_claims import is_done, used_names
from dradriver.control.classic import ClassicObjects
from dradriver.control.conflicts.allocation_index import AllocationIndex
from dradriver.control.extended import special_claim_owners
from dradriver.control.runtime.caches import Caches, Index
from dradriver.control.scheduler.binding.binding_conditions import BindingDeadline
from dradriver.control.scheduler.binding.failed_plan import FailedPlan
from dradriver.control.scheduler.cluster_state import ClusterState
from dradriver.control.scheduler.snapshot import (
    AssumedAllocation,
    Plan,
    PlanFailed,
    Snapshot,
    assume_allocation,
    assumed_allocations,
    counts_on_node,
)
from dradriver.control.settings import SchedulerSettings
from dradriver.kube import Cache
from dradriver.model.core.disruption_budget import PodDisruptionBudget
from dradriver.model.core.workload import Node, Pod
from dradriver.model.resource.claim import ResourceClaim
from dradriver.model.resource.deviceclass import DeviceClass
from dradriver.model.resource.slices import ResourceSlice
from dradriver.model.resource.taint_rule import DeviceTaintRule

__all__ = ["Changes", "ClusterView"]

T = TypeVar("T", Pod, ResourceClaim, Node, ResourceSlice, DeviceClass, DeviceTaintRule, PodDisruptionBudget)

Changes: TypeAlias = Sequence[Callable[[], None]]
"""Calls that bring the state up to date."""

_NO_OBJECTS: Final = ClassicObjects()

_ANTI_AFFINITY: Final = "anti-affinity"
"""The value with which an index contains pods with required anti-affinity."""


class ClusterView:
    """The plans in flight, and the cluster's state with their assumed allocations (Reserve).

    Attributes:
        plans: the plans in flight, by `namespace/name` of their pods.
        failures: those of them that failed and are being reverted. A failure ends with its plan, so it never
            applies to the pod's next plan.
        unserved: the pools from which no device is allocated, with the reasons.
    """

    def __init__(self, caches: Caches, settings: SchedulerSettings, allocations: AllocationIndex) -> None:
        """Create a view of caches that have not been entered yet."""
        self._caches = caches
        self._allocations = allocations
        self._settings = settings
        self._state = state = ClusterState(settings)
        self._plans: dict[str, Plan] = {}
        self.plans: Mapping[str, Plan] = MappingProxyType(self._plans)
        self._failures: dict[str, FailedPlan] = {}
        self.failures: Mapping[str, FailedPlan] = MappingProxyType(self._failures)
        self.unserved: Mapping[PoolKey, str] = {}
        self._assumed: dict[tuple[str, str], AssumedAllocation] = {}
        """By `namespace/name` and UID, because a claim may be deleted and created again while a plan has it."""
        self._in_flight: set[str] = set()
        self._nominations: dict[str, tuple[str, str]] = {}
        self._changed: dict[tuple[Callable[[str], Callable[[], None]], str], None] = {}
        self._pods_by_rule = Index(caches.pods, _anti_affinity)
        self._special_claims = Index(caches.claims, special_claim_owners)
        self._follow(caches.nodes, _reader(caches.nodes, state.put_node, state.remove_node))
        self._follow(caches.slices, _reader(caches.slices, state.put_slice, state.remove_slice))
        self._follow(caches.classes, _reader(caches.classes, state.put_class, state.remove_class))
        self._follow(caches.rules, _reader(caches.rules, state.put_rule, state.remove_rule))
        self._follow(caches.budgets, _reader(caches.budgets, state.put_budget, state.remove_budget))
        self._read_claim, self._read_pod = self._claim_change, self._pod_change
        self._read_unserved: Callable[[str], Callable[[], None]] = self._unserved_change
        self._follow(caches.claims, self._read_claim)
        self._follow(caches.pods, self._read_pod)

    @property
    def has_anti_affinity(self) -> bool:
        """Return whether a pod with required anti-affinity exists."""
        return bool(self._pods_by_rule.find(_ANTI_AFFINITY))

    def set_plan(self, key: str, plan: Plan) -> None:
        """Add the plan of a pod (`namespace/name`), instead of its last plan. Its allocations are assumed."""
        self.drop_plan(key)
        self._assume(key, plan)

    def update_plan(self, key: str, plan: Plan) -> None:
        """Replace the plan of a pod by what is left of the plan after a write."""
        if self._plans[key] is not plan:
            self._end(key)
            self._assume(key, plan)

    def fail_plan(self, key: str, problem: PlanFailed) -> None:
        """Record that the plan of a pod failed. The plan must now be reverted."""
        self._failures[key] = FailedPlan(problem)

    def drop_plan(self, key: str) -> Plan | None:
        """Remove and return the plan of a pod, if there is one. Only what was written counts from now on."""
        self._failures.pop(key, None)
        return self._end(key) if key in self._plans else None

    def _assume(self, key: str, plan: Plan) -> None:
        self._plans[key] = plan
        self._in_flight.update(plan.in_flight)
        self._assumed.update(((ref, each.uid), each) for ref, each in assumed_allocations(plan))
        self._mark(key, plan)

    def _end(self, key: str) -> Plan:
        plan = self._plans.pop(key)
        self._in_flight.difference_update(plan.in_flight)
        for ref, assumed in assumed_allocations(plan):
            del self._assumed[ref, assumed.uid]
        self._mark(key, plan)
        return plan

    def forget_other_nodes(self, key: str) -> None:
        """Keep the plan of a pod without its other nodes, because the node is settled.

        A pod may wait for minutes, and the other nodes are a third of the memory that it costs.
        """
        self._plans[key] = with_changes(self._plans[key], other_nodes={})

    def nominate(self, pod: Pod, node: str) -> None:
        """Nominate a pod for a node, whatever its status is, so that no other pod gets its devices.

        The status is written later, and another scheduler may clear it.

        Args:
            pod: the pod.
            node: the node. Empty: the pod's status counts.
        """
        if node:
            self._nominations[pod.ref] = pod.metadata.uid, node
        elif self._nominations.pop(pod.ref, None) is None:
            return
        self._changed[self._read_pod, pod.ref] = None

    def set_unserved(self, pools: Mapping[PoolKey, str]) -> None:
        """Replace the pools from which no device is allocated, with the reasons."""
        self.unserved = dict(pools)
        self._changed[self._read_unserved, ""] = None

    def explain_unserved(self, plan: Plan) -> str:
        """Return why a device of a plan must not be allocated any more; empty if all may be."""
        claims = self._caches.claims.items
        for ref, assumed in assumed_allocations(plan) if self.unserved else ():
            if ref in claims and claims[ref].allocation is not None:
                continue  # it is written already
            for result in assumed.allocation.devices.results:
                reason = self.unserved.get((result.driver, result.pool))
                if reason is not None:
                    return f"resource pool {result.driver}/{result.pool} is not served: {reason}"
        return ""

    def is_planned(self, claim: ResourceClaim) -> bool:
        """Return whether a plan in flight has the allocation of the claim, so that this process wrote it."""
        assumed = self._find_assumed(claim.ref, claim)
        if assumed is None:
            return False
        return [result.id for result in assumed.allocation.devices.results] == [r.id for r in claim.results]

    def special_claims(self, pod: Pod) -> Collection[ResourceClaim]:
        """Return the special claims of earlier attempts for a pod."""
        return self._special_claims.find(pod.metadata.uid) if self._settings.features.extended_resources else ()

    def take_changes(self) -> Changes:
        """Return the calls that bring the state up to date. They must be called before the next decision."""
        changed, self._changed = self._changed, {}
        return [read(key) for read, key in changed]

    def take_snapshot(
        self, pod: Pod, deadline: BindingDeadline, nodes: Collection[str] | None = None
    ) -> Snapshot:
        """Return what a decision about a pod reads, as soon as the state is up to date.

        Args:
            pod: the pod that is being scheduled.
            deadline: the deadline of the wait for binding conditions.
            nodes: the nodes from which to choose, if another scheduler has checked them (`Snapshot.nodes`).
                Unknown nodes are ignored.
        """
        settings, known_nodes = self._settings, self._caches.nodes.items
        claims = self._caches.claims.items
        own = {ref: claims[ref] for ref in used_names(pod) if ref in claims}
        leftovers = list(self.special_claims(pod))
        conflicts = {
            claim.metadata.uid: conflict
            for claim in (*own.values(), *leftovers)
            if (conflict := self._allocations.find_conflict(claim)) is not None
        }
        return Snapshot(
            cluster=self._state,
            claims=own,
            claim_names=claims,
            in_flight=frozenset(self._in_flight),
            has_anti_affinity=self.has_anti_affinity,
            now=datetime.now(UTC).replace(microsecond=0),
            deadline=deadline,
            leftovers=leftovers,
            conflicts=conflicts,
            scoring=settings.scoring,
            nodes=None if nodes is None else {name: None for name in nodes if name in known_nodes},
            classic=self.take_classic(pod, own.values()),
        )

    def take_classic(self, pod: Pod, claims: Iterable[ResourceClaim]) -> ClassicObjects:
        """Return the objects of classic DRA that a decision about a pod reads.

        Args:
            pod: the pod.
            claims: the claims of the pod.
        """
        caches = self._caches
        if not caches.uses_classic:
            return _NO_OBJECTS
        records = caches.records.items
        found = (records.get(f"{each.metadata.namespace}/{each.metadata.uid}") for each in claims)
        return ClassicObjects(
            context=caches.contexts.items.get(pod.ref),
            is_served=caches.has_contexts,
            records={each.spec.claim_uid: each for each in found if each is not None} if records else {},
            nodes=caches.nodes.items,
        )

    def _follow(self, cache: Cache[T], read: Callable[[str], Callable[[], None]]) -> None:
        def record(_kind: object, old: T | None, new: T | None) -> None:
            changed = new or old
            if changed is not None:
                meta = changed.metadata
                self._changed[read, f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name] = None

        cache.subscribe(record)

    def _mark(self, key: str, plan: Plan) -> None:
        self._changed[self._read_pod, key] = None
        for ref, _ in assumed_allocations(plan):
            self._changed[self._read_claim, ref] = None

    def _claim_change(self, ref: str) -> Callable[[], None]:
        stored = self._caches.claims.items.get(ref)
        claim = assume_allocation(stored, self._find_assumed(ref, stored))
        if claim is None:
            return partial(self._state.remove_claim, ref)
        return partial(self._state.put_claim, claim)

    def _find_assumed(self, ref: str, claim: ResourceClaim | None) -> AssumedAllocation | None:
        """Return the assumed allocation of a claim, or of a special claim that is still to be created."""
        own = self._assumed.get((ref, claim.metadata.uid)) if claim is not None else None
        return own or self._assumed.get((ref, ""))

    def _unserved_change(self, _: str) -> Callable[[], None]:
        return partial(self._state.set_unserved, self.unserved)

    def _pod_change(self, ref: str) -> Callable[[], None]:
        pod, plan = self._caches.pods.items.get(ref), self._plans.get(ref)
        if pod is not None and not pod.spec.node_name:
            if plan is not None:
                return partial(self._state.put_pod, pod, plan.node)
            if not is_done(pod):
                return partial(self._state.put_pod, self._with_nomination(pod))
        self._nominations.pop(ref, None)
        if pod is not None and counts_on_node(pod):
            return partial(self._state.put_pod, pod, pod.spec.node_name)
        return partial(self._state.remove_pod, ref)

    def _with_nomination(self, pod: Pod) -> Pod:
        uid, node = self._nominations.get(pod.ref, ("", ""))
        if uid != pod.metadata.uid:
            self._nominations.pop(pod.ref, None)  # the nomination of another pod of this name
            return pod
        return replace(pod, status=replace(pod.status, nominated_node_name=node))


def _reader(
    cache: Cache[T], put: Callable[[T], None], remove: Callable[[str], None]
) -> Callable[[str], Callable[[], None]]:
    def read(name: str) -> Callable[[], None]:
        found = cache.items.get(name)
        return partial(remove, name) if found is None else partial(put, found)

    return read


def _anti_affinity(pod: Pod) -> tuple[str, ...]:
    return (_ANTI_AFFINITY,) if pod.required_anti_affinity else ()
