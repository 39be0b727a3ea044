"""A pool driver publishes devices that span nodes; this node's plugin prepares its end of them."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from dradriver.driver import AllocatedDevice, Claim
from dradriver.errors import DraError
from dradriver.kube.errors import Forbidden
from dradriver.model.core.node_selector import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from dradriver.model.resource.claim import DeviceResult, ResourceClaim
from dradriver.model.resource.counters import CounterConsumption, CounterSet
from dradriver.model.resource.device import Device
from dradriver.model.resource.pool import Pool
from dradriver.model.resource.slices import ResourceSlice
from dradriver.node.devices.inventory import DiscoveredDevices
from dradriver.node.devices.shared_pools import build_pools
from dradriver.node.errors import DeviceInUseError
from dradriver.publish import layout
from tests.unit.node.world import DRIVER, NODE, Answers, LampDriver, World, allocated, ref


def taking(*nodes: str) -> list[CounterConsumption]:
    return [CounterConsumption("lamps", dict.fromkeys(nodes, 1))]


ARRAY = Pool(
    "array",
    devices=(
        Device("wide", attributes={"length": 2}, all_nodes=True, consumes_counters=taking(NODE, "node-2")),
        Device("narrow", node_name=NODE, consumes_counters=taking(NODE)),
        Device("far", node_name="node-2", consumes_counters=taking("node-2")),
    ),
    counter_sets=(CounterSet("lamps", {NODE: 1, "node-2": 1}),),
    per_device_node_selection=True,
)


def published(pool: Pool, generation: int = 1) -> list[ResourceSlice]:
    specs = layout(pool, DRIVER, None)
    return [ResourceSlice(spec=replace(spec, pool=replace(spec.pool, generation=generation))) for spec in specs]


class ArrayDriver(LampDriver):
    """Has no devices of its own, and stores the claims that it prepared."""

    def __init__(self) -> None:
        super().__init__({})
        self.asked: list[AllocatedDevice] = []

    def discover(self) -> list[Pool]:
        return [Pool(NODE)]

    async def prepare(self, claim: Claim) -> Answers:
        self.asked += claim.devices
        return await super().prepare(claim)


def of_array(name: str, device: str, nodes: tuple[str, ...] = (NODE, "node-2")) -> ResourceClaim:
    claim = allocated(name, DeviceResult(request="r", driver=DRIVER, pool="array", device=device))
    hosts = NodeSelectorRequirement("kubernetes.io/hostname", "In", list(nodes))
    selector = NodeSelector([NodeSelectorTerm(match_expressions=[hosts])])
    assert claim.status.allocation is not None
    return replace(
        claim, status=replace(claim.status, allocation=replace(claim.status.allocation, node_selector=selector))
    )


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    made.api.slices = published(ARRAY)
    return made


async def test_the_driver_sees_the_device_as_it_is_published(world: World) -> None:
    driver = ArrayDriver()
    async with world.running(driver=driver) as process:
        await process.prepare(of_array("claim", "wide"))
    (asked,) = driver.asked
    assert asked.device is not None
    assert asked.device.attribute("length") == 2


async def test_a_device_is_prepared_for_one_claim_only(world: World) -> None:
    async with world.running(driver=ArrayDriver()) as process:
        await process.prepare(of_array("one", "wide"))
        with pytest.raises(DeviceInUseError, match="prepared for claim default/one"):
            await process.prepare(of_array("other", "wide"))


async def test_counters_of_the_pool_are_kept_among_the_claims_of_this_node(world: World) -> None:
    async with world.running(driver=ArrayDriver()) as process:
        await process.prepare(of_array("narrow", "narrow"))
        with pytest.raises(DeviceInUseError, match="would be overdrawn"):
            await process.prepare(of_array("wide", "wide"))


async def test_counters_are_kept_after_the_pool_is_withdrawn(world: World) -> None:
    async with world.running(driver=ArrayDriver()) as process:
        await process.prepare(of_array("narrow", "narrow"))
    world.api.slices = []
    async with world.running(driver=ArrayDriver()) as process:
        with pytest.raises(DeviceInUseError, match="would be overdrawn"):
            await process.prepare(of_array("wide", "wide"))


async def test_a_change_of_the_pool_is_seen_by_the_next_claim(world: World) -> None:
    driver = ArrayDriver()
    async with world.running(driver=driver) as process:
        await process.prepare(claim := of_array("before", "narrow"))
        await process.unprepare(ref(claim))
        longer = replace(ARRAY.devices[0], attributes={"length": 4})
        world.api.slices = published(replace(ARRAY, devices=(longer, *ARRAY.devices[1:])), generation=2)
        await process.prepare(of_array("after", "wide"))
    assert driver.asked[-1].device is not None
    assert driver.asked[-1].device.attribute("length") == 4


async def test_a_pool_that_cannot_be_looked_up_fails_the_prepare_with_its_name(world: World) -> None:
    async with world.running(driver=ArrayDriver()) as process:
        world.api.failure = Forbidden("resourceslices is forbidden", status=403)
        with pytest.raises(DraError, match=r"pool array of driver .* cannot be looked up: .*forbidden"):
            await process.prepare(of_array("claim", "wide"))
        assert await process.rows() == []


async def test_a_prepared_claim_is_answered_and_unprepared_without_a_lookup(world: World) -> None:
    claim = of_array("claim", "wide")
    async with world.running(driver=ArrayDriver()) as process:
        answered = await process.prepare(claim)
    world.api.failure = Forbidden("resourceslices is forbidden", status=403)
    async with world.running(driver=ArrayDriver()) as process:
        assert await process.prepare(claim) == answered
        await process.unprepare(ref(claim))
        assert await process.rows() == []


async def test_a_device_that_is_no_longer_published_is_prepared(world: World) -> None:
    world.api.slices = []
    driver = ArrayDriver()
    async with world.running(driver=driver) as process:
        await process.prepare(of_array("claim", "wide"))
    assert [device.device for device in driver.asked] == [None]


async def test_claims_of_the_nodes_own_pool_cause_no_lookup(world: World) -> None:
    async with world.running() as process:
        world.api.failure = Forbidden("resourceslices is forbidden", status=403)
        assert await process.prepare(allocated("claim", "lamp-0"))


def test_for_each_device_the_newer_of_two_generations_counts() -> None:
    """While a new generation is written a claim may still have a device of the one before."""
    newer = Pool("array", devices=(Device("wide", attributes={"length": 4}, all_nodes=True),))
    newer = replace(newer, per_device_node_selection=True)
    (found,) = build_pools([*published(newer, generation=2), *published(ARRAY)])
    lengths = {device.name: device.attribute("length") for device in found.devices}
    assert lengths == {"wide": 4, "narrow": None, "far": None}
    assert found.counter_sets == ARRAY.counter_sets


def test_old_pools_are_dropped_for_new_ones() -> None:
    inventory = DiscoveredDevices([Pool(NODE, (Device("own"),))])
    for number in range(1000):
        inventory.set_shared([Pool(f"pool-{number}", (Device("device"),))])
    assert inventory.device("pool-999", "device")
    assert inventory.device(NODE, "own")
    assert len(inventory.devices) <= 101
