"""Devices that other claims hold: whole, or shares of them."""

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
    """What is held of one pool.

    Attributes:
        claims: per held device the claims (`namespace/name`) that hold it: one, unless the device is shared.
        whole: the devices that some claim holds as a whole.
        consumed: per device of which shares are held what they take of its capacities together, in nanos.
        groups: of a device whose claim recorded them, the compatibility groups in force, as they were when it
            was allocated: counter set to groups. They win over those that the slice says now (KEP-5963); what
            the device consumes from besides it uses without groups.
    """

    claims: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    whole: frozenset[str] = frozenset()
    consumed: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    groups: GroupsByDevice = field(default_factory=dict)


_NOTHING = PoolUse()


@dataclass(frozen=True)
class InUse:
    """Which devices are held, and by which claims. What counters that takes follows from the inventory.

    Attributes:
        pools: what is held of each pool.
    """

    pools: Mapping[PoolKey, PoolUse] = field(default_factory=dict)

    @classmethod
    def of(cls, claims: Iterable[ResourceClaim]) -> Self:
        """What the allocations of these claims hold; admin access holds nothing."""
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
        """What is held of one pool."""
        return self.pools.get(key, _NOTHING)

    def of_pool(self, key: PoolKey) -> Mapping[str, tuple[str, ...]]:
        """The held devices of one pool and their claims."""
        return self.pool(key).claims


def gathered(held: Iterable[tuple[str, DeviceResult, GroupsBySet | None]]) -> PoolUse:
    """What these results of one pool hold: each with its claim and the groups recorded for it."""
    pool = _Gathered()
    for claim, result, groups in held:
        pool.add(claim, result, groups)
    return pool.done()


class _Gathered:
    """What is found of one pool while claims are read."""

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
            # Shares of one device consume its counters once; those that were allocated first said with whom.
            self._groups.setdefault(device, groups)

    def done(self) -> PoolUse:
        return PoolUse(self._claims, frozenset(self._whole), self._consumed, self._groups)
