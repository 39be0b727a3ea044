"""Pools are published although the API server is unreachable, slow, faulty or busy."""

import pytest

from dradriver.cluster.apiserver.faults import Fault
from dradriver.kube import SLICES
from dradriver.model.resource.device import Device
from dradriver.model.resource.pool import Pool
from dradriver.model.resource.slices import ResourceSlice
from dradriver.publish import PoolState
from tests.unit.publish.conftest import Reports, World

POOL = Pool(devices=tuple(Device(f"d-{i}") for i in range(130)))
OTHER = Pool(devices=tuple(Device(f"e-{i}") for i in range(200)))


def is_complete(pool: Pool, slices: list[ResourceSlice]) -> bool:
    """Return whether exactly one complete generation of the pool exists."""
    counts = {item.spec.pool.resource_slice_count for item in slices}
    generations = {item.spec.pool.generation for item in slices}
    names = sorted(device.name for item in slices for device in item.spec.devices)
    return (
        counts == {len(slices)}
        and len(generations) == 1
        and names == sorted(device.name for device in pool.devices)
    )


@pytest.mark.parametrize(
    "fault",
    [
        Fault("create", "resourceslices", code=429, retry_after=1),
        Fault("create", "resourceslices", code=500, count=2),
        Fault("create", "resourceslices", code=500, applied=True, count=1),
        Fault("create", "resourceslices", drop=True, applied=True, count=1),
        Fault("create", "resourceslices", code=403, count=1),
        Fault("list", "resourceslices", code=500, count=2),
        Fault("watch", "resourceslices", code=410, count=3),
        Fault("get", "nodes", code=500, count=1),
    ],
    ids=lambda fault: f"{fault.verb}-{fault.code or 'cut'}{'-applied' if fault.applied else ''}",
)
async def test_a_first_publication_succeeds_after_a_fault(world: World, fault: Fault) -> None:
    world.server.faults.add(fault)
    async with world.publisher() as publisher:
        publisher.want([POOL])
        await world.until(lambda slices: is_complete(POOL, slices))


@pytest.mark.parametrize(
    "fault",
    [
        Fault("update", "resourceslices", code=409),
        Fault("update", "resourceslices", code=500, applied=True),
        Fault("update", "resourceslices", drop=True),
        Fault("watch", "resourceslices", after=1, count=5),
        Fault("create", "resourceslices", code=503),
    ],
    ids=lambda fault: f"{fault.verb}-{fault.code or 'cut'}{'-applied' if fault.applied else ''}",
)
async def test_a_change_succeeds_after_a_fault(world: World, fault: Fault) -> None:
    async with world.publisher() as publisher:
        publisher.want([POOL])
        await publisher.wait_settled(40)
        world.server.faults.add(fault)
        publisher.want([OTHER])
        await world.until(lambda slices: is_complete(OTHER, slices))


async def test_an_unreachable_server_is_retried(world: World) -> None:
    reports = Reports()
    await world.server.stop()
    async with world.publisher(on_status=reports, timeout=1) as publisher:
        publisher.want([POOL])
        pending = await reports.until(lambda status: "Connection refused" in status.message)
        assert pending.state is PoolState.PENDING
        await world.regate()
        await reports.until(lambda status: status.state is PoolState.PUBLISHED)
    assert is_complete(POOL, await world.slices())


async def test_a_restarted_server_loses_nothing(world: World) -> None:
    async with world.publisher() as publisher:
        publisher.want([POOL])
        await publisher.wait_settled(40)
        await world.regate()
        publisher.want([OTHER])
        await world.until(lambda slices: is_complete(OTHER, slices))


async def test_a_rejection_shows_the_servers_message_and_is_retried(world: World) -> None:
    reports = Reports()
    world.server.faults.add(Fault("create", "resourceslices", code=403))
    async with world.publisher(on_status=reports) as publisher:
        publisher.want([POOL])
        refused = await reports.until(lambda status: status.state is PoolState.REFUSED)
        assert refused.message == "fault injected: Forbidden"
        await reports.until(lambda status: status.state is PoolState.PUBLISHED)


async def test_a_lost_answer_to_a_create_leaves_no_duplicate(world: World) -> None:
    world.server.faults.add(Fault("create", "resourceslices", drop=True, applied=True, count=2))
    async with world.publisher() as publisher:
        publisher.want([POOL])
        await world.until(lambda slices: is_complete(POOL, slices))
        await publisher.wait_settled(40)
    listed = await world.client.list(SLICES, into=ResourceSlice)
    assert len(listed.items) == 2
