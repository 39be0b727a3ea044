"""Look up which claims hold which devices."""

from collections.abc import Awaitable, Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import TypeAlias

from dradriver.kube import CLAIMS, Client
from dradriver.model.resource.claim import DeviceId, ResourceClaim

__all__ = ["AllocationLookup", "look_up_allocations"]

AllocationLookup: TypeAlias = Callable[[AbstractSet[DeviceId]], Awaitable[Mapping[DeviceId, str]]]
"""Returns the claim (`namespace/name`) that holds each of the devices; free devices are omitted. Share IDs are
ignored. It may raise a `DraError`: the devices then count as held until it answers.
"""


async def look_up_allocations(client: Client, devices: AbstractSet[DeviceId]) -> Mapping[DeviceId, str]:
    """Look up the holders of devices on the API server, with one list of all claims for each (rare) decision.

    Args:
        client: the API server.
        devices: the devices in question.

    Returns:
        The claim that holds each device. A claim with admin access does not hold the device.

    Raises:
        DraError: the claims cannot be listed, or one cannot be read, so that its devices are unknown.
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
