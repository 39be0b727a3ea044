"""Allocated claims in one line, and the decision about them without caches."""

from collections.abc import Collection, Sequence
from datetime import timedelta

from msgspec.structs import replace

from dradriver.control.conflicts.double_allocations import Holders, held_devices
from dradriver.model.resource.claim import Allocation, DeviceResult, ResourceClaim
from dradriver.testing import builders
from tests.unit.control.world import NOW

__all__ = ["allocation_at", "held_by", "held_claim", "share"]


def held_claim(name: str, *results: DeviceResult | str, seconds: int | None = 0) -> ResourceClaim:
    """Return a claim with its name as UID, allocated some seconds after NOW. None: without a timestamp."""
    claim = builders.allocated(builders.claim(name=name), *results)
    assert claim.allocation is not None
    status = replace(claim.status, allocation=allocation_at(claim.allocation, seconds))
    return replace(claim, metadata=replace(claim.metadata, uid=name), status=status)


def allocation_at(allocation: Allocation, seconds: int | None) -> Allocation:
    timestamp = None if seconds is None else NOW + timedelta(seconds=seconds)
    return replace(allocation, allocation_timestamp=timestamp)


def share(device: str, share_id: str | None = None, *, admin_access: bool | None = None) -> DeviceResult:
    """Return a result for a share of a device, or for the device as a whole."""
    return DeviceResult(
        request="device",
        driver=builders.DRIVER,
        pool=builders.NODE,
        device=device,
        share_id=share_id,
        admin_access=admin_access,
    )


def held_by(claims: Sequence[ResourceClaim]) -> Holders:
    """Return a function that returns the claims that hold a device."""

    def holders(key: str) -> Collection[ResourceClaim]:
        return [claim for claim in claims if key in held_devices(claim)]

    return holders
