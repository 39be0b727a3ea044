"""Which claims hold which devices."""

from collections.abc import Awaitable, Mapping
from collections.abc import Set as AbstractSet
from typing import Protocol

from dradriver.kube import CLAIMS, Client
from dradriver.model.resource.claim import DeviceId, ResourceClaim

__all__ = ["ClaimsOnServer", "Holders"]


class Holders(Protocol):
    """Answers which of the devices are allocated, and to which claim (`namespace/name`).

    It may raise a `DraError`; then the devices count as held until it answers.
    """

    def __call__(self, devices: AbstractSet[DeviceId], /) -> Awaitable[Mapping[DeviceId, str]]:
        """The claim that holds each device; free ones are left out. Share IDs are ignored."""


class ClaimsOnServer:
    """Asks the API server: one list of all claims for a decision, which is rare."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def __call__(self, devices: AbstractSet[DeviceId], /) -> Mapping[DeviceId, str]:
        """The claims that hold the devices; claims with admin access do not hold what they see.

        Raises:
            DraError: a claim can't be read, or all of them; nobody knows what it holds.
        """
        listing = await self._client.list(CLAIMS, into=ResourceClaim)
        for problem in listing.unreadable.values():
            raise problem
        held: dict[DeviceId, str] = {}
        for claim in listing.items:
            for result in claim.results:
                device = DeviceId(result.driver, result.pool, result.device)
                if device in devices and not result.admin_access:
                    held.setdefault(device, claim.ref)
        return held
