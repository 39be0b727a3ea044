"""The controller publishes, repairs and deletes slices on an API server."""

import asyncio
import logging
from collections.abc import Mapping
from collections.abc import Set as AbstractSet

import pytest
from msgspec.structs import replace

from dradriver.kube import NODES, SLICES, Client
from dradriver.model.resource.claim import DeviceId
from dradriver.model.resource.counters import CounterConsumption, CounterSet
from dradriver.model.resource.device import Device
from dradriver.model.resource.pool import Pool
from dradriver.model.resource.slices import ResourceSlice
from dradriver.publish import NodeRef, PoolState, PoolStatus, PublishController, Writes
from tests.unit.publish.conftest import DRIVER, Reports, World

MANY = Pool(devices=tuple(Device(f"d-{i}") for i in range(130)))
PARTS = Pool(
    "gpus",
    tuple(Device(f"p-{i}", consumes_counters=[CounterConsumption("gpu", {"memory": i + 1})]) for i in range(3)),
    (CounterSet("gpu", {"memory": 4}),),
)


async def test_a_pool_is_published_in_slices_that_its_node_owns(world: World) -> None:
    seen: list[PoolStatus] = []
    async with world.publisher(on_status=seen.append) as publisher:
        publisher.want([MANY])
        status = (await publisher.wait_settled(40))["node"]
    assert (status.state, status.generation, status.slices, status.devices) == (PoolState.PUBLISHED, 1, 2, 130)
    assert status.writes == Writes(creates=2)
    assert seen[-1] == status
    first, second = await world.slices()
    assert first.metadata.name.startswith(f"00000-{DRIVER}-node-")
    assert second.spec.pool.resource_slice_count == 2
    assert {item.spec.node_name for item in (first, second)} == {"node"}
    owner = first.metadata.controller
    assert owner is not None
    assert (owner.kind, owner.name) == ("Node", "node")


async def test_unchanged_pools_need_no_write_even_after_a_restart(world: World) -> None:
    async with world.publisher() as publisher:
        publisher.want([PARTS])
        await publisher.wait_settled(40)
        before = await world.slices()
        publisher.want([PARTS])
        await publisher.wait_settled(40)
    async with world.publisher() as publisher:
        publisher.want([PARTS])
        status = (await publisher.wait_settled(40))["gpus"]
    assert status.state is PoolState.PUBLISHED
    assert status.writes == Writes()
    assert await world.slices() == before


async def test_a_deleted_slice_is_created_again(world: World) -> None:
    async with world.publisher() as publisher:
        publisher.want([MANY])
        await publisher.wait_settled(40)
        first, second = await world.slices()
        await world.client.delete(SLICES, first.metadata.name)
        repaired = await world.until(
            lambda slices: len(slices) == 2 and first.metadata.uid not in {s.metadata.uid for s in slices}
        )
    assert second in repaired
    assert sum(len(item.spec.devices) for item in repaired) == 130


async def test_a_slice_changed_by_another_writer_is_repaired(world: World) -> None:
    async with world.publisher() as publisher:
        publisher.want([Pool(devices=(Device("a"),))])
        await publisher.wait_settled(40)
        (item,) = await world.slices()
        forged = replace(item, spec=replace(item.spec, devices=[Device("forged")]))
        await world.client.replace(SLICES, forged, into=ResourceSlice)
        await world.until(lambda slices: [d.name for s in slices for d in s.spec.devices] == ["a"])


async def test_pools_that_are_no_longer_wanted_are_deleted(world: World) -> None:
    async with world.publisher() as publisher:
        publisher.want([MANY, PARTS])
        assert set(await publisher.wait_settled(40)) == {"node", "gpus"}
        publisher.want([PARTS])
        assert set(await publisher.wait_settled(40)) == {"gpus"}
    assert {item.spec.pool.name for item in await world.slices()} == {"gpus"}


async def test_pools_of_an_earlier_process_are_deleted_after_the_first_want(world: World) -> None:
    async with world.publisher() as publisher:
        publisher.want([PARTS])
        await publisher.wait_settled(40)
    async with world.publisher() as publisher:
        assert len(await world.slices()) == 2
        publisher.want([])
        await world.until(lambda slices: not slices)


async def test_an_invalid_pool_does_not_block_others(world: World) -> None:
    bad = Pool("bad", (Device("A"),))
    twice = Pool("twice")
    async with world.publisher(origin=" (leds.py:12)") as publisher:
        publisher.want([bad, twice, twice, PARTS])
        status = await publisher.wait_settled(40)
    assert status["gpus"].state is PoolState.PUBLISHED
    assert status["bad"].state is PoolState.REFUSED
    assert status["bad"].message.startswith("devices[A].name: 'A' is not a DNS label")
    assert status["bad"].message.endswith(" (leds.py:12)")
    assert "name: is used by 2 pools" in status["twice"].message


async def test_slices_of_other_nodes_stay(world: World) -> None:
    await world.add_node("other")
    async with world.publisher() as publisher:
        publisher.want([PARTS])
        await publisher.wait_settled(40)
    (counters, devices) = await world.slices()
    for item in (counters, devices):
        meta = replace(
            item.metadata, name="", generate_name="00000-x-", uid="", resource_version="", owner_references=[]
        )
        other = replace(item, metadata=meta, spec=replace(item.spec, node_name="other"))
        await world.client.create(SLICES, other, into=ResourceSlice)
    async with world.publisher() as publisher:
        publisher.want([])
        await world.until(lambda slices: {s.spec.node_name for s in slices} == {"other"})


async def test_one_publisher_publishes_shared_and_node_local_pools(world: World) -> None:
    shared = Pool("fabric", (Device("a"),), all_nodes=True)
    async with world.publisher() as publisher:
        publisher.want([MANY, shared])
        status = await publisher.wait_settled(40)
        assert {s.state for s in status.values()} == {PoolState.PUBLISHED}
        publisher.want([MANY, replace(shared, all_nodes=False)])
        await world.until(lambda slices: all(s.spec.node_name == "node" for s in slices) and len(slices) == 3)


async def test_shared_slices_of_an_earlier_process_are_found(world: World) -> None:
    shared = Pool("fabric", (Device("a"),), all_nodes=True, generation=7)
    async with world.publisher() as publisher:
        publisher.want([shared])
        await publisher.wait_settled(40)
    async with world.publisher() as publisher:
        publisher.want([replace(shared, all_nodes=False, generation=0)])
        (local,) = await world.until(lambda slices: [s.spec.node_name for s in slices] == ["node"])
    assert local.spec.pool.generation == 8


async def test_after_two_publishers_of_one_pool_the_running_one_wins(world: World) -> None:
    old, new = Pool(devices=(Device("old"),)), Pool(devices=(Device("new"),))
    async with world.publisher() as staying:
        async with world.publisher() as leaving:
            leaving.want([old])
            await leaving.wait_settled(40)
            staying.want([new])
            await staying.wait_settled(40)
        await world.until(lambda slices: [d.name for s in slices for d in s.spec.devices] == ["new"])


async def test_a_second_run_starts_from_the_slices_on_the_server(world: World) -> None:
    """The counters of its first run are not valid after another publisher has published."""

    async def part_is_held(devices: AbstractSet[DeviceId], /) -> Mapping[DeviceId, str]:
        return {device: "ns/claim" for device in devices if device.device == "part"}

    def part(memory: int) -> Pool:
        device = Device("part", consumes_counters=[CounterConsumption("gpu", {"memory": memory})])
        return Pool("gpus", (device,), (CounterSet("gpu", {"memory": 4}),))

    async def run_until(publisher: PublishController, state: PoolState) -> None:
        run = asyncio.create_task(publisher.run())
        assert (await publisher.wait_settled(40))["gpus"].state is state
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)

    async with await Client.connect(world.kubeconfig, timeout=20) as client:
        publisher = PublishController(client, DRIVER, node=NodeRef("node"), allocation_lookup=part_is_held)
        publisher.want([part(1)])
        await run_until(publisher, PoolState.PUBLISHED)
        publisher.want([part(2)])
        await run_until(publisher, PoolState.HELD)
        other = PublishController(client, DRIVER, node=NodeRef("node"))
        other.want([Pool("gpus", (Device("plain"),))])
        await run_until(other, PoolState.PUBLISHED)
        await run_until(publisher, PoolState.PUBLISHED)
    assert await world.devices() == ["part"]


async def test_a_failing_status_callback_stops_nothing(world: World) -> None:
    def broken(status: PoolStatus) -> None:
        raise RuntimeError

    async with world.publisher(on_status=broken) as publisher:
        publisher.want([PARTS])
        assert (await publisher.wait_settled(40))["gpus"].state is PoolState.PUBLISHED


async def test_a_recreated_node_owns_the_new_slices(world: World) -> None:
    reports = Reports()
    async with world.publisher(on_status=reports) as publisher:
        publisher.want([PARTS])
        await publisher.wait_settled(40)
        await world.client.delete(NODES, "node")  # its slices are collected as garbage
        await reports.until(lambda status: "the Node does not exist" in status.message)
        assert await world.slices() == []
        owner = await world.add_node()
        publisher.want([PARTS])
        slices = await world.until(lambda slices: len(slices) == 2)
    assert {item.metadata.owner_references[0].uid for item in slices} == {owner.uid}


async def test_withdraw_deletes_all_slices_with_and_without_run(world: World) -> None:
    async with world.publisher() as publisher:
        publisher.want([MANY, PARTS])
        await publisher.wait_settled(40)
        await publisher.withdraw()
        assert await world.slices() == []
        publisher.want([PARTS])
        await publisher.wait_settled(40)
    await publisher.wait_settled(0)
    assert len(await world.slices()) == 2
    async with world.publisher() as publisher:
        await publisher.withdraw()
    assert await world.slices() == []


async def test_a_publisher_of_the_control_plane_owns_slices_without_a_node(world: World) -> None:
    fabric = Pool("fabric", (Device("a", all_nodes=True),), per_device_node_selection=True)
    async with world.publisher() as publisher:
        publisher.want([MANY])
        await publisher.wait_settled(40)
    async with world.publisher(node=None) as publisher:
        publisher.want([fabric])
        await publisher.wait_settled(40)
        assert {item.spec.pool.name for item in await world.slices()} == {"node", "fabric"}
        publisher.want([])
        await world.until(lambda slices: {item.spec.pool.name for item in slices} == {"node"})


async def test_a_problem_of_a_pool_is_logged_once(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "dradriver.publish")
    async with world.publisher() as publisher:
        for _ in range(3):
            publisher.want([Pool(devices=(Device("Bad_Name"),))])
            await publisher.wait_settled(40)
        publisher.want([Pool(devices=(Device("good"),))])
        await publisher.wait_settled(40)
    records = [record for record in caplog.records if record.name == "dradriver.publish.pool_worker"]
    # On a busy machine, the pool is pending first: the API server takes a second to list its slices.
    refused, published = (record for record in records if "pool node: pending: " not in record.getMessage())
    assert refused.levelno == logging.ERROR
    assert "pool node: refused:" in refused.getMessage()
    assert "Bad_Name" in refused.getMessage()
    assert published.getMessage() == "pool node: published: 1 device in 1 slice"
