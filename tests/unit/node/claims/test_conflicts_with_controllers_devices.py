"""Devices that a controller has allocated are in no slice: they block no device of a slice, only each other."""

from collections.abc import Sequence

import pytest

from dradriver.model.resource.claim import DeviceResult, ResourceClaim
from dradriver.model.resource.counters import CounterConsumption, CounterSet
from dradriver.model.resource.device import Device
from dradriver.model.resource.pool import Pool
from dradriver.node.claims.prepare import check_free
from dradriver.node.claims.rebuild import record_hold
from dradriver.node.errors import ClaimError, DeviceInUseError
from tests.unit.node.controlled import POOL, HandleDriver, controlled, result
from tests.unit.node.world import NODE, LampDriver, World, allocated, ref


class CountingDriver(LampDriver):
    """Its lamps consume from one socket."""

    def discover(self) -> Sequence[Pool]:
        lamps = [
            Device(f"lamp-{n}", consumes_counters=[CounterConsumption("socket", {"watts": 50})]) for n in (0, 1)
        ]
        return [Pool(NODE, tuple(lamps), (CounterSet("socket", {"watts": 100}),))]


IN_THE_NODES_POOL = result("fabric-0", pool=NODE)
IN_ANOTHER_POOL = result("fabric-0", pool=POOL)


@pytest.mark.parametrize(
    ("device", "handle"),
    [(IN_THE_NODES_POOL, b"x"), (IN_ANOTHER_POOL, b"x"), (IN_ANOTHER_POOL, None)],
    ids=["by its handle, in the node's pool", "by its handle", "by its pool"],
)
@pytest.mark.parametrize("is_rebuilt", [False, True], ids=["prepared", "rebuilt"])
async def test_a_device_of_a_controllers_allocation_blocks_no_claim_on_slices(
    world: World, device: DeviceResult, handle: bytes | None, *, is_rebuilt: bool
) -> None:
    claim = controlled("fabric", device, handle=handle)
    async with world.running(driver=CountingDriver(world.hardware)) as process:
        if is_rebuilt:
            await record_hold(process.claims, claim)
        else:
            await process.prepare(claim)
        await process.prepare(allocated("first", "lamp-0"))
        await process.prepare(allocated("second", "lamp-1"))


async def test_a_claim_on_slices_that_uses_all_counters_blocks_no_controllers_device(world: World) -> None:
    async with world.running(driver=CountingDriver(world.hardware)) as process:
        await process.prepare(allocated("both", "lamp-0", "lamp-1"))
        await process.prepare(controlled("fabric", IN_THE_NODES_POOL, handle=b"x"))


async def test_a_device_that_is_unknown_and_has_no_handle_still_blocks(world: World) -> None:
    async with world.running(driver=CountingDriver(world.hardware)) as process:
        await record_hold(process.claims, allocated("lost", "lamp-9"))
        with pytest.raises(
            ClaimError, match=r"consumption of device .*lamp-9 of claim default/lost .* is unknown"
        ):
            await process.prepare(allocated("first", "lamp-0"))


async def test_a_device_that_slices_and_a_controller_hand_out_is_prepared_once(world: World) -> None:
    """The counters of the published device count for the controller's claim too."""
    async with world.running(driver=CountingDriver(world.hardware)) as process:
        await process.prepare(controlled("fabric", result("lamp-0", pool=NODE), handle=b"x"))
        with pytest.raises(DeviceInUseError, match="lamp-0 is prepared for claim default/fabric"):
            await process.prepare(allocated("first", "lamp-0"))
        (row,) = await process.rows()
    (device,) = row.record.devices
    assert [each.counter_set for each in device.consumes] == ["socket"]


def pair(*, shareable: bool) -> tuple[ResourceClaim, ResourceClaim]:
    first, second = (controlled(name, "lamp-0", shareable=shareable) for name in ("first", "second"))
    return first, second


@pytest.mark.parametrize("handle", [b"", None], ids=["with a handle", "without a handle"])
async def test_two_claims_with_the_same_device_of_a_controller_conflict(
    world: World, handle: bytes | None
) -> None:
    first, second = (controlled(name, "lamp-0", handle=handle) for name in ("first", "second"))
    async with world.running(driver=HandleDriver(world.hardware)) as process:
        await process.prepare(first)
        with pytest.raises(DeviceInUseError, match="lamp-0 is prepared for claim default/first"):
            await process.prepare(second)
        with pytest.raises(DeviceInUseError):
            await check_free(process.claims, second)
        await process.unprepare(ref(first))
        await process.prepare(second)


async def test_two_claims_share_a_device_that_the_controller_made_shareable(world: World) -> None:
    first, second = pair(shareable=True)
    driver = HandleDriver(world.hardware)
    async with world.running(driver=driver) as process:
        await process.prepare(first)
        await process.prepare(second)
        await process.unprepare(ref(first))
    assert set(world.hardware) == {second.metadata.uid}


async def test_a_claim_that_is_not_shareable_shares_no_device(world: World) -> None:
    first, _ = pair(shareable=True)
    _, second = pair(shareable=False)
    async with world.running(driver=HandleDriver(world.hardware)) as process:
        await process.prepare(first)
        with pytest.raises(DeviceInUseError):
            await process.prepare(second)


async def test_a_claim_on_a_shared_device_that_is_gone_is_unprepared_after_the_state_was_lost(
    world: World,
) -> None:
    """Another claim has its device too, but the driver must still release what it holds for this claim."""
    first, second = pair(shareable=True)
    async with world.running(driver=HandleDriver(world.hardware)) as process:
        await process.prepare(world.api.add(second))
        await process.prepare(first)
    world.hardware.pop(first.metadata.uid)
    (world.cdi_dir / f"lamp.example.com-claim_{first.metadata.uid}.json").unlink()
    driver = HandleDriver(world.hardware)
    async with world.running(driver=driver, complete=False) as process:
        await process.state.write(lambda rows: rows.set_incomplete())
        await process.rebuilder.ensure_complete()
        assert [row.record.name for row in await process.rows()] == ["second"]
    assert "unprepare first" in driver.calls
