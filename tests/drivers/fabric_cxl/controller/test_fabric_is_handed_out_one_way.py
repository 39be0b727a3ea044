"""A fabric is handed out by slices or by the controller, never both, also after a new setting and a crash."""

import random
from contextlib import suppress

import pytest

import dradriver as dra
from dradriver_fabric_cxl import FabricPoolsDriver
from dradriver_fabric_cxl.fabric import AttachRequest, FabricAttachment
from dradriver_fabric_cxl.fabric.simulator import FabricCall, FabricFault, SimulatedFabric
from tests.drivers.fabric_cxl.controller.controlled_claims import (
    CONTROLLER,
    NODES,
    POOL,
    SLICES,
    accelerator,
    allocate,
    attached,
    driver_of,
    memory,
    pending,
    recorded,
    unsuitable,
)
from tests.drivers.fabric_cxl.fabric_suite import PACE, RANDOM_FAULTS, SEEDS, ImpatientTime
from tests.drivers.fabric_cxl.pool_claims import Allocation, PoolsContext, attach, report_all
from tests.drivers.fabric_cxl.pool_claims import allocate as allocate_slice

CHUNK = "pool-a-host-0-1gi-0"


@pytest.fixture
def fabric() -> SimulatedFabric:
    return SimulatedFabric(pace=PACE)


async def by_slices(fabric: SimulatedFabric) -> Allocation:
    """A claim whose device the scheduler has allocated, and the driver has attached."""
    async with driver_of(fabric, SLICES) as driver:
        allocation = await allocate_slice(driver, CHUNK)
        await attach(driver, allocation)
        return allocation


async def counters(driver: FabricPoolsDriver, name: str) -> dict[str, int]:
    """The published counters of a name, by counter set."""
    (pool,) = await driver.discover()
    sets = {each.name: each.counters for each in pool.counter_sets}
    return {each: int(str(found[name].value)) for each, found in sets.items() if name in found}


async def test_slices_are_the_default(fabric: SimulatedFabric) -> None:
    async with driver_of(fabric, "") as driver:
        (pool,) = await driver.discover()
        assert pool.devices
        assert await unsuitable(driver, pending("uid-2", memory("1Gi"))) == NODES


async def test_the_controller_withdraws_what_was_published(fabric: SimulatedFabric) -> None:
    async with driver_of(fabric, CONTROLLER) as driver:
        assert await driver.discover() == []
        assert await driver.fallback({"sharedCounters"}) == []


async def test_slices_are_withdrawn_while_the_manager_does_not_answer(fabric: SimulatedFabric) -> None:
    async with driver_of(fabric, CONTROLLER) as driver:
        fabric.fail(FabricCall.READ, FabricFault.UNREACHABLE, times=1000)
        assert await driver.discover() == []


async def test_a_claim_of_slices_keeps_what_it_holds_until_it_is_released(fabric: SimulatedFabric) -> None:
    allocation = await by_slices(fabric)
    async with driver_of(fabric, CONTROLLER) as driver:
        assert await driver.attachments() == [allocation.record]
        assert await driver.allocations() == set()
        serial = allocation.serial
        await attach(driver, allocation)
        assert allocation.serial == serial
        await driver.deallocate(recorded(allocation.uid))
        assert len(await fabric.attachments()) == 1
        await driver.detach(allocation.record)
        assert await fabric.attachments() == ()


async def test_the_controller_never_hands_out_what_a_claim_of_slices_holds(fabric: SimulatedFabric) -> None:
    await by_slices(fabric)
    async with driver_of(fabric, CONTROLLER) as driver:
        assert await unsuitable(driver, pending("uid-2", memory("64Gi"))) == NODES
        await allocate(driver, pending("uid-3", memory("63Gi")), node="node-host-1")
        four = pending("uid-4", memory("1Gi", count=4))
        assert await unsuitable(driver, four) == ["node-host-0", "node-host-1"]


async def test_a_claim_that_was_allocated_from_old_slices_is_refused(fabric: SimulatedFabric) -> None:
    async with driver_of(fabric, SLICES) as driver:
        allocation = await allocate_slice(driver, CHUNK)
    async with driver_of(fabric, CONTROLLER) as driver:
        with pytest.raises(dra.AttachError, match="handed out by the controller") as refused:
            await attach(driver, allocation)
        assert (refused.value.reason, refused.value.device_is_bad) == ("HandedOutByController", False)
        assert await fabric.attachments() == ()
        await driver.detach(allocation.record)


async def test_an_attachment_that_a_dead_process_has_begun_is_completed() -> None:
    fabric = SimulatedFabric(pace=ImpatientTime().pace())
    async with driver_of(fabric, SLICES) as driver:
        allocation = await allocate_slice(driver, CHUNK)
        fabric.fail(FabricCall.CREATE_CONNECTION, FabricFault.TASK_FAILS, times=2)
        with pytest.raises(dra.AttachError):
            await attach(driver, allocation)
    (begun,) = await fabric.attachments()
    assert not begun.connected
    async with driver_of(fabric, CONTROLLER) as driver:
        await attach(driver, allocation)
        assert await driver.attachments() == [allocation.record]


async def test_slices_refuse_the_claims_of_the_controller(fabric: SimulatedFabric) -> None:
    claim = pending("uid-2", memory("1Gi"))
    async with driver_of(fabric, SLICES) as driver:
        assert await unsuitable(driver, claim) == NODES
        for node in (NODES[0], None):
            with pytest.raises(
                dra.AllocationError, match=r"handed out by slices \(\$FABRIC_CXL_POOLS_SETTINGS"
            ):
                await driver.allocate([claim], node)
    assert await fabric.attachments() == ()


async def test_a_claim_of_the_controller_keeps_what_it_holds_until_it_is_released(
    fabric: SimulatedFabric,
) -> None:
    async with driver_of(fabric, CONTROLLER) as driver:
        (result,) = await allocate(driver, pending("uid-1", memory("8Gi")))
    async with driver_of(fabric, SLICES) as driver:
        assert await driver.attachments() == []
        assert await driver.allocations() == {"uid-1"}
        (found,) = await fabric.attachments()
        assert found.serial == attached(result)[0].serial_number
        await driver.deallocate(recorded("uid-1"))
        assert await fabric.attachments() == ()


async def test_slices_never_offer_the_memory_that_a_claim_of_the_controller_holds(
    fabric: SimulatedFabric,
) -> None:
    async with driver_of(fabric, CONTROLLER) as driver:
        await allocate(driver, pending("uid-1", memory("8Gi")))
    async with driver_of(fabric, SLICES) as driver:
        assert await counters(driver, "mebibytes") == {"pool-a": 64 << 10, "pool-b": 24 << 10}
        await driver.deallocate(recorded("uid-1"))
        assert await counters(driver, "mebibytes") == {"pool-a": 64 << 10, "pool-b": 32 << 10}


async def test_slices_never_offer_the_attachments_of_a_port_that_a_claim_of_the_controller_holds(
    fabric: SimulatedFabric,
) -> None:
    async with driver_of(fabric, CONTROLLER) as driver:
        await allocate(driver, pending("uid-1", memory("1Gi", count=3)), node="node-host-1")
    async with driver_of(fabric, SLICES) as driver:
        assert await counters(driver, "attachments") == {"host-0": 4, "host-1": 1, "host-2": 4, "host-3": 4}


async def test_slices_never_offer_an_accelerator_that_a_claim_of_the_controller_holds(
    fabric: SimulatedFabric,
) -> None:
    async with driver_of(fabric, CONTROLLER) as driver:
        await allocate(driver, pending("uid-1", accelerator()))
    async with driver_of(fabric, SLICES) as driver:
        (pool,) = await driver.discover()
        assert "gpu-0" not in {each.name for each in pool.devices}
        await driver.deallocate(recorded("uid-1"))
        (pool,) = await driver.discover()
        assert "gpu-0" in {each.name for each in pool.devices}


class WatchedFabric(SimulatedFabric):
    """A fabric that checks what a process with a setting attaches anew.

    Attributes:
        handed_out_by: the setting of the process that works.
    """

    handed_out_by = SLICES

    async def attach(self, request: AttachRequest) -> FabricAttachment:
        known = {each.identity.tag for each in await self.attachments()}
        is_controlled = request.identity.pool == POOL
        assert request.identity.tag in known or is_controlled == (self.handed_out_by == CONTROLLER)
        return await super().attach(request)


@pytest.mark.parametrize("seed", range(SEEDS * 5))
async def test_no_history_of_settings_failures_and_restarts_attaches_anything_the_other_way(seed: int) -> None:
    chance = random.Random(seed)
    fabric = WatchedFabric(pace=ImpatientTime().pace())
    context = PoolsContext(report_all(await fabric.inventory()))
    async with driver_of(fabric, SLICES, context) as driver:
        (pool,) = await driver.discover()
        names = chance.sample([each.name for each in pool.devices], 6)
        sliced = [await allocate_slice(driver, name, uid=f"slice-{name}") for name in names if name != "gpu-0"]
    claims = [pending(f"uid-{number}", memory("1Gi", count=2)) for number in range(4)]
    for _ in range(8):
        fabric.handed_out_by = chance.choice([SLICES, CONTROLLER])
        async with driver_of(fabric, fabric.handed_out_by, context) as driver:
            for _ in range(6):
                if chance.random() < 0.3:
                    fabric.fail(chance.choice(list(FabricCall)), chance.choice(RANDOM_FAULTS), times=2)
                with suppress(dra.DraError):
                    await do_something(chance, driver, chance.choice(sliced), chance.choice(claims))
        with suppress(dra.DraError):
            devices = [(each.identity.pool, each.identity.device) for each in await fabric.attachments()]
            assert len(devices) == len(set(devices))


async def do_something(
    chance: random.Random, driver: FabricPoolsDriver, allocation: Allocation, claim: dra.PendingClaim
) -> None:
    """Attach or detach a claim of slices, or a claim of the controller."""
    match chance.randrange(4):
        case 0:
            await attach(driver, allocation)
        case 1:
            await driver.detach(allocation.record)
        case 2:
            await driver.allocate([claim], chance.choice(NODES))
        case _:
            await driver.deallocate(recorded(claim.uid))
