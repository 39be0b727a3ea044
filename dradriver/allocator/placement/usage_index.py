"""Who holds what, kept up to date claim by claim.

`InUse` is a picture of one moment; the ledger is what it is taken of. A claim that changes touches the devices
that it holds before and after, and no other.
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
"""A result, with the compatibility groups recorded for it."""


@dataclass(frozen=True, slots=True)
class DeviceUse:
    """What is held of one device.

    Attributes:
        whole: whether some claim holds it as a whole.
        consumed: what its shares take of its capacities, in nanos; None when no share is held.
        groups: the recorded groups.
    """

    whole: bool
    consumed: tuple[tuple[str, int], ...] | None
    groups: GroupsBySet | None

    @property
    def mark(self) -> Hashable:
        """Equal for uses that leave the same."""
        return self.whole, self.consumed


class UsageIndex:
    """The allocations of claims, by device."""

    def __init__(self) -> None:
        self._of_claim: dict[str, list[tuple[PoolKey, Held]]] = {}
        self._of_device: dict[PoolKey, dict[str, dict[str, list[Held]]]] = {}

    def put(self, claim: ResourceClaim) -> Touched:
        """Takes note of a claim, which replaces what was known of it; returns the devices that this touches."""
        return self._replace(claim.ref, _held(claim))

    def remove(self, ref: str) -> Touched:
        """Forgets a claim (`namespace/name`); returns the devices that this touches."""
        return self._replace(ref, [])

    def held_in(self, key: PoolKey) -> Sequence[str]:
        """The devices of a pool of which something is held."""
        return list(self._of_device.get(key, ()))

    def device(self, key: PoolKey, name: str) -> DeviceUse | None:
        """What is held of a device; None when nothing is."""
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
        """What is held of a pool."""
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
