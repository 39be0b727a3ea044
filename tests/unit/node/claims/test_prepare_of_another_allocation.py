"""A claim that is allocated again with the same devices, and no unprepare in between."""

from datetime import UTC, datetime

import msgspec
import pytest
from msgspec.structs import replace

from dradriver.errors import DriverError
from dradriver.model.resource.claim import AllocatedDeviceStatus, DeviceResult, ResourceClaim
from dradriver.model.resource.device import Device
from dradriver.model.resource.pool import Pool
from dradriver.model.resource.slices import ResourceSlice
from dradriver.node.errors import AllocationEndedError
from dradriver.node.state.records import ClaimRecord
from dradriver.publish import layout
from tests.unit.node.world import DRIVER, LampDriver, World, allocated, ref

SHARED = Pool("array", devices=(Device("wide"),), all_nodes=True)


def at(claim: ResourceClaim, second: int) -> ResourceClaim:
    moment = datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC)
    assert claim.allocation is not None
    allocation = replace(claim.allocation, allocation_timestamp=moment)
    return replace(claim, status=replace(claim.status, allocation=allocation))


def with_serial(claim: ResourceClaim, serial: str) -> ResourceClaim:
    data = msgspec.Raw(msgspec.json.encode({"serial": serial}))
    status = AllocatedDeviceStatus(driver=DRIVER, pool="array", device="wide", data=data)
    return replace(claim, status=replace(claim.status, devices=[status]))


@pytest.fixture
def shared(world: World) -> ResourceClaim:
    world.api.slices = [ResourceSlice(spec=spec) for spec in layout(SHARED, DRIVER, None)]
    result = DeviceResult(request="request-0", driver=DRIVER, pool="array", device="wide")
    return allocated("claim", result)


async def test_a_device_of_a_shared_pool_is_unprepared_and_prepared_again(
    world: World, shared: ResourceClaim
) -> None:
    driver = LampDriver(world.hardware)
    async with world.running(driver=driver) as process:
        await process.prepare(at(shared, 1))
        await process.prepare(at(shared, 1))
        assert driver.calls == ["prepare claim"]
        await process.prepare(at(shared, 2))
    assert driver.calls == ["prepare claim", "unprepare claim", "prepare claim"]


async def test_a_half_prepared_device_that_was_attached_again_is_unprepared_first(
    world: World, shared: ResourceClaim
) -> None:
    """The new allocation has the same time, and other data."""
    driver = LampDriver(world.hardware)
    async with world.running(driver=driver) as process:
        await process.prepare(with_serial(at(shared, 1), "1"))
        await process.prepare(with_serial(at(shared, 1), "2"))
        assert driver.calls == ["prepare claim"]
        await process.unprepare(ref(shared))
        driver.calls.clear()
        driver.failure = DriverError("no window")
        with pytest.raises(DriverError):
            await process.prepare(with_serial(at(shared, 1), "1"))
        driver.failure = None
        await process.prepare(with_serial(at(shared, 1), "2"))
    assert driver.calls == ["prepare claim", "unprepare claim", "prepare claim"]


async def test_a_restart_in_between_changes_nothing(world: World, shared: ResourceClaim) -> None:
    async with world.running() as process:
        await process.prepare(at(shared, 1))
    driver = LampDriver(world.hardware)
    async with world.running(driver=driver) as process:
        await process.prepare(at(shared, 2))
    assert driver.calls == ["unprepare claim", "prepare claim"]


async def test_a_device_of_the_node_stays_prepared(world: World) -> None:
    claim = allocated("claim", "lamp-0")
    driver = LampDriver(world.hardware)
    async with world.running(driver=driver) as process:
        await process.prepare(at(claim, 1))
        await process.prepare(at(claim, 2))
    assert driver.calls == ["prepare claim"]


async def test_an_allocation_that_ends_while_its_use_is_noted_is_reverted(
    world: World, shared: ResourceClaim
) -> None:
    async def ended(record: ClaimRecord, _seen: ResourceClaim) -> None:
        raise AllocationEndedError(f"claim {record.ref}")

    driver = LampDriver(world.hardware)
    async with world.running(driver=driver) as process:
        object.__setattr__(process.claims, "note_use", ended)
        with pytest.raises(AllocationEndedError):
            await process.prepare(at(shared, 1))
        assert not await process.rows()
    assert driver.calls == ["unprepare claim"]
