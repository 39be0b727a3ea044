"""Find the conflicts of a claim without a scan: an index of devices is updated by each change of a claim."""

from collections.abc import Iterator
from contextlib import contextmanager

from dradriver.allocator.supply.devices_in_use import PoolKey
from dradriver.control.claims.pod_claims import used_names
from dradriver.control.conflicts.double_allocations import (
    DoubleAllocation,
    Precedence,
    find_double_allocation,
    find_rivals,
    held_devices,
    precedence,
)
from dradriver.control.conflicts.overdrawn_counters import PoolCounters, find_overdraft, find_overdrawing
from dradriver.control.pools.pool_index import PoolIndex
from dradriver.control.runtime.caches import Caches, Index
from dradriver.kube import ChangeKind
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import ConsumerReference, ResourceClaim
from dradriver.model.resource.slices import ResourceSlice

__all__ = ["AllocationIndex"]


class AllocationIndex:
    """The allocations of claims by device. Create the index before the caches are entered.

    The cost of a question about one claim depends on the devices of the claim and of their counter sets, not on
    the number of claims. The counters of a pool are computed when they are first needed, and again after
    each change of the pool.
    """

    def __init__(self, caches: Caches) -> None:
        self._caches = caches
        self._holders = Index(caches.claims, held_devices)
        self._pods_by_claim = Index(caches.pods, used_names)
        self._pools = PoolIndex(caches)
        self._counters: dict[PoolKey, PoolCounters | None] = {}
        self._reverting: dict[str, DoubleAllocation] = {}
        caches.slices.subscribe(self._slice_changed)

    def find_conflict(self, claim: ResourceClaim) -> DoubleAllocation | None:
        """Return why a claim must give way to another claim; None if it keeps its devices.

        Args:
            claim: the claim as it is in the cache.
        """
        if claim.metadata.uid in self._reverting:
            return self._reverting[claim.metadata.uid]
        return find_double_allocation(claim, self._holders.find, self._precedence_of) or find_overdraft(
            claim, self._counters_of, self._holders.find, self._precedence_of
        )

    def find_losers(self, claim: ResourceClaim) -> list[ResourceClaim]:
        """Return the other claims that must give way and that conflict with a claim.

        Args:
            claim: the claim as it is in the cache.
        """
        rivals = [other for _, other in find_rivals(claim, self._holders.find)]
        rivals += find_overdrawing(claim, self._counters_of, self._holders.find)
        return [other for other in rivals if self.find_conflict(other) is not None]

    def is_bound(self, claim: ResourceClaim) -> bool:
        """Return whether a pod that uses the claim or has reserved it may be running.

        A pod whose node was set without a scheduler may not have reserved the claim yet. A consumer of another
        kind than a pod counts as running.

        Args:
            claim: the claim.
        """
        pods = self._pods_by_claim.find(claim.ref)
        return any(map(_has_started, pods)) or any(
            self._is_running(claim, consumer) for consumer in claim.status.reserved_for
        )

    @contextmanager
    def reverting(self, claim: ResourceClaim, conflict: DoubleAllocation) -> Iterator[None]:
        """Keep `find_conflict` from changing its answer while the allocation of a claim is being reverted.

        Otherwise a pod of the claim could be bound at the same time, if the other claim is released meanwhile.

        Args:
            claim: the claim.
            conflict: the reason.
        """
        self._reverting[claim.metadata.uid] = conflict
        try:
            yield
        finally:
            del self._reverting[claim.metadata.uid]

    def _precedence_of(self, claim: ResourceClaim) -> Precedence:
        return precedence(claim, is_bound=self.is_bound(claim))

    def _is_running(self, claim: ResourceClaim, consumer: ConsumerReference) -> bool:
        if consumer.resource != "pods" or consumer.api_group:
            return True
        pod = self._caches.pods.items.get(f"{claim.metadata.namespace}/{consumer.name}")
        return pod is not None and pod.metadata.uid == consumer.uid and _has_started(pod)

    def _counters_of(self, driver: str, pool: str) -> PoolCounters | None:
        key = (driver, pool)
        if key not in self._counters:
            self._counters[key] = PoolCounters.of(self._pools.slices_of(key))
        return self._counters[key]

    def _slice_changed(self, _kind: ChangeKind, old: ResourceSlice | None, new: ResourceSlice | None) -> None:
        for each in (old, new):
            if each is not None:
                self._counters.pop((each.spec.driver, each.spec.pool.name), None)


def _has_started(pod: Pod) -> bool:
    return bool(pod.spec.node_name) and not pod.finished
