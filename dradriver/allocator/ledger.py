"""Who holds what, kept up to date claim by claim.

`InUse` is a picture of one moment; the ledger is what it is taken of. A claim that changes touches the pools
of its devices, before and after, and no other.
"""

from collections.abc import Mapping, Sequence

from dradriver.allocator.snapshot import GroupsBySet, groups_in_force
from dradriver.allocator.use import InUse, PoolKey, PoolUse, gathered
from dradriver.model.claim import DeviceResult, ResourceClaim

__all__ = ["Ledger"]

Holding = Sequence[tuple[DeviceResult, GroupsBySet | None]]
"""What one claim holds of one pool: results, each with the compatibility groups recorded for it."""


class Ledger:
    """The allocations of claims, by pool."""

    def __init__(self) -> None:
        self._of_claim: dict[str, Mapping[PoolKey, Holding]] = {}
        self._of_pool: dict[PoolKey, dict[str, Holding]] = {}
        self._known: dict[PoolKey, PoolUse] = {}

    def put(self, claim: ResourceClaim) -> set[PoolKey]:
        """Takes note of a claim, which replaces what was known of it; returns the pools that this touches."""
        return self._replace(claim.ref, _held(claim))

    def remove(self, ref: str) -> set[PoolKey]:
        """Forgets a claim (`namespace/name`); returns the pools that this touches."""
        return self._replace(ref, {})

    def _replace(self, ref: str, held: Mapping[PoolKey, Holding]) -> set[PoolKey]:
        before = self._of_claim.pop(ref, {})
        if held:
            self._of_claim[ref] = held
        for key in before.keys() - held.keys():
            del self._of_pool[key][ref]
        for key, holding in held.items():
            self._of_pool.setdefault(key, {})[ref] = holding
        touched = {key for key in (*before, *held) if before.get(key) != held.get(key)}
        for key in touched:
            self._known.pop(key, None)
        return touched

    def pool(self, key: PoolKey) -> PoolUse:
        """What is held of a pool."""
        if key not in self._known:
            claims = self._of_pool.get(key, {})
            self._known[key] = gathered(
                (ref, result, groups) for ref, holding in claims.items() for result, groups in holding
            )
        return self._known[key]

    def in_use(self, pools: Sequence[PoolKey]) -> InUse:
        """The same for several pools."""
        return InUse({key: self.pool(key) for key in pools})


def _held(claim: ResourceClaim) -> dict[PoolKey, list[tuple[DeviceResult, GroupsBySet | None]]]:
    found: dict[PoolKey, list[tuple[DeviceResult, GroupsBySet | None]]] = {}
    if claim.allocation is None:
        return found
    groups = groups_in_force(claim.allocation)
    for index, result in enumerate(claim.results):
        if not result.admin_access:
            found.setdefault((result.driver, result.pool), []).append((result, groups.get(index)))
    return found
