"""The driver of the pools on a simulated fabric: publish, attach, detach, list."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

import dradriver as dra
from dradriver_fabric_cxl import FabricPoolsDriver
from dradriver_fabric_cxl.fabric import (
    AttachmentIdentity,
    AttachRequest,
    FabricAttachment,
    FabricHealth,
    MemoryRequest,
)
from dradriver_fabric_cxl.fabric.simulator import FabricCall, FabricFault, SimulatedFabric
from dradriver_fabric_cxl.names import ATTACH_FAILED, ATTACHED, NOT_READY, TIMED_OUT
from tests.drivers.fabric_cxl.fabric_suite import PACE, ImpatientTime
from tests.drivers.fabric_cxl.pool_claims import PoolsContext, allocate, attach, report_all

CHUNK = "pool-a-host-0-1gi-0"


class SlowFabric(SimulatedFabric):
    """A fabric that detaches only when the test allows it.

    Attributes:
        allowed: whether detachments end.
        detaching: set when a detachment begins.
        refused: set when an attachment fails.
    """

    def __init__(self) -> None:
        super().__init__(pace=PACE)
        self.allowed, self.detaching, self.refused = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.allowed.set()

    async def attach(self, request: AttachRequest) -> FabricAttachment:
        try:
            return await super().attach(request)
        finally:
            self.refused.set()

    async def detach(self, tag: str) -> None:
        self.detaching.set()
        await self.allowed.wait()
        await super().detach(tag)


@pytest.fixture
def fabric() -> SlowFabric:
    return SlowFabric()


@pytest.fixture
async def driver(fabric: SlowFabric) -> AsyncIterator[FabricPoolsDriver]:
    driver = FabricPoolsDriver("sizes: [1Gi, 32Gi]", fabric)
    driver.set_context(PoolsContext(report_all(await fabric.inventory())))
    yield driver
    await driver.shutdown()


def context_of(driver: FabricPoolsDriver) -> PoolsContext:
    context = driver.context
    assert isinstance(context, PoolsContext)
    return context


async def the_only(fabric: SimulatedFabric) -> FabricAttachment:
    (found,) = await fabric.attachments()
    return found


async def test_attached_memory_is_on_the_claims_node_and_its_serial_number_in_the_claim(
    driver: FabricPoolsDriver, fabric: SlowFabric
) -> None:
    allocation = await allocate(driver, CHUNK)
    await attach(driver, allocation)
    found = await the_only(fabric)
    assert (found.host, found.mebibytes, found.connected) == ("host-0", 1024, True)
    assert found.serial == allocation.serial
    assert allocation.conditions.data[CHUNK]["bytes"] == 1 << 30


async def test_attaching_again_changes_nothing(driver: FabricPoolsDriver, fabric: SlowFabric) -> None:
    allocation = await allocate(driver, CHUNK)
    await attach(driver, allocation)
    serial = allocation.serial
    await attach(driver, allocation)
    assert (await the_only(fabric)).serial == allocation.serial == serial


async def test_detach_removes_what_was_recorded_before_attach(
    driver: FabricPoolsDriver, fabric: SlowFabric
) -> None:
    first, second = await allocate(driver, CHUNK), await allocate(driver, "pool-b-host-1-1gi-0")
    await attach(driver, first)
    await attach(driver, second)
    assert {first.record, second.record} == set(await driver.attachments())
    await driver.detach(first.record)
    await driver.detach(first.record)
    assert [second.record] == await driver.attachments()
    assert (await the_only(fabric)).host == "host-1"


async def test_two_claims_of_one_device_have_attachments_of_their_own(driver: FabricPoolsDriver) -> None:
    first = await allocate(driver, CHUNK)
    second = await allocate(driver, CHUNK, uid="uid-2")
    await attach(driver, first)
    await attach(driver, second)
    await driver.detach(first.record)
    assert [second.record] == await driver.attachments()


async def test_an_accelerator_is_attached_to_the_host_of_the_claims_node(
    driver: FabricPoolsDriver, fabric: SlowFabric
) -> None:
    allocation = await allocate(driver, "gpu-0", node="node-host-2")
    await attach(driver, allocation)
    assert (await the_only(fabric)).host == "host-2"
    assert "bytes" not in allocation.conditions.data["gpu-0"]
    assert [allocation.record] == await driver.attachments()


async def test_a_share_of_a_domain_has_the_size_that_the_scheduler_consumed(fabric: SlowFabric) -> None:
    driver = FabricPoolsDriver("wholeDomains: true", fabric)
    driver.set_context(PoolsContext(report_all(await fabric.inventory())))
    size = {"memory": dra.Quantity("3Gi")}
    shares = [
        await allocate(driver, "pool-a", "node-host-0", share_id=f"share-{n}", consumed_capacity=size)
        for n in range(2)
    ]
    for share in shares:
        await attach(driver, share)
    assert [each.mebibytes for each in await fabric.attachments()] == [3072, 3072]
    assert {share.record for share in shares} == set(await driver.attachments())
    await driver.shutdown()


async def test_a_device_is_not_attached_to_a_host_that_moved_to_another_node(
    driver: FabricPoolsDriver, fabric: SlowFabric
) -> None:
    allocation = await allocate(driver, CHUNK)
    reports = report_all(await fabric.inventory())
    reports["node-host-1"], reports["node-host-0"] = reports["node-host-0"], reports["node-host-1"]
    context_of(driver).reports = reports
    await driver.discover()
    with pytest.raises(dra.AttachError, match="node-host-0") as refused:
        await attach(driver, allocation)
    assert (refused.value.reason, refused.value.device_is_bad) == ("NoHost", False)
    assert await fabric.attachments() == ()


async def test_a_device_that_the_fabric_no_longer_has_is_refused(driver: FabricPoolsDriver) -> None:
    allocation = await allocate(driver, CHUNK)
    gone = replace(allocation, device=replace(allocation.device, name="pool-z-host-0-1gi-0"))
    with pytest.raises(dra.AttachError) as refused:
        await attach(driver, gone)
    assert (refused.value.reason, refused.value.device_is_bad) == ("DeviceGone", False)


async def test_memory_that_is_being_detached_is_waited_for(
    driver: FabricPoolsDriver, fabric: SlowFabric
) -> None:
    first = await allocate(driver, "pool-b-host-0-32gi-0")
    second = await allocate(driver, "pool-b-host-1-32gi-0", uid="uid-2")
    await attach(driver, first)
    fabric.allowed.clear()
    fabric.refused.clear()
    async with asyncio.TaskGroup() as group:
        group.create_task(driver.detach(first.record))
        await fabric.detaching.wait()
        group.create_task(attach(driver, second))
        await fabric.refused.wait()
        fabric.allowed.set()
    assert [second.record] == await driver.attachments()


@pytest.mark.parametrize(
    ("fault", "reason", "condition", "is_bad"),
    [
        (FabricFault.NO_CAPACITY, "NoCapacity", ATTACH_FAILED, False),
        (FabricFault.REFUSED, "Refused", ATTACH_FAILED, False),
        (FabricFault.CONFLICT, "Conflict", ATTACH_FAILED, False),
        (FabricFault.BUSY, "ManagerBusy", ATTACH_FAILED, False),
        (FabricFault.UNREACHABLE, "ManagerUnreachable", ATTACH_FAILED, False),
        (FabricFault.TAG_DROPPED, "TagNotKept", ATTACH_FAILED, False),
        (FabricFault.TASK_FAILS, "AttachFailed", ATTACH_FAILED, True),
        (FabricFault.TASK_HANGS, "TimedOut", TIMED_OUT, True),
    ],
)
async def test_a_failure_has_its_reason_and_only_the_device_at_fault_is_bad(
    fault: FabricFault, reason: str, condition: str, *, is_bad: bool
) -> None:
    fabric = SimulatedFabric(pace=ImpatientTime().pace())
    driver = FabricPoolsDriver("", fabric)
    driver.set_context(PoolsContext(report_all(await fabric.inventory())))
    allocation = await allocate(driver, CHUNK)
    fabric.fail(FabricCall.CREATE_CHUNK, fault, times=1000)
    with pytest.raises(dra.AttachError) as failed:
        await attach(driver, allocation)
    error = failed.value
    assert (error.reason, error.condition, error.device_is_bad) == (reason, condition, is_bad)
    assert not allocation.conditions.data
    await driver.shutdown()


async def test_a_manager_without_tags_has_its_pool_withdrawn(
    driver: FabricPoolsDriver, fabric: SlowFabric, caplog: pytest.LogCaptureFixture
) -> None:
    allocation = await allocate(driver, CHUNK)
    fabric.fail(FabricCall.CREATE_CHUNK, FabricFault.TAG_DROPPED)
    before = context_of(driver).rediscovered
    with pytest.raises(dra.AttachError):
        await attach(driver, allocation)
    assert context_of(driver).rediscovered > before
    assert await driver.discover() == []
    assert await driver.fallback({"sharedCounters"}) == []
    assert "keeps no tags" in caplog.text


async def test_attachments_of_another_clusters_pool_are_left_alone_and_their_memory_is_not_offered(
    driver: FabricPoolsDriver, fabric: SlowFabric
) -> None:
    identity = AttachmentIdentity("uid-9", "other-cluster", CHUNK, "2026-11-22T22:00:00Z")
    await fabric.attach(AttachRequest(identity, "host-3", MemoryRequest("pool-a", 4096)))
    assert await driver.attachments() == []
    (pool,) = await driver.discover()
    counters = {each.name: each.counters for each in pool.counter_sets}
    assert str(counters["pool-a"]["mebibytes"].value) == str((64 << 10) - 4096)
    assert str(counters["pool-b"]["mebibytes"].value) == str(32 << 10)


async def test_a_chunk_that_was_never_connected_is_listed_with_a_node_so_that_it_can_be_removed(
    driver: FabricPoolsDriver, fabric: SlowFabric
) -> None:
    shared, own = (AttachmentIdentity(f"uid-{name}", "simulated", name, "t") for name in ("gone", CHUNK))
    for identity in (shared, own):
        fabric.fail(FabricCall.CREATE_CONNECTION, FabricFault.REFUSED)
        with pytest.raises(dra.DraError):
            await fabric.attach(AttachRequest(identity, "host-0", MemoryRequest("pool-a", 1024)))
    nodes = {each.device: each.node for each in await driver.attachments()}
    assert nodes[CHUNK] == "node-host-0"
    assert nodes["gone"] in report_all(await fabric.inventory())


async def test_changes_of_the_fabric_are_published(driver: FabricPoolsDriver, fabric: SlowFabric) -> None:
    await driver.discover()
    context = context_of(driver)
    before = context.rediscovered
    fabric.set_health("pool-a", FabricHealth.CRITICAL)
    while context.rediscovered == before:
        await asyncio.sleep(0.001)
    (pool,) = await driver.discover()
    tainted = {each.attribute("domain") for each in pool.devices if each.taints}
    assert tainted == {"pool-a"}


def test_both_halves_share_the_conditions() -> None:
    assert FabricPoolsDriver.own_conditions == (ATTACHED,)
    assert FabricPoolsDriver.node_failure_condition == NOT_READY
    assert FabricPoolsDriver.node_releases
