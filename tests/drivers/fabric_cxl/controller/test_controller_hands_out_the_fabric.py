"""The controller chooses memory and accelerators for claims, attaches them, and detaches them (KEP-3063)."""

import asyncio

import pytest

import dradriver as dra
from dradriver_fabric_cxl.fabric import AttachmentIdentity, AttachRequest, FabricAttachment, MemoryRequest
from dradriver_fabric_cxl.fabric.simulator import FabricCall, FabricFault, SimulatedFabric
from dradriver_fabric_cxl.names import DRIVER
from tests.drivers.fabric_cxl.controller.controlled_claims import (
    ACCELERATOR_CLASS,
    MEMORY_CLASS,
    NODES,
    POOL,
    accelerator,
    allocate,
    attached,
    driver_of,
    memory,
    pending,
    recorded,
    unsuitable,
)
from tests.drivers.fabric_cxl.fabric_suite import PACE, ImpatientTime
from tests.drivers.fabric_cxl.pool_claims import PoolsContext, report_all


class GatedFabric(SimulatedFabric):
    """A fabric that begins to attach only when the test allows it.

    Attributes:
        allowed: whether attachments begin.
        asked: set when an attachment is asked for.
    """

    def __init__(self) -> None:
        super().__init__(pace=PACE)
        self.allowed, self.asked = asyncio.Event(), asyncio.Event()

    async def attach(self, request: AttachRequest) -> FabricAttachment:
        self.asked.set()
        await self.allowed.wait()
        return await super().attach(request)


@pytest.fixture
def fabric() -> SimulatedFabric:
    return SimulatedFabric(pace=PACE)


async def test_a_claim_gets_memory_on_the_port_of_the_selected_node(fabric: SimulatedFabric) -> None:
    async with driver_of(fabric) as driver:
        (result,) = await allocate(driver, pending("uid-1", memory("3Gi")), node="node-host-2")
    (found,) = await fabric.attachments()
    assert (found.host, found.mebibytes, found.connected) == ("host-2", 3072, True)
    assert found.identity.claim == "uid-1"
    (device,) = result.devices
    assert (device.request, device.driver, device.pool) == ("memory", DRIVER, POOL)
    assert device.name == found.identity.device
    assert attached(result)[0].serial_number == found.serial
    assert attached(result)[0].bytes == 3 << 30
    assert result.node_selector == dra.NodeSelector.for_node("node-host-2")
    assert not result.shareable


async def test_allocating_again_changes_nothing_and_gives_the_same_result(fabric: SimulatedFabric) -> None:
    claim = pending("uid-1", memory("1Gi", count=2), accelerator())
    async with driver_of(fabric) as driver:
        first = await allocate(driver, claim)
        before = await fabric.attachments()
        assert await allocate(driver, claim) == first
    async with driver_of(fabric) as restarted:
        assert await allocate(restarted, claim) == first
    assert await fabric.attachments() == before
    assert len(before) == 3


async def test_an_accelerator_is_for_one_claim_at_a_time(fabric: SimulatedFabric) -> None:
    async with driver_of(fabric) as driver:
        (result,) = await allocate(driver, pending("uid-1", accelerator()), node="node-host-1")
        assert [each.name for each in result.devices] == ["gpu-0"]
        assert attached(result)[0].bytes == 0
        second = pending("uid-2", accelerator())
        assert await unsuitable(driver, second) == NODES
        with pytest.raises(dra.AllocationError, match="no free accelerator"):
            await driver.allocate([second], "node-host-1")
        await driver.deallocate(recorded("uid-1"))
        await allocate(driver, second)


async def test_devices_of_two_claims_never_have_one_name(fabric: SimulatedFabric) -> None:
    claims = [pending(f"uid-{number}", memory("1Gi", count=2)) for number in range(2)]
    async with driver_of(fabric) as driver:
        results = await allocate(driver, *claims)
    names = [each.name for result in results for each in result.devices]
    assert len(set(names)) == 4


async def test_small_memory_comes_from_the_domain_with_the_least_room(fabric: SimulatedFabric) -> None:
    async with driver_of(fabric) as driver:
        await allocate(driver, pending("uid-1", memory("1Gi")), node="node-host-0")
        await allocate(driver, pending("uid-2", memory("64Gi")), node="node-host-1")
    rooms = {each.id: [chunk.mebibytes for chunk in each.chunks] for each in (await fabric.inventory()).domains}
    assert rooms == {"pool-a": [64 << 10], "pool-b": [1 << 10]}


async def test_a_size_is_rounded_up_to_one_that_the_manager_can_make(fabric: SimulatedFabric) -> None:
    async with driver_of(fabric) as driver:
        (result,) = await allocate(driver, pending("uid-1", memory("300Mi")))
    assert attached(result)[0].bytes == 512 << 20


async def test_a_node_without_a_port_is_unsuitable(fabric: SimulatedFabric) -> None:
    reports = report_all(await fabric.inventory())
    reports["node-host-3"] = dra.NodeReport("no CXL window", {}, reports["node-host-3"].values)
    async with driver_of(fabric, context=PoolsContext(reports)) as driver:
        claim = pending("uid-1", memory("1Gi"))
        assert await unsuitable(driver, claim, nodes=[*NODES, "elsewhere"]) == ["node-host-3", "elsewhere"]
        with pytest.raises(dra.AllocationError, match="node elsewhere: it has no usable host"):
            await driver.allocate([claim], "elsewhere")


async def test_a_node_whose_port_has_no_attachment_left_is_unsuitable(fabric: SimulatedFabric) -> None:
    async with driver_of(fabric) as driver:
        await allocate(driver, pending("uid-1", memory("1Gi", count=3)), node="node-host-1")
        one, two = pending("uid-2", memory("1Gi")), pending("uid-3", memory("1Gi"))
        assert await unsuitable(driver, one) == []
        assert await unsuitable(driver, one, two) == ["node-host-1"]
        with pytest.raises(dra.AllocationError, match="host-1 has 1 attachments left, 2 are needed"):
            await driver.allocate([one, two], "node-host-1")


async def test_all_nodes_are_unsuitable_for_claims_that_fit_only_one_by_one(fabric: SimulatedFabric) -> None:
    claims = [pending(f"uid-{number}", memory("40Gi")) for number in range(2)]
    async with driver_of(fabric) as driver:
        assert await unsuitable(driver, claims[0]) == []
        assert await unsuitable(driver, *claims) == NODES


async def test_a_node_stays_suitable_for_the_claim_that_it_has(fabric: SimulatedFabric) -> None:
    claim = pending("uid-1", memory("60Gi"))
    async with driver_of(fabric) as driver:
        await allocate(driver, claim, node="node-host-0")
        assert await unsuitable(driver, claim, pending("uid-2", memory("60Gi"))) == NODES
        assert await unsuitable(driver, claim) == []


async def test_deallocate_detaches_everything_of_the_claim_and_nothing_else(fabric: SimulatedFabric) -> None:
    async with driver_of(fabric) as driver:
        await allocate(driver, pending("uid-1", memory("1Gi", count=2)), pending("uid-2", memory("1Gi")))
        assert set(await driver.allocations()) == {"uid-1", "uid-2"}
        await driver.deallocate(recorded("uid-1"))
        await driver.deallocate(recorded("uid-1"))
        assert set(await driver.allocations()) == {"uid-2"}
    (found,) = await fabric.attachments()
    assert found.identity.claim == "uid-2"


async def test_memory_of_a_node_that_is_gone_is_detached_and_used_elsewhere(fabric: SimulatedFabric) -> None:
    context = PoolsContext(report_all(await fabric.inventory()))
    async with driver_of(fabric, context=context) as driver:
        await allocate(driver, pending("uid-1", memory("60Gi")), node="node-host-0")
        context.reports = {node: report for node, report in context.reports.items() if node != "node-host-0"}
        await driver.deallocate(recorded("uid-1", "node-host-0"))
        await allocate(driver, pending("uid-2", memory("60Gi")), node="node-host-1")
    (found,) = await fabric.attachments()
    assert (found.identity.claim, found.host) == ("uid-2", "host-1")


async def test_an_immediate_claim_gets_the_node_with_the_most_free_attachments(fabric: SimulatedFabric) -> None:
    async with driver_of(fabric) as driver:
        for number in range(3):
            await allocate(driver, pending(f"uid-{number}", memory("1Gi")), node=NODES[number])
        claim = pending("uid-9", memory("1Gi"))
        (result,) = await allocate(driver, claim, node=None)
        assert result.node_selector == dra.NodeSelector.for_node("node-host-3")
        await driver.deallocate(recorded("uid-0"))
        assert await allocate(driver, claim, node=None) == [result]
        with pytest.raises(dra.AllocationError, match="no memory domain has 102400 MiB left"):
            await driver.allocate([pending("uid-10", memory("100Gi"))], None)


async def test_a_failure_of_one_claim_is_reported_for_this_claim_only() -> None:
    fabric = SimulatedFabric(pace=ImpatientTime().pace())
    claims = [pending("uid-1", memory("1Gi")), pending("uid-2", accelerator())]
    async with driver_of(fabric) as driver:
        fabric.fail(FabricCall.CREATE_CHUNK, FabricFault.TASK_FAILS, times=2)
        results = await driver.allocate(claims, NODES[0])
        assert isinstance(failed := results["uid-1"], dra.AllocationError)
        assert "the task failed" in str(failed)
        assert isinstance(results["uid-2"], dra.ControllerAllocationResult)
        await allocate(driver, *claims)


async def test_two_pods_at_the_same_time_never_get_the_same_memory_or_attachment() -> None:
    fabric = GatedFabric()
    async with driver_of(fabric) as driver, asyncio.TaskGroup() as group:
        group.create_task(driver.allocate([pending("uid-1", memory("60Gi"))], "node-host-0"))
        await fabric.asked.wait()
        second = pending("uid-2", memory("60Gi"))
        assert await unsuitable(driver, second) == NODES
        with pytest.raises(dra.AllocationError, match="no memory domain has 61440 MiB left"):
            await driver.allocate([second], "node-host-1")
        four = pending("uid-3", memory("1Gi", count=4))
        assert await unsuitable(driver, four) == ["node-host-0"]
        fabric.allowed.set()


async def test_a_manager_without_tags_gets_no_second_attempt(fabric: SimulatedFabric) -> None:
    claim = pending("uid-1", memory("1Gi"))
    async with driver_of(fabric) as driver:
        fabric.fail(FabricCall.CREATE_CHUNK, FabricFault.TAG_DROPPED)
        results = await driver.allocate([claim], NODES[0])
        assert isinstance(results["uid-1"], dra.AllocationError)
        assert await unsuitable(driver, claim) == NODES
        with pytest.raises(dra.AllocationError, match="name and description"):
            await driver.allocate([claim], NODES[0])


async def test_chunks_of_another_cluster_are_neither_used_nor_detached(fabric: SimulatedFabric) -> None:
    identity = AttachmentIdentity("uid-1", f"{DRIVER}/other-cluster", "pool-a-0", "", "memory/0")
    await fabric.attach(AttachRequest(identity, "host-0", MemoryRequest("pool-a", 60 << 10)))
    async with driver_of(fabric) as driver:
        assert await driver.allocations() == set()
        assert await unsuitable(driver, pending("uid-1", memory("60Gi"))) == NODES
        await driver.deallocate(recorded("uid-1"))
    assert len(await fabric.attachments()) == 1


async def test_memory_needs_a_size_and_an_accelerator_has_none(fabric: SimulatedFabric) -> None:
    amount = memory("1Gi").claim_parameters
    assert isinstance(amount, dra.Config)
    async with driver_of(fabric) as driver:
        assert driver.claim_parameters("team/claim", amount, MEMORY_CLASS) is amount
        assert driver.claim_parameters("team/claim", amount, None) is amount
        assert driver.claim_parameters("team/claim", None, ACCELERATOR_CLASS) is None
        with pytest.raises(dra.AllocationError, match="claim team/claim: parameters: must have a MemoryAmount"):
            driver.claim_parameters("team/claim", None, MEMORY_CLASS)
        with pytest.raises(dra.AllocationError, match="must not have a MemoryAmount"):
            driver.claim_parameters("team/claim", amount, ACCELERATOR_CLASS)


@pytest.mark.parametrize("size", ["", "much", "0", "1k", "-1Gi"])
def test_a_size_is_a_positive_multiple_of_a_mebibyte(size: str) -> None:
    with pytest.raises(ValueError, match="size: "):
        memory(size)
