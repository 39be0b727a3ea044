"""Finds the claims of pools, the pods that use claims, and what waits."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from dradriver.allocator.supply.devices_in_use import PoolKey
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import ResourceClaim
from dradriver.overview.counters.counter_use import pods_of_claim
from dradriver.overview.health import ClaimHealth, assign_health, read_health
from dradriver.overview.values import Health, Waiting
from dradriver.overview.waiting import waiting_claim, waiting_pod

__all__ = ["ClaimIndex"]

_NO_TIME: Final = datetime.max.replace(tzinfo=UTC)


class ClaimIndex:
    """The claims and pods of a cluster.

    Attributes:
        waiting: the pods and claims that wait, as `update_waiting` found them, the oldest first.
    """

    def __init__(self) -> None:
        self.waiting: tuple[Waiting, ...] = ()
        self._claims: dict[str, ResourceClaim] = {}
        self._of_pool: dict[PoolKey, dict[str, ResourceClaim]] = {}
        self._users: dict[str, set[str]] = {}
        self._reports: dict[str, dict[str, tuple[ClaimHealth, ...]]] = {}
        self._waiting: dict[tuple[str, str], Waiting] = {}
        self._is_waiting_stale = False

    def claims_of(self, key: PoolKey) -> Sequence[ResourceClaim]:
        """Return the claims that hold devices of a pool, ordered by namespace and name.

        Args:
            key: driver and pool name.
        """
        found = self._of_pool.get(key)
        return [found[ref] for ref in sorted(found)] if found else ()

    def health(self, key: PoolKey, claims: Iterable[ResourceClaim]) -> Mapping[str, Health]:
        """Return the health of the devices of a pool, by name.

        Args:
            key: driver and pool name.
            claims: the claims that hold devices of the pool.
        """
        found: dict[str, Health] = {}
        for claim in claims:
            reports = self._reports.get(claim.ref)
            if reports:
                of_claim = assign_health(claim, [each for of_pod in reports.values() for each in of_pod])
                found |= {device.device: health for device, health in of_claim.items() if device[:2] == key}
        return found

    def apply_claim(self, old: ResourceClaim | None, new: ResourceClaim | None) -> Collection[PoolKey]:
        """Apply a change of a claim. Return the pools whose use may have changed."""
        pools: dict[PoolKey, None] = {}
        if old is not None:
            self._claims.pop(old.ref, None)
            self._set_waiting("ResourceClaim", old.ref, None)
        if new is not None:
            self._claims[new.ref] = new
            self._check_claim(new.ref)
        if old is not None and new is not None and old.ref == new.ref and _have_equal_use(old, new):
            for key in _pools(new):
                self._of_pool[key][new.ref] = new
            return ()
        for claim, is_present in ((old, False), (new, True)):
            for key in _pools(claim):
                pools[key] = None
                if is_present and claim is not None:
                    self._of_pool.setdefault(key, {})[claim.ref] = claim
                elif claim is not None and key in self._of_pool:
                    self._of_pool[key].pop(claim.ref, None)
                    if not self._of_pool[key]:
                        del self._of_pool[key]
        return pools

    def apply_pod(self, old: Pod | None, new: Pod | None) -> Collection[PoolKey]:
        """Apply a change of a pod. Return the pools whose devices may have another health."""
        before = read_health(old) if old is not None else {}
        after = read_health(new) if new is not None else {}
        if old is not None:
            self._set_waiting("Pod", old.ref, None)
            for ref in _claims(old):
                self._users.get(ref, set()).discard(old.ref)
                if not self._users.get(ref):
                    self._users.pop(ref, None)
                if ref in before:
                    self._reports.get(ref, {}).pop(old.ref, None)
        if new is not None:
            self._set_waiting("Pod", new.ref, waiting_pod(new))
            for ref in _claims(new):
                self._users.setdefault(ref, set()).add(new.ref)
                if ref in after:
                    self._reports.setdefault(ref, {})[new.ref] = after[ref]
        for ref in {*_claims(old), *_claims(new)}:
            self._check_claim(ref)
        changed = [ref for ref in before.keys() | after.keys() if before.get(ref) != after.get(ref)]
        return {key for ref in changed for key in _pools(self._claims.get(ref))}

    def update_waiting(self) -> bool:
        """Sort what waits, if it has changed. Return whether `waiting` has changed."""
        if not self._is_waiting_stale:
            return False
        self._is_waiting_stale = False
        before = self.waiting
        self.waiting = tuple(sorted(self._waiting.values(), key=_age_key))
        return self.waiting != before

    def _check_claim(self, ref: str) -> None:
        claim = self._claims.get(ref)
        if claim is not None:
            self._set_waiting("ResourceClaim", ref, waiting_claim(claim, is_used=ref in self._users))

    def _set_waiting(self, kind: str, ref: str, waiting: Waiting | None) -> None:
        if self._waiting.get((kind, ref)) == waiting:
            return
        self._is_waiting_stale = True
        if waiting is None:
            del self._waiting[kind, ref]
        else:
            self._waiting[kind, ref] = waiting


def _age_key(waiting: Waiting) -> tuple[datetime, str, str]:
    since = waiting.since or _NO_TIME
    # Times of files may lack the time zone.
    return since if since.tzinfo is not None else since.replace(tzinfo=UTC), waiting.kind, waiting.ref


def _have_equal_use(old: ResourceClaim, new: ResourceClaim) -> bool:
    """Return whether two states of a claim hold the same devices for the same pods."""
    return (
        old.metadata.uid == new.metadata.uid
        and old.allocation == new.allocation
        and pods_of_claim(old) == pods_of_claim(new)
    )


def _pools(claim: ResourceClaim | None) -> Mapping[PoolKey, None]:
    results = claim.results if claim is not None else ()
    return {(each.driver, each.pool): None for each in results}


def _claims(pod: Pod | None) -> Sequence[str]:
    """Return the claims (`namespace/name`) of a pod that are known by name."""
    if pod is None:
        return ()
    names = [pod.claim_name(each) for each in pod.spec.resource_claims]
    if pod.status.extended_resource_claim_status is not None:
        names.append(pod.status.extended_resource_claim_status.resource_claim_name)
    return [f"{pod.metadata.namespace}/{name}" for name in names if name]
