"""`prepare` and `unprepare` get the data of the claim's status as it was recorded first."""

from collections.abc import Mapping
from typing import Final

import msgspec
import pytest

from dradriver.driver import Claim
from dradriver.model.resource.claim import AllocatedDeviceStatus, ResourceClaim
from dradriver.node.claims.lookup import to_allocated_claim
from dradriver.node.claims.rebuild import record_hold
from dradriver.node.crash_points import CrashPoint
from dradriver.node.state.records import decode_record
from tests.unit.node.world import DRIVER, NODE, Answers, LampDriver, World, allocated, ref

DATA: Final = {"serial": "0x1f"}


class SerialDriver(LampDriver):
    """Remembers the data of each call."""

    def __init__(self, hardware: dict[str, tuple[str, ...]]) -> None:
        super().__init__(hardware)
        self.prepared: list[Mapping[str, object] | None] = []
        self.unprepared: list[Mapping[str, object] | None] = []

    async def prepare(self, claim: Claim) -> Answers:
        self.prepared.extend(device.data for device in claim.devices)
        return await super().prepare(claim)

    async def unprepare(self, claim: Claim) -> None:
        self.unprepared.extend(device.data for device in claim.devices)
        await super().unprepare(claim)


def with_data(claim: ResourceClaim, data: object) -> ResourceClaim:
    result = claim.results[0]
    entry = AllocatedDeviceStatus(
        driver=DRIVER, pool=NODE, device=result.device, data=msgspec.Raw(msgspec.json.encode(data))
    )
    return msgspec.structs.replace(claim, status=msgspec.structs.replace(claim.status, devices=[entry]))


class Killed(BaseException):
    """The process is gone: nothing catches this."""


def kill_after_the_driver(step: CrashPoint, _uid: str) -> None:
    if step is CrashPoint.PREPARE_DRIVER_DONE:
        raise Killed


async def test_a_restart_hands_over_the_same_data(world: World) -> None:
    claim = allocated("claim", "lamp-0", "lamp-1")
    driver = SerialDriver(world.hardware)
    process = await world.start(driver=driver, observe=kill_after_the_driver)
    with pytest.raises(Killed):
        await process.prepare(with_data(claim, DATA))
    await process.die()
    assert driver.prepared == [DATA, None]
    driver = SerialDriver(world.hardware)
    process = await world.start(driver=driver)
    await process.prepare(with_data(claim, {"serial": "another"}))
    await process.unprepare(ref(claim))
    await process.die()
    assert driver.prepared == driver.unprepared == [DATA, None]


async def test_changed_data_is_not_another_allocation(world: World) -> None:
    claim = allocated("claim", "lamp-0")
    driver = SerialDriver(world.hardware)
    process = await world.start(driver=driver)
    first = await process.prepare(with_data(claim, DATA))
    assert await process.prepare(claim) == first
    assert await process.prepare(with_data(claim, {"serial": "another"})) == first
    await process.die()
    assert driver.prepared == [DATA]
    assert not driver.unprepared


async def test_a_claim_that_was_recorded_before_its_data_existed_gets_the_data(world: World) -> None:
    """A rebuilt state records a claim whose pod still waits for its devices."""
    claim = allocated("claim", "lamp-0")
    driver = SerialDriver(world.hardware)
    process = await world.start(driver=driver)
    await record_hold(process.claims, claim)
    await process.prepare(with_data(claim, DATA))
    await process.die()
    assert driver.prepared == [DATA]


@pytest.mark.parametrize("data", [[1], "text", None])
def test_data_that_is_no_object_counts_as_none(data: object) -> None:
    claim = with_data(allocated("claim", "lamp-0"), data)
    (device,) = to_allocated_claim(claim, DRIVER, NODE).record.devices
    assert device.data == ""


def test_a_record_of_before_has_no_data() -> None:
    record = decode_record(b'{"uid":"u","devices":[{"request":"r","pool":"p","device":"d"}]}')
    (device,) = record.devices
    assert device.to_allocated_device(None, ()).data is None
