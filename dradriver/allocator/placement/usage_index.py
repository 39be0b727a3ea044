"""The usage index: which claim holds which device, updated claim by claim.

`InUse` is a snapshot of this index. A claim that changes affects only the devices that it holds before and
after the change.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from dradriver.allocator.supply.devices_in_use import PoolKey, PoolUse, gathered
from dradriver.model.resource.claim import DeviceResult, ResourceClaim
from dradriver.model.resource.recorded_groups import GroupsBySet, groups_in_force

__all__ = ["DeviceUse", "Touched", "UsageIndex"]

Touched = Mapping[PoolKey, set[str]]
"""Devices by pool."""

Held = tuple[DeviceResult, GroupsBySet | None]
"""A result with its recorded compatibility groups."""


@dataclass(frozen=True, slots=True)
class DeviceUse:
    """The use of one device.

    Attributes:
        whole: whether some claim holds it as a whole.
        consumed: the capacity that its shares consume, in nanos; None if no share is held.
        groups: the recorded groups.
    """

    whole: bool
    consumed: tuple[tuple[str, int], ...] | None
    groups: GroupsBySet | None

    @property
    def mark(self) -> Hashable:
        """Return a key that is equal for uses that leave the same resources."""
        return self.whole, self.consumed


class UsageIndex:
    """The allocations of claims, by device."""

    def __init__(self) -> None:
        self._of_claim: dict[str, list[tuple[PoolKey, Held]]] = {}
        self._of_device: dict[PoolKey, dict[str, dict[str, list[Held]]]] = {}

    def put(self, claim: ResourceClaim) -> Touched:
        """Add or replace a claim and return the affected devices."""
        return self._replace(claim.ref, _held(claim))

    def remove(self, ref: str) -> Touched:
        """Remove a claim (`namespace/name`) and return the affected devices."""
        return self._replace(ref, [])

    def held_in(self, key: PoolKey) -> Sequence[str]:
        """Return the devices of a pool that are held as a whole or as shares."""
        return list(self._of_device.get(key, ()))

    def device(self, key: PoolKey, name: str) -> DeviceUse | None:
        """Return the use of a device; None if no claim holds it."""
        holders = self._of_device.get(key, {}).get(name)
        if holders is None:
            return None
        use = gathered((ref, *held) for ref, several in holders.items() for held in several)
        consumed = use.consumed.get(name)
        return DeviceUse(
            name in use.whole,
            None if consumed is None else tuple(sorted(consumed.items())),
            use.groups.get(name),
        )

    def pool(self, key: PoolKey) -> PoolUse:
        """Return the use of a pool."""
        devices = self._of_device.get(key, {})
        return gathered(
            (ref, *held) for holders in devices.values() for ref, several in holders.items() for held in several
        )

    def _replace(self, ref: str, held: list[tuple[PoolKey, Held]]) -> Touched:
        before = self._of_claim.pop(ref, [])
        touched: dict[PoolKey, set[str]] = {}
        if before == held:
            if held:
                self._of_claim[ref] = held
            return touched
        after = {(key, result.device) for key, (result, _) in held}
        for key, (result, _) in before:
            touched.setdefault(key, set()).add(result.device)
            holders = self._of_device[key].get(result.device, {})
            if (key, result.device) in after:
                holders[ref].clear()
            elif holders.pop(ref, None) is not None and not holders:
                del self._of_device[key][result.device]
        for key, one in held:
            touched.setdefault(key, set()).add(one[0].device)
            self._of_device.setdefault(key, {}).setdefault(one[0].device, {}).setdefault(ref, []).append(one)
        if held:
            self._of_claim[ref] = held
        return touched


def _held(claim: ResourceClaim) -> list[tuple[PoolKey, Held]]:
    if claim.allocation is None:
        return []
    groups = groups_in_force(claim.allocation)
    return [
        ((result.driver, result.pool), (result, groups[index]))
        for index, result in enumerate(claim.results)
        if not result.admin_access
    ]
