"""Claims that a controller has allocated (KEP-3063), and a driver that remembers their handles."""

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from dradriver.driver import Claim
from dradriver.model.classic.handles import split_handle
from dradriver.model.classic.names import finalizer
from dradriver.model.resource.claim import Allocation, AllocationConfig, DeviceResult, ResourceClaim
from dradriver.model.resource.pool import Pool
from tests.unit.node.world import DRIVER, Answers, LampDriver, allocated

CONTROLLER: Final = "controller.example.com"
POOL: Final = f"{CONTROLLER}/street-1"
"""A pool that is in no slice, and that the driver does not discover."""

MAX_ENTRIES: Final = 64
"""Maximum number of entries in `status.allocation.devices.config` (`AllocationConfigMaxSize`)."""


def result(device: str, *, request: str = "request-0", driver: str = DRIVER, pool: str = POOL) -> DeviceResult:
    return DeviceResult(request=request, driver=driver, pool=pool, device=device)


def controlled(
    name: str,
    *devices: str | DeviceResult,
    handle: bytes | None = b"",
    shareable: bool = False,
    uid: str = "",
    parameters: bytes | None = None,
) -> ResourceClaim:
    """A claim that a controller has allocated; devices are names in its pool, one request each."""
    results = [
        device if isinstance(device, DeviceResult) else result(device, request=f"request-{n}")
        for n, device in enumerate(devices)
    ]
    claim = allocated(name, *results, uid=uid, parameters=parameters)
    claim = replace(claim, metadata=replace(claim.metadata, finalizers=[finalizer(CONTROLLER)]))
    if handle is None:
        return claim
    return with_config(claim, split_handle(DRIVER, claim.metadata.uid, handle, shareable=shareable))


def with_config(claim: ResourceClaim, entries: Sequence[AllocationConfig]) -> ResourceClaim:
    """The claim with more entries in the configuration of its allocation."""
    allocation = claim.allocation or Allocation()
    devices = replace(allocation.devices, config=[*allocation.devices.config, *entries])
    return replace(claim, status=replace(claim.status, allocation=replace(allocation, devices=devices)))


class HandleDriver(LampDriver):
    """A driver whose devices are only those of a controller; it remembers the handle of each call."""

    def __init__(self, hardware: dict[str, tuple[str, ...]]) -> None:
        super().__init__(hardware)
        self.prepared: list[bytes | None] = []
        self.unprepared: list[bytes | None] = []

    def discover(self) -> Sequence[Pool]:
        return []

    async def prepare(self, claim: Claim) -> Answers:
        self.prepared.extend(device.handle for device in claim.devices)
        return await super().prepare(claim)

    async def unprepare(self, claim: Claim) -> None:
        self.unprepared.extend(device.handle for device in claim.devices)
        await super().unprepare(claim)
