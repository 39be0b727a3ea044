"""The usage index: it records which claim holds which device, and is updated for each changed claim.

`InUse` contains the same information as a snapshot. If a claim changes, only the devices that it holds before
or after the change are affected.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from dradriver.allocator.supply.devices_in_use import PoolKey, PoolUse, gather_use
from dradriver.model.resource.claim import DeviceResult, ResourceClaim
from dradriver.model.resource.recorded_groups import GroupsBySet, groups_in_force

__all__ = ["DeviceUse", "UsageIndex"]

Held = tuple[DeviceResult, GroupsBySet | None]
"""An allocation result with the compatibility groups that the claim recorded for it."""


@dataclass(frozen=True, slots=True)
class DeviceUse:
    """The use of one device.

    Attributes:
        is_exclusive: whether some claim holds the device as a whole.
        consumed: the amount of each capacity that the held shares consume together, in nanos; None if no share
            is held.
        groups: the compatibility groups that the device's claim recorded.
    """

    is_exclusive: bool
    consumed: tuple[tuple[str, int], ...] | None
    groups: GroupsBySet | None

    @property
    def key(self) -> Hashable:
        """Return a key. Uses with equal keys leave the same part of the device available."""
        return self.is_exclusive, self.consumed


_EXCLUSIVE: Final = DeviceUse(is_exclusive=True, consumed=None, groups=None)


class UsageIndex:
    """The allocations of claims, by device.

    Attributes:
        changed: the names of the devices whose use may have changed, by pool. The reader clears it.
    """

    def __init__(self) -> None:
        self.changed: dict[PoolKey, set[str]] = {}
        self._of_claim: dict[str, list[tuple[PoolKey, Held]]] = {}
        self._of_device: dict[PoolKey, dict[str, dict[str, list[Held]]]] = {}

    def put(self, claim: ResourceClaim) -> None:
        """Add or replace a claim."""
        self._replace(claim.ref, _list_held(claim))

    def remove(self, ref: str) -> None:
        """Remove a claim (`namespace/name`)."""
        self._replace(ref, [])

    def held_in(self, key: PoolKey) -> Sequence[str]:
        """Return the devices of a pool that are held as a whole or as shares."""
        return list(self._of_device.get(key, ()))

    def holders_in(self, key: PoolKey) -> set[str]:
        """Return the claims (`namespace/name`) that hold devices of a pool."""
        return {ref for holders in self._of_device.get(key, {}).values() for ref in holders}

    def device(self, key: PoolKey, name: str) -> DeviceUse | None:
        """Return the use of a device; None if no claim holds it."""
        holders = self._of_device.get(key, {}).get(name)
        if holders is None:
            return None
        first, *others = chain.from_iterable(holders.values())
        if not others and first[0].share_id is None and first[1] is None:
            return _EXCLUSIVE  # most devices are held in this way
        use = gather_use((ref, *held) for ref, several in holders.items() for held in several)
        consumed = use.consumed.get(name)
        return DeviceUse(
            name in use.exclusive,
            None if consumed is None else tuple(sorted(consumed.items())),
            use.groups.get(name),
        )

    def pool(self, key: PoolKey) -> PoolUse:
        """Return the use of a pool."""
        devices = self._of_device.get(key, {})
        return gather_use(
            (ref, *held) for holders in devices.values() for ref, several in holders.items() for held in several
        )

    def _replace(self, ref: str, held: list[tuple[PoolKey, Held]]) -> None:
        before = self._of_claim.pop(ref, [])
        if held:
            self._of_claim[ref] = held
        if before == held:
            return
        after = {(key, result.device) for key, (result, _) in held} if before else ()
        for key, (result, _) in before:
            self._note(key, result.device)
            holders = self._of_device[key].get(result.device, {})
            if (key, result.device) in after:
                holders[ref].clear()
            elif holders.pop(ref, None) is not None and not holders:
                del self._of_device[key][result.device]
        for key, held_device in held:
            name = held_device[0].device
            self._note(key, name)
            self._of_device.setdefault(key, {}).setdefault(name, {}).setdefault(ref, []).append(held_device)

    def _note(self, key: PoolKey, name: str) -> None:
        self.changed.setdefault(key, set()).add(name)


def _list_held(claim: ResourceClaim) -> list[tuple[PoolKey, Held]]:
    allocation = claim.allocation
    if allocation is None:
        return []
    return [
        ((result.driver, result.pool), (result, groups))
        for result, groups in zip(allocation.devices.results, groups_in_force(allocation), strict=True)
        if not result.admin_access
    ]
