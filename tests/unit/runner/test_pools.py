"""A pool driver against an embedded API server: its slices, their owner, and its end."""

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
    """Offers the pools of the test."""

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
    async with a_world(tmp_path) as started:
        yield started


@asynccontextmanager
async def running(world: World, driver: Pods, owner: str = "") -> AsyncIterator[PoolProcess]:
    async with await Client.connect(world.kubeconfig) as client:
        stop = asyncio.Event()
        process = PoolProcess(driver, client, OwnerRef.parse(owner) if owner else None)
        task = asyncio.create_task(process.run(stop))
        try:
            yield process
        finally:
            stop.set()
            await task


def names(slices: Sequence[ResourceSlice]) -> set[str]:
    return {item.spec.pool.name for item in slices}


async def test_by_default_slices_have_neither_a_node_nor_an_owner(world: World) -> None:
    async with running(world, Pods(PER_DEVICE, EVERYWHERE)):
        slices = await world.until(lambda slices: len(slices) == 2)
    assert {item.spec.node_name for item in slices} == {None}
    assert {item.spec.per_device_node_selection for item in slices} == {True, None}
    assert [item.metadata.owner_references for item in slices] == [[], []]


async def test_slices_stay_at_the_end_and_the_next_process_keeps_them(world: World) -> None:
    driver = Pods(PER_DEVICE)
    async with running(world, driver):
        before = await world.until(lambda slices: len(slices) == 1)
    assert driver.ended
    async with running(world, Pods(PER_DEVICE, EVERYWHERE)):
        await world.until(lambda slices: len(slices) == 2)
        assert [item for item in await world.slices() if item.spec.pool.name == "pod-1"] == before


async def test_a_deleted_slice_is_created_again(world: World) -> None:
    async with running(world, Pods(EVERYWHERE)):
        (item,) = await world.until(lambda slices: len(slices) == 1)
        await world.client.delete(SLICES, item.metadata.name)
        await world.until(lambda slices: len(slices) == 1 and slices[0].metadata.uid != item.metadata.uid)


async def test_slices_are_deleted_with_their_owner(world: World) -> None:
    """The garbage collector deletes them after the DeviceClass of the driver."""
    await world.client.create(CLASSES, {"metadata": {"name": "tpu"}, "spec": {}}, into=dict)
    async with running(world, Pods(EVERYWHERE), "deviceclass/tpu"):
        (item,) = await world.until(lambda slices: len(slices) == 1)
    assert item.metadata.controller is not None
    assert (item.metadata.controller.kind, item.metadata.controller.name) == ("DeviceClass", "tpu")
    await world.client.delete(CLASSES, "tpu")
    await world.until(lambda slices: not slices)


async def test_slices_are_created_again_for_a_recreated_owner(world: World) -> None:
    await world.client.create(CLASSES, {"metadata": {"name": "tpu"}, "spec": {}}, into=dict)
    async with running(world, Pods(EVERYWHERE), "deviceclass/tpu"):
        (before,) = await world.until(lambda slices: len(slices) == 1)
        await world.client.delete(CLASSES, "tpu")
        await world.until(lambda slices: not slices)
        await world.client.create(CLASSES, {"metadata": {"name": "tpu"}, "spec": {}}, into=dict)
        (after,) = await world.until(lambda slices: len(slices) == 1)
    assert before.metadata.controller is not None
    assert after.metadata.controller is not None
    assert after.metadata.controller.uid != before.metadata.controller.uid


async def test_two_instances_with_equal_pools_write_nothing(world: World) -> None:
    async with running(world, Pods(EVERYWHERE)):
        before = await world.until(lambda slices: len(slices) == 1)
        async with running(world, Pods(EVERYWHERE)) as second:
            while second.readiness:
                await asyncio.sleep(0.01)
            assert await world.slices() == before


async def test_an_invalid_pool_does_not_block_others(world: World) -> None:
    of_a_node = dra.Pool("of-a-node", (dra.Device("card"),))
    async with running(world, Pods(of_a_node, replace(EVERYWHERE, name=""), EVERYWHERE)) as process:
        await world.until(lambda slices: names(slices) == {"fabric"})
        while state(process, "of-a-node", "refused") != 1:
            await asyncio.sleep(0.01)


async def test_a_pool_that_is_no_longer_offered_is_deleted(world: World) -> None:
    driver = Pods(PER_DEVICE, EVERYWHERE)
    async with running(world, driver):
        await world.until(lambda slices: len(slices) == 2)
        driver.pools = [EVERYWHERE]
        driver.rediscover()
        await world.until(lambda slices: names(slices) == {"fabric"})
        driver.pools = []
        driver.rediscover()
        await world.until(lambda slices: not slices)


async def test_devices_without_a_pool_are_rejected_and_change_nothing(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    driver = Pods(EVERYWHERE)
    async with running(world, driver):
        await world.until(lambda slices: len(slices) == 1)
        driver.pools = [dra.Device("card")]
        driver.rediscover()
        while "must return pools that have a name" not in caplog.text:
            await asyncio.sleep(0.01)
        assert names(await world.slices()) == {"fabric"}


async def test_the_fallback_is_published_without_per_device_node_selection(tmp_path: Path) -> None:
    async with a_world(tmp_path, DRAPartitionableDevices=False) as world, running(world, Pods(PER_DEVICE)):
        (item,) = await world.until(lambda slices: len(slices) == 1)
    assert item.spec.all_nodes
    assert [device.name for device in item.spec.devices] == ["whole"]


async def test_withdraw_keeps_slices_of_nodes(world: World) -> None:
    async with world.publisher() as publisher:
        publisher.want([dra.Pool(devices=(dra.Device("card"),)), replace(EVERYWHERE, name="of-the-node")])
        await publisher.wait_settled(40)
    async with running(world, Pods(PER_DEVICE)):
        await world.until(lambda slices: len(slices) == 3)
    async with await Client.connect(world.kubeconfig) as client:
        await PublishController(client, DRIVER).withdraw()
    assert names(await world.slices()) == {"node", "of-the-node"}


@pytest.mark.parametrize("text", ["deployment/tpu", "tpu", "deviceclass/", "namespace/No_Name"])
def test_an_invalid_owner_is_rejected(text: str) -> None:
    with pytest.raises(UsageError):
        OwnerRef.parse(text)


def test_a_pool_driver_rejects_options_of_node_drivers(capsys: pytest.CaptureFixture[str]) -> None:
    assert launch(Pods, {"node_name": "node-1"}) == 2
    assert capsys.readouterr().err == ("Error: --node-name: is only for node drivers, Pods is a pool driver\n")


def test_a_node_driver_rejects_an_owner(capsys: pytest.CaptureFixture[str]) -> None:
    class OfNodes(dra.Driver):
        name = DRIVER

        def discover(self) -> list[dra.Device]:
            return []

        def prepare(self, claim: dra.Claim) -> dict[dra.AllocatedDevice, dra.ContainerEdits]:
            return {}

    assert launch(OfNodes, {"owner": "deviceclass/x"}) == 2
    assert "Error: --owner: is only for pool drivers, OfNodes is a node driver\n" in capsys.readouterr().err


def state(process: PoolProcess, pool: str, wanted: str) -> float | None:
    labels = {"driver": DRIVER, "pool": pool, "state": wanted}
    return process.metrics.registry.get_sample_value("dradriver_node_pool_state", labels)
