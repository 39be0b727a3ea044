"""The devices that claims hold, as a whole or as shares."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self, TypeAlias

from dradriver.model.resource.claim import DeviceResult, ResourceClaim
from dradriver.model.resource.recorded_groups import GroupsByDevice, GroupsBySet, groups_in_force

__all__ = ["InUse", "PoolKey", "PoolUse", "gather_use"]

PoolKey: TypeAlias = tuple[str, str]
"""Driver and pool name."""


@dataclass(frozen=True)
class PoolUse:
    """The devices of one pool that are in use.

    Attributes:
        claims: for each held device, the claims (`namespace/name`) that hold it. Only a shared device has
            several.
        exclusive: the devices that a claim holds as a whole.
        consumed: for each device with held shares, the amount of each capacity that the shares consume
            together, in nanos.
        groups: the compatibility groups that claims recorded when their devices were allocated: for each
            device, the groups by counter set. Recorded groups take precedence over the groups in the current
            slice (KEP-5963). If a record does not list a counter set, the device uses this counter set without
            groups.
    """

    claims: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    exclusive: frozenset[str] = frozenset()
    consumed: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    groups: GroupsByDevice = field(default_factory=dict)


_UNUSED = PoolUse()


@dataclass(frozen=True)
class InUse:
    """The devices in use and the claims that hold them. The counters of these devices are in the inventory.

    Attributes:
        pools: the use of each pool.
    """

    pools: Mapping[PoolKey, PoolUse] = field(default_factory=dict)

    @classmethod
    def of(cls, claims: Iterable[ResourceClaim]) -> Self:
        """Return the devices that the allocations of these claims hold.

        Args:
            claims: the claims of the cluster. A claim without an allocation holds nothing. A result with admin
                access holds nothing.

        Source: KEP-5018 (admin access).
        """
        builders: dict[PoolKey, _PoolUseBuilder] = {}
        for claim in claims:
            if claim.allocation is None:
                continue
            groups = groups_in_force(claim.allocation)
            for index, result in enumerate(claim.results):
                if not result.admin_access:
                    builder = builders.setdefault((result.driver, result.pool), _PoolUseBuilder())
                    builder.add(claim.ref, result, groups[index])
        return cls({key: builder.build() for key, builder in builders.items()})

    def pool(self, key: PoolKey) -> PoolUse:
        """Return the use of one pool; empty if no device of the pool is held.

        Args:
            key: driver and pool name.
        """
        return self.pools.get(key, _UNUSED)

    def claims_by_device(self, key: PoolKey) -> Mapping[str, tuple[str, ...]]:
        """Return the held devices of one pool, with the claims (`namespace/name`) that hold each.

        Args:
            key: driver and pool name.
        """
        return self.pool(key).claims


def gather_use(held: Iterable[tuple[str, DeviceResult, GroupsBySet | None]]) -> PoolUse:
    """Return the use of one pool. Each item of `held` is (claim, allocation result, recorded groups)."""
    builder = _PoolUseBuilder()
    for claim, result, groups in held:
        builder.add(claim, result, groups)
    return builder.build()


class _PoolUseBuilder:
    """Collects the use of one pool while claims are read."""

    def __init__(self) -> None:
        self._claims: dict[str, tuple[str, ...]] = {}
        self._exclusive: set[str] = set()
        self._consumed: dict[str, dict[str, int]] = {}
        self._groups: dict[str, Mapping[str, tuple[str, ...]]] = {}

    def add(self, claim: str, result: DeviceResult, groups: Mapping[str, tuple[str, ...]] | None) -> None:
        device = result.device
        self._claims[device] = (*self._claims.get(device, ()), claim)
        if result.share_id is None:
            self._exclusive.add(device)
        else:
            consumed = self._consumed.setdefault(device, {})
            for name, amount in result.consumed_capacity.items():
                consumed[name] = consumed.get(name, 0) + amount.nano
        if groups is not None:
            # All shares of a device together consume its counters once, so only the first record of its groups
            # counts.
            self._groups.setdefault(device, groups)

    def build(self) -> PoolUse:
        return PoolUse(self._claims, frozenset(self._exclusive), self._consumed, self._groups)
