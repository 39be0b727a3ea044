"""Devices that other claims hold."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self, TypeAlias

from dradriver.model.claim import ResourceClaim

__all__ = ["InUse", "PoolKey"]

PoolKey: TypeAlias = tuple[str, str]
"""Driver and pool name."""


@dataclass(frozen=True)
class InUse:
    """Which devices are held, and by which claims. What counters that takes follows from the inventory.

    Attributes:
        held: per pool the names of its held devices, each with the claims (`namespace/name`) that hold it:
            one, unless the device is shared.
    """

    held: Mapping[PoolKey, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)

    @classmethod
    def of(cls, claims: Iterable[ResourceClaim]) -> Self:
        """What the allocations of these claims hold; admin access holds nothing."""
        held: dict[PoolKey, dict[str, tuple[str, ...]]] = {}
        for claim in claims:
            for result in claim.results:
                if not result.admin_access:
                    pool = held.setdefault((result.driver, result.pool), {})
                    pool[result.device] = (*pool.get(result.device, ()), claim.ref)
        return cls(held)

    def of_pool(self, key: PoolKey) -> Mapping[str, tuple[str, ...]]:
        """The held devices of one pool and their claims."""
        return self.held.get(key, {})
