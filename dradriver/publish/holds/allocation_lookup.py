"""Look up which claims hold which devices."""

from collections.abc import Awaitable, Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import TypeAlias

from dradriver.kube import CLAIMS, Client
from dradriver.model.resource.claim import DeviceId, ResourceClaim

__all__ = ["AllocationLookup", "look_up_allocations"]

AllocationLookup: TypeAlias = Callable[[AbstractSet[DeviceId]], Awaitable[Mapping[DeviceId, str]]]
"""Returns, by device, the claim (`namespace/name`) that holds it. Free devices are omitted.

Share IDs are ignored. The function may raise a `DraError`. The devices then count as held until a later call
succeeds.
"""


async def look_up_allocations(client: Client, devices: AbstractSet[DeviceId]) -> Mapping[DeviceId, str]:
    """Look up which claims hold devices. Each call lists all claims; calls are rare.

    Args:
        client: the API server.
        devices: the devices to look up.

    Returns:
        By device, the claim that holds it. A claim with admin access holds no device.

    Raises:
        DraError: the claims cannot be listed, or a claim cannot be read, so its devices are unknown.
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
