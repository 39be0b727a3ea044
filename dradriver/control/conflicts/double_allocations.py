"""Decide which of two claims keeps a device that is allocated to both.

A claim whose pod may be running takes precedence, because its device can be in use. Between other claims, the
older allocation takes precedence. Timestamps have a resolution of one second, and the API server drops them if
it does not support binding conditions (KEP-5007). If timestamps are equal, the smaller UID takes precedence.

Each pair of claims is decided alone: if a claim gives way to a second claim, and the second one to a third one,
the first claim gives way too, although it may not conflict with the third claim. No pod of the claim is bound,
so the scheduler allocates the claim again.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, TypeAlias

from dradriver.model.resource.claim import DeviceResult, ResourceClaim

__all__ = [
    "DeviceKey",
    "DoubleAllocation",
    "Holders",
    "Precedence",
    "device_key",
    "find_double_allocation",
    "find_rivals",
    "held_devices",
    "precedence",
]

DeviceKey: TypeAlias = str
"""A device as `driver/pool/device`."""

Holders: TypeAlias = Callable[[DeviceKey], Collection[ResourceClaim]]
"""Function that returns the claims that hold a device, as a whole or as shares."""

Precedence: TypeAlias = tuple[bool, datetime, str]
"""A key by which claims are compared; the claim with the smaller key takes precedence."""

_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class DoubleAllocation:
    """The reason why a claim must give way to another claim.

    Attributes:
        subject: the device or the counter that both claims use.
        other: `namespace/name` of the claim that takes precedence.
        is_bound: whether a pod of the claim that must give way may be running. Then the allocation is kept.
    """

    subject: str
    other: str
    is_bound: bool = False

    def __str__(self) -> str:
        return f"{self.subject} is also allocated to claim {self.other}, which takes precedence"


def device_key(result: DeviceResult) -> DeviceKey:
    """Return the device of an allocation result."""
    return f"{result.driver}/{result.pool}/{result.device}"


def held_devices(claim: ResourceClaim) -> set[DeviceKey]:
    """Return the devices that the claim holds. Admin access (KEP-5018) holds no device."""
    return {device_key(result) for result in claim.results if not result.admin_access}


def precedence(claim: ResourceClaim, *, is_bound: bool) -> Precedence:
    """Return the key by which claims are compared.

    Args:
        claim: an allocated claim.
        is_bound: whether a pod of the claim may be running.
    """
    allocation = claim.allocation
    timestamp = allocation.allocation_timestamp if allocation is not None else None
    return not is_bound, timestamp or _LONG_AGO, claim.metadata.uid


def find_rivals(claim: ResourceClaim, holders: Holders) -> list[tuple[DeviceKey, ResourceClaim]]:
    """Return the other claims that hold a device of the claim, each with the device.

    Shares of one device (KEP-5075) are separate if their share IDs differ.

    Args:
        claim: the claim.
        holders: returns the claims that hold a device.
    """
    return [
        (key, other)
        for result in claim.results
        if not result.admin_access
        for key in [device_key(result)]
        for other in holders(key)
        if other.metadata.uid != claim.metadata.uid
        and any(device_key(theirs) == key and _collide(result, theirs) for theirs in other.results)
    ]


def find_double_allocation(
    claim: ResourceClaim, holders: Holders, precedence_of: Callable[[ResourceClaim], Precedence]
) -> DoubleAllocation | None:
    """Return why a claim must give way to another claim with the same device; None if it keeps its devices.

    Args:
        claim: the claim.
        holders: returns the claims that hold a device.
        precedence_of: returns the key by which claims are compared.
    """
    own = None
    for key, other in find_rivals(claim, holders):
        own = own or precedence_of(claim)
        if precedence_of(other) < own:
            return DoubleAllocation(f"device {key}", other.ref, is_bound=not own[0])
    return None


def _collide(one: DeviceResult, other: DeviceResult) -> bool:
    if one.admin_access or other.admin_access:
        return False
    return not (one.share_id and other.share_id and one.share_id != other.share_id)
