"""The devices that other claims hold, as a whole or as shares."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self, TypeAlias

from dradriver.model.resource.claim import DeviceResult, ResourceClaim
from dradriver.model.resource.recorded_groups import GroupsByDevice, GroupsBySet, groups_in_force

__all__ = ["InUse", "PoolKey", "PoolUse", "gathered"]

PoolKey: TypeAlias = tuple[str, str]
"""Driver and pool name."""


@dataclass(frozen=True)
class PoolUse:
    """The devices of one pool that are in use.

    Attributes:
        claims: for each held device, the claims (`namespace/name`) that hold it: one, unless it is shared.
        whole: the devices that some claim holds as a whole.
        consumed: for each device with held shares, the sum of the capacity that they consume, in nanos.
        groups: for each device whose claim recorded them, the compatibility groups in force at its allocation:
            counter set to groups. They take precedence over the groups in the current slice (KEP-5963). Counter
            sets that the record does not list are used without groups.
    """

    claims: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    whole: frozenset[str] = frozenset()
    consumed: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    groups: GroupsByDevice = field(default_factory=dict)


_NOTHING = PoolUse()


@dataclass(frozen=True)
class InUse:
    """The devices in use and the claims that hold them. The inventory determines the counters that they take.

    Attributes:
        pools: the use of each pool.
    """

    pools: Mapping[PoolKey, PoolUse] = field(default_factory=dict)

    @classmethod
    def of(cls, claims: Iterable[ResourceClaim]) -> Self:
        """Return the devices that the allocations of these claims hold. Admin access holds nothing."""
        found: dict[PoolKey, _Gathered] = {}
        for claim in claims:
            if claim.allocation is None:
                continue
            groups = groups_in_force(claim.allocation)
            for index, result in enumerate(claim.results):
                if not result.admin_access:
                    pool = found.setdefault((result.driver, result.pool), _Gathered())
                    pool.add(claim.ref, result, groups[index])
        return cls({key: pool.done() for key, pool in found.items()})

    def pool(self, key: PoolKey) -> PoolUse:
        """Return the use of one pool."""
        return self.pools.get(key, _NOTHING)

    def of_pool(self, key: PoolKey) -> Mapping[str, tuple[str, ...]]:
        """Return the held devices of one pool and their claims."""
        return self.pool(key).claims


def gathered(held: Iterable[tuple[str, DeviceResult, GroupsBySet | None]]) -> PoolUse:
    """Return the use by these results of one pool, each with its claim and its recorded groups."""
    pool = _Gathered()
    for claim, result, groups in held:
        pool.add(claim, result, groups)
    return pool.done()


class _Gathered:
    """Collects the use of one pool while claims are read."""

    def __init__(self) -> None:
        self._claims: dict[str, tuple[str, ...]] = {}
        self._whole: set[str] = set()
        self._consumed: dict[str, dict[str, int]] = {}
        self._groups: dict[str, Mapping[str, tuple[str, ...]]] = {}

    def add(self, claim: str, result: DeviceResult, groups: Mapping[str, tuple[str, ...]] | None) -> None:
        device = result.device
        self._claims[device] = (*self._claims.get(device, ()), claim)
        if result.share_id is None:
            self._whole.add(device)
        else:
            consumed = self._consumed.setdefault(device, {})
            for name, amount in result.consumed_capacity.items():
                consumed[name] = consumed.get(name, 0) + amount.nano
        if groups is not None:
            # Shares of one device consume its counters once, so the first record of its groups counts.
            self._groups.setdefault(device, groups)

    def done(self) -> PoolUse:
        return PoolUse(self._claims, frozenset(self._whole), self._consumed, self._groups)
