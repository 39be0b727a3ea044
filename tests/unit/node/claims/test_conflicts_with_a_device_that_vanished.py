"""The consumption of a device that is no longer offered is known, or its claim is rejected."""

from collections.abc import Sequence

import pytest

from dradriver.model.quantity import Quantity
from dradriver.model.resource.claim import DeviceResult
from dradriver.model.resource.counters import CounterConsumption, CounterSet
from dradriver.model.resource.device import Capacity, Device
from dradriver.model.resource.pool import Pool
from dradriver.node.errors import ClaimError, DeviceInUseError
from tests.unit.node.world import DRIVER, NODE, LampDriver, World, allocated


def lamp(name: str, watts: int, *groups: str) -> Device:
    return Device(name, consumes_counters=[CounterConsumption("socket", {"watts": watts}, groups)])


WHOLE, HALF, OTHER_HALF = lamp("whole", 100), lamp("half", 50), lamp("other-half", 50)


class SocketDriver(LampDriver):
    """Lamps in one socket; nothing is offered while nothing is plugged in."""

    def __init__(self, world: World, *lamps: Device) -> None:
        super().__init__(world.hardware)
        self.devices = lamps

    def discover(self) -> Sequence[Pool]:
        if not self.devices:
            return []
        return [Pool(NODE, tuple(self.devices), (CounterSet("socket", {"watts": 100}),))]


async def prepare_in_turn(world: World, first: SocketDriver, second: SocketDriver, wanted: str) -> None:
    """Prepares `half` in one process, then another device in the next one, which offers other devices."""
    async with world.running(driver=first) as process:
        await process.prepare(allocated("first", "half"))
    async with world.running(driver=second) as process:
        await process.prepare(allocated("second", wanted))


async def test_a_vanished_device_overdraws_the_counter_set(world: World) -> None:
    both, rest = SocketDriver(world, WHOLE, HALF), SocketDriver(world, HALF)
    with pytest.raises(DeviceInUseError, match=r"second .* and default/first .* together consume 150 of 100"):
        await prepare_in_turn(world, both, rest, "whole")


async def test_a_vanished_device_that_fits_is_prepared(world: World) -> None:
    await prepare_in_turn(world, SocketDriver(world, OTHER_HALF, HALF), SocketDriver(world, HALF), "other-half")


async def test_a_vanished_counter_set_counts_as_last_offered(world: World) -> None:
    both = SocketDriver(world, WHOLE, HALF)
    with pytest.raises(DeviceInUseError, match="together consume 150 of 100"):
        await prepare_in_turn(world, both, SocketDriver(world), "whole")


async def test_a_vanished_device_keeps_its_compatibility_groups(world: World) -> None:
    mixed = SocketDriver(world, lamp("half", 10, "led"), lamp("bulb", 10, "glow"))
    with pytest.raises(DeviceInUseError, match="no compatibility group in common"):
        await prepare_in_turn(world, mixed, SocketDriver(world), "bulb")


async def test_a_device_that_was_never_offered_is_rejected_if_the_pool_has_counter_sets(world: World) -> None:
    with pytest.raises(ClaimError, match=r"device lamp.example.com/node-1/whole is not offered by the driver"):
        await prepare_in_turn(world, SocketDriver(world, HALF), SocketDriver(world), "whole")


async def test_a_rebuilt_state_holds_an_unknown_device(world: World) -> None:
    """It may be in use: claims that consume counters wait until it is unprepared or offered again."""
    world.api.add(allocated("lost", "whole"))
    async with world.running(driver=SocketDriver(world, HALF), complete=False) as process:
        await process.rebuilder.ensure_complete()
        (row,) = await process.rows()
        assert row.record.name == "lost"
        with pytest.raises(
            ClaimError, match=r"consumption of device .*whole of claim default/lost .* is unknown"
        ):
            await process.prepare(allocated("half", "half"))


def share(name: str, watts: int) -> DeviceResult:
    return DeviceResult(
        request="r",
        driver=DRIVER,
        pool=NODE,
        device="strip",
        share_id=name,
        consumed_capacity={"watts": Quantity(watts)},
    )


@pytest.mark.parametrize("offered", [True, False], ids=["offered", "vanished"])
async def test_shares_of_a_device_do_not_overdraw_its_capacity(world: World, *, offered: bool) -> None:
    strip = Device("strip", capacity={"watts": Capacity(Quantity(100))}, allow_multiple_allocations=True)
    async with world.running(driver=SocketDriver(world, strip)) as process:
        await process.prepare(allocated("first", share("1", 60)))
    devices = [strip] if offered else []
    async with world.running(driver=SocketDriver(world, *devices)) as process:
        await process.prepare(allocated("second", share("2", 40)))
        with pytest.raises(DeviceInUseError, match=r"default/third .* and default/first .*, default/second"):
            await process.prepare(allocated("third", share("3", 1)))
