"""Which claims hold which devices."""

from collections.abc import Awaitable, Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import TypeAlias

from dradriver.kube import CLAIMS, Client
from dradriver.model.resource.claim import DeviceId, ResourceClaim

__all__ = ["AllocationLookup", "look_up_allocations"]

AllocationLookup: TypeAlias = Callable[[AbstractSet[DeviceId]], Awaitable[Mapping[DeviceId, str]]]
"""Returns the claim (`namespace/name`) that holds each of the devices; free devices are left out. Share IDs are
ignored. It may raise a `DraError`: then the devices count as held until it answers."""


async def look_up_allocations(client: Client, devices: AbstractSet[DeviceId]) -> Mapping[DeviceId, str]:
    """Looks the holders of devices up on the API server: one list of all claims for a decision, which is rare.

    Args:
        client: the API server.
        devices: the devices in question.

    Returns:
        The claim that holds each device. A claim with admin access does not hold the device that it sees.

    Raises:
        DraError: the claims can't be listed, or one can't be read: what it holds is unknown.
    """
    listing = await client.list(CLAIMS, into=ResourceClaim)
    for problem in listing.unreadable.values():
        raise problem
    held: dict[DeviceId, str] = {}
    for claim in listing.items:
        for result in claim.results:
            device = DeviceId(result.driver, result.pool, result.device)
            if device in devices and not result.admin_access:
                held.setdefault(device, claim.ref)
    return held
