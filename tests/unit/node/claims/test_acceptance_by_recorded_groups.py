"""The groups of the allocation decide on the node, not those that the driver declares now (KEP-5963)."""

from collections.abc import Callable, Mapping, Sequence

import pytest
from msgspec.structs import replace

from dradriver.model.resource.claim import Allocation, DeviceResult, ResourceClaim
from dradriver.model.resource.counters import CounterConsumption, CounterSet
from dradriver.model.resource.device import Device
from dradriver.model.resource.pool import Pool
from dradriver.model.resource.recorded_groups import record_groups_in_config
from dradriver.node.errors import DeviceInUseError
from dradriver.node.files.atomic import remove
from tests.unit.node.world import DRIVER, NODE, LampDriver, World, allocated


class SocketDriver(LampDriver):
    """Two halves of one socket, which declare these groups."""

    def __init__(self, world: World, *groups: str) -> None:
        super().__init__(world.hardware)
        self.devices = [
            Device(name, consumes_counters=[CounterConsumption("socket", {"watts": 40}, groups)])
            for name in ("h1", "h2")
        ]

    def discover(self) -> Sequence[Pool]:
        return [Pool(NODE, tuple(self.devices), (CounterSet("socket", {"watts": 100}),))]


def claim_of(name: str, device: str, groups: Mapping[str, Sequence[str]]) -> ResourceClaim:
    """A claim whose allocation result records the groups in force."""
    recorded = {key: list(value) for key, value in groups.items()}
    result = DeviceResult(
        request="lamp", driver=DRIVER, pool=NODE, device=device, compatibility_groups=recorded
    )
    return allocated(name, result)


def in_config(claim: ResourceClaim) -> ResourceClaim:
    """The same for an API server that drops the field of results."""
    allocation = claim.allocation
    assert allocation is not None
    kept: Allocation = record_groups_in_config(allocation)
    return replace(claim, status=replace(claim.status, allocation=kept))


def in_result(claim: ResourceClaim) -> ResourceClaim:
    return claim


LED = {"socket": ["led"]}


@pytest.mark.parametrize("kept", [in_result, in_config])
async def test_a_group_that_was_renamed_since_the_allocation_still_counts(
    world: World, kept: Callable[[ResourceClaim], ResourceClaim]
) -> None:
    async with world.running(driver=SocketDriver(world, "led")) as process:
        await process.prepare(kept(claim_of("a", "h1", LED)))
    async with world.running(driver=SocketDriver(world, "led2")) as process:
        await process.prepare(kept(claim_of("b", "h2", LED)))


@pytest.mark.parametrize("kept", [in_result, in_config])
async def test_groups_that_the_driver_declares_later_do_not_count(
    world: World, kept: Callable[[ResourceClaim], ResourceClaim]
) -> None:
    async with world.running(driver=SocketDriver(world, "led")) as process:
        await process.prepare(kept(claim_of("a", "h1", LED)))
        with pytest.raises(DeviceInUseError, match="bulb and led"):
            await process.prepare(kept(claim_of("b", "h2", {"socket": ["bulb"]})))


async def test_in_a_claim_with_a_record_a_counter_set_without_groups_has_none(world: World) -> None:
    async with world.running(driver=SocketDriver(world, "led")) as process:
        await process.prepare(claim_of("a", "h1", LED))
        with pytest.raises(DeviceInUseError, match="none and led"):
            await process.prepare(claim_of("b", "h2", {"other": ["led"]}))


async def test_a_device_that_vanished_has_the_groups_of_the_record(world: World) -> None:
    driver = SocketDriver(world, "led2")
    async with world.running(driver=driver) as process:
        await process.prepare(claim_of("a", "h1", LED))
    one_left = SocketDriver(world, "led2")
    one_left.devices = one_left.devices[:1]
    async with world.running(driver=one_left) as process:
        with pytest.raises(DeviceInUseError, match="bulb and led;"):
            await process.prepare(claim_of("b", "h2", {"socket": ["bulb"]}))


async def test_a_rebuilt_record_has_the_groups_of_the_claim(world: World) -> None:
    first = world.api.add(claim_of("a", "h1", LED))
    async with world.running(driver=SocketDriver(world, "led")) as process:
        await process.prepare(first)
    for path in world.root.glob("state.db*"):
        remove(path)
    async with world.running(driver=SocketDriver(world, "led2"), complete=False) as process:
        await process.rebuilder.ensure_complete()
        (row,) = await process.rows()
        (consumption,) = row.record.devices[0].consumes
        assert consumption.compatibility_groups == ("led",)
        await process.prepare(claim_of("b", "h2", LED))
