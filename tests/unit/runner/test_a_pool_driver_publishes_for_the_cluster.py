"""A pool driver against an embedded API server: what it publishes, for whom, and how that ends."""

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

import dradriver as dra
from dradriver.errors import UsageError
from dradriver.kube import CLASSES, SLICES, Client
from dradriver.model.resource.slices import ResourceSlice
from dradriver.publish import OwnerRef, PublishController
from dradriver.runner import launch
from dradriver.runner.pools import PoolProcess
from tests.unit.publish.conftest import DRIVER, World, a_world

PER_DEVICE = dra.Pool(
    "pod-1",
    (dra.Device("whole", all_nodes=True), dra.Device("half", node_name="node-1")),
    per_device_node_selection=True,
)
EVERYWHERE = dra.Pool("fabric", (dra.Device("card"),), all_nodes=True)


class Pods(dra.PoolDriver):
    """Offers what the test says."""

    name = DRIVER
    rescan_seconds = None

    def __init__(self, *pools: dra.Pool) -> None:
        self.pools: Sequence[object] = pools
        self.ended = False

    def discover(self) -> Sequence[dra.Pool]:
        return self.pools  # type: ignore[return-value]

    def fallback(self, dropped: Collection[str]) -> Sequence[dra.Pool] | None:
        assert "perDeviceNodeSelection" in dropped
        return [dra.Pool("pod-1", (dra.Device("whole"),), all_nodes=True)]

    def shutdown(self) -> None:
        self.ended = True


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with a_world(tmp_path) as made:
        yield made


@asynccontextmanager
async def running(world: World, driver: Pods, owner: str = "") -> AsyncIterator[PoolProcess]:
    async with await Client.connect(world.kubeconfig) as client:
        stop = asyncio.Event()
        process = PoolProcess(driver, client, OwnerRef.parse(owner) if owner else None)
        task = asyncio.create_task(process.run(stop, 1))
        try:
            yield process
        finally:
            stop.set()
            await task


def names(slices: Sequence[ResourceSlice]) -> set[str]:
    return {item.spec.pool.name for item in slices}


async def test_pools_belong_to_no_node_and_nobody_owns_them_by_default(world: World) -> None:
    async with running(world, Pods(PER_DEVICE, EVERYWHERE)):
        slices = await world.until(lambda found: len(found) == 2)
    assert {item.spec.node_name for item in slices} == {None}
    assert {item.spec.per_device_node_selection for item in slices} == {True, None}
    assert [item.metadata.owner_references for item in slices] == [[], []]


async def test_slices_stay_when_the_process_ends_and_the_next_one_writes_nothing_new(world: World) -> None:
    driver = Pods(PER_DEVICE)
    async with running(world, driver):
        before = await world.until(lambda found: len(found) == 1)
    assert driver.ended
    async with running(world, Pods(PER_DEVICE, EVERYWHERE)):
        await world.until(lambda found: len(found) == 2)
        assert [item for item in await world.slices() if item.spec.pool.name == "pod-1"] == before


async def test_a_slice_that_someone_deletes_comes_back(world: World) -> None:
    async with running(world, Pods(EVERYWHERE)):
        (item,) = await world.until(lambda found: len(found) == 1)
        await world.client.delete(SLICES, item.metadata.name)
        await world.until(lambda found: len(found) == 1 and found[0].metadata.uid != item.metadata.uid)


async def test_slices_go_with_their_owner(world: World) -> None:
    """As the garbage collector does after the DeviceClass of the driver was deleted."""
    await world.client.create(CLASSES, {"metadata": {"name": "tpu"}, "spec": {}}, into=dict)
    async with running(world, Pods(EVERYWHERE), "deviceclass/tpu"):
        (item,) = await world.until(lambda found: len(found) == 1)
    assert item.metadata.controller is not None
    assert (item.metadata.controller.kind, item.metadata.controller.name) == ("DeviceClass", "tpu")
    await world.client.delete(CLASSES, "tpu")
    await world.until(lambda found: not found)


async def test_slices_come_back_when_an_owner_is_made_anew(world: World) -> None:
    await world.client.create(CLASSES, {"metadata": {"name": "tpu"}, "spec": {}}, into=dict)
    async with running(world, Pods(EVERYWHERE), "deviceclass/tpu"):
        (before,) = await world.until(lambda found: len(found) == 1)
        await world.client.delete(CLASSES, "tpu")
        await world.until(lambda found: not found)
        await world.client.create(CLASSES, {"metadata": {"name": "tpu"}, "spec": {}}, into=dict)
        (after,) = await world.until(lambda found: len(found) == 1)
    assert before.metadata.controller is not None
    assert after.metadata.controller is not None
    assert after.metadata.controller.uid != before.metadata.controller.uid


async def test_two_instances_that_offer_the_same_write_nothing_against_each_other(world: World) -> None:
    async with running(world, Pods(EVERYWHERE)):
        before = await world.until(lambda found: len(found) == 1)
        async with running(world, Pods(EVERYWHERE)) as second:
            while second.readiness:
                await asyncio.sleep(0.01)
            assert await world.slices() == before


async def test_a_pool_that_can_not_be_published_stops_no_other(world: World) -> None:
    of_a_node = dra.Pool("of-a-node", (dra.Device("card"),))
    async with running(world, Pods(of_a_node, replace(EVERYWHERE, name=""), EVERYWHERE)) as process:
        await world.until(lambda found: names(found) == {"fabric"})
        assert state(process, "of-a-node", "refused") == 1


async def test_a_pool_that_is_not_offered_any_more_is_deleted(world: World) -> None:
    driver = Pods(PER_DEVICE, EVERYWHERE)
    async with running(world, driver):
        await world.until(lambda found: len(found) == 2)
        driver.pools = [EVERYWHERE]
        driver.rediscover()
        await world.until(lambda found: names(found) == {"fabric"})
        driver.pools = []
        driver.rediscover()
        await world.until(lambda found: not found)


async def test_devices_without_a_pool_change_nothing_and_are_told(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    driver = Pods(EVERYWHERE)
    async with running(world, driver):
        await world.until(lambda found: len(found) == 1)
        driver.pools = [dra.Device("card")]
        driver.rediscover()
        while "put them into pools that have a name" not in caplog.text:
            await asyncio.sleep(0.01)
        assert names(await world.slices()) == {"fabric"}


async def test_where_devices_can_not_choose_their_nodes_the_fallback_is_published(tmp_path: Path) -> None:
    async with a_world(tmp_path, DRAPartitionableDevices=False) as world, running(world, Pods(PER_DEVICE)):
        (item,) = await world.until(lambda found: len(found) == 1)
    assert item.spec.all_nodes
    assert [device.name for device in item.spec.devices] == ["whole"]


async def test_a_withdrawal_leaves_slices_of_nodes_alone(world: World) -> None:
    async with world.publisher() as publisher:
        publisher.want([dra.Pool(devices=(dra.Device("card"),)), replace(EVERYWHERE, name="of-the-node")])
        await publisher.wait_settled(10)
    async with running(world, Pods(PER_DEVICE)):
        await world.until(lambda found: len(found) == 3)
    async with await Client.connect(world.kubeconfig) as client:
        await PublishController(client, DRIVER).withdraw()
    assert names(await world.slices()) == {"node", "of-the-node"}


@pytest.mark.parametrize("text", ["deployment/tpu", "tpu", "deviceclass/", "namespace/No_Name"])
def test_what_can_not_own_slices_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        OwnerRef.parse(text)


def test_a_pool_driver_takes_no_option_of_the_kubelet(capsys: pytest.CaptureFixture[str]) -> None:
    assert launch(Pods, {"node_name": "node-1"}) == 2
    assert capsys.readouterr().err == (
        "Error: --node-name is not for Pods: it is a pool driver, which runs beside no kubelet\n"
    )


def test_a_node_driver_names_no_owner(capsys: pytest.CaptureFixture[str]) -> None:
    class OfNodes(dra.Driver):
        name = DRIVER

        def discover(self) -> list[dra.Device]:
            return []

        def prepare(self, claim: dra.Claim) -> dict[dra.AllocatedDevice, dra.ContainerEdits]:
            return {}

    assert launch(OfNodes, {"owner": "deviceclass/x"}) == 2
    assert "Error: --owner is not for OfNodes: it is no pool driver\n" in capsys.readouterr().err


def state(process: PoolProcess, pool: str, wanted: str) -> float | None:
    labels = {"driver": DRIVER, "pool": pool, "state": wanted}
    return process.metrics.registry.get_sample_value("dradriver_node_pool_state", labels)
