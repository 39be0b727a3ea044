"""While a claim holds a device, its counters are those that the driver last published (KEP-4815, KEP-5963).

They stay if another writer changes or deletes a slice, or if the pool omits the device for a moment.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from dradriver.kube import SLICES, Client, PatchKind
from dradriver.model.resource.claim import DeviceId
from dradriver.model.resource.counters import CounterConsumption, CounterSet
from dradriver.model.resource.device import Device
from dradriver.model.resource.pool import Pool
from dradriver.model.resource.slices import ResourceSlice
from dradriver.publish import PoolState, pool_worker
from tests.unit.publish.conftest import Reports, World, a_world


def part(name: str, memory: int, *groups: str) -> Device:
    return Device(name, consumes_counters=[CounterConsumption("gpu", {"memory": memory}, list(groups))])


MEMORY = CounterSet("gpu", {"memory": 4})
POOL = Pool("gpus", (part("half", 2, "mig"), part("whole", 4, "mig")), (MEMORY,))


class Claims:
    """The claims that hold devices, until a test releases them."""

    def __init__(self, *held: str) -> None:
        self.held = set(held)

    async def __call__(self, devices: AbstractSet[DeviceId], /) -> Mapping[DeviceId, str]:
        return {device: f"ns/{device.device}" for device in devices if device.device in self.held}


def published(slices: list[ResourceSlice], pool: Pool) -> bool:
    devices = {d.name: d for item in slices for d in item.spec.devices}
    sets = {s.name: s for item in slices for s in item.spec.shared_counters}
    return devices == {d.name: d for d in pool.devices} and sets == {s.name: s for s in pool.counter_sets}


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with a_world(tmp_path, DRADeviceCompatibilityGroups=True) as made:
        yield made


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_worker, "_HELD_SECONDS", (0.02, 0.02))


TWO_OF_GPU: dict[str, Any] = {"counterSet": "gpu", "counters": {"memory": {"value": "2"}}}
FOREIGN: dict[str, Any] = {
    "a counter set is enlarged": {"sharedCounters": [{"name": "gpu", "counters": {"memory": {"value": "40"}}}]},
    "a consumption is cleared": {"devices": [{"name": "half"}, {"name": "whole"}]},
    "a group is added": {
        "devices": [
            {
                "name": name,
                "consumesCounters": [
                    {
                        "counterSet": "gpu",
                        "counters": {"memory": {"value": "1"}},
                        "compatibilityGroups": ["other"],
                    }
                ],
            }
            for name in ("half", "whole")
        ]
    },
}


async def patch_as_kubectl(world: World, spec: Mapping[str, Any]) -> None:
    """Replace a field of the slice that has it, like `kubectl edit`."""
    (field,) = spec
    async with await Client.connect(world.kubeconfig, user_agent="kubectl") as client:
        for item in await world.slices():
            if item.spec.devices if field == "devices" else item.spec.shared_counters:
                await client.patch(SLICES, item.metadata.name, "", {"spec": spec}, PatchKind.MERGE, into=dict)


@pytest.mark.parametrize("change", FOREIGN.values(), ids=FOREIGN)
async def test_a_change_by_another_writer_is_repaired_while_a_claim_holds_the_device(
    world: World, change: Mapping[str, Any]
) -> None:
    async with world.publisher(allocation_lookup=Claims("half")) as publisher:
        publisher.want([POOL])
        await publisher.wait_settled(40)
        await patch_as_kubectl(world, change)
        await world.until(lambda slices: published(slices, POOL))
        assert (await publisher.wait_settled(40))["gpus"].state is PoolState.PUBLISHED


@pytest.mark.parametrize("change", FOREIGN.values(), ids=FOREIGN)
async def test_a_change_by_another_writer_while_no_driver_runs_is_repaired(
    world: World, change: Mapping[str, Any]
) -> None:
    async with world.publisher() as publisher:
        publisher.want([POOL])
        await publisher.wait_settled(40)
    await patch_as_kubectl(world, change)
    async with world.publisher(allocation_lookup=Claims("half")) as publisher:
        publisher.want([POOL])
        assert (await publisher.wait_settled(40))["gpus"].state is PoolState.PUBLISHED
    assert published(await world.slices(), POOL)


async def test_an_enlarged_counter_set_is_repaired_although_the_driver_changes_consumption(
    world: World,
) -> None:
    async with world.publisher() as publisher:
        publisher.want([POOL])
        await publisher.wait_settled(40)
    await patch_as_kubectl(world, FOREIGN["a counter set is enlarged"])
    async with world.publisher(allocation_lookup=Claims("half")) as publisher:
        publisher.want([replace(POOL, devices=(part("half", 1, "mig"), POOL.devices[1]))])
        assert (await publisher.wait_settled(40))["gpus"].state is PoolState.HELD
    assert published(await world.slices(), POOL)


async def test_devices_of_an_earlier_process_are_kept_while_a_claim_holds_them(world: World) -> None:
    async with world.publisher() as publisher:
        publisher.want([POOL])
        await publisher.wait_settled(40)
    async with world.publisher(allocation_lookup=Claims("half")) as publisher:
        publisher.want([replace(POOL, devices=(part("half", 1, "mig"), POOL.devices[1]))])
        assert (await publisher.wait_settled(40))["gpus"].state is PoolState.HELD
    assert published(await world.slices(), POOL)


async def test_a_deleted_slice_is_created_with_its_published_counters(world: World) -> None:
    claims, reports = Claims("half"), Reports()
    async with world.publisher(allocation_lookup=claims, on_status=reports) as publisher:
        publisher.want([POOL])
        await publisher.wait_settled(40)
        publisher.want([replace(POOL, devices=(part("half", 1, "mig"), POOL.devices[1]))])
        await reports.until(lambda status: status.state is PoolState.HELD)
        for item in await world.slices():
            await world.client.delete(SLICES, item.metadata.name)
        await world.until(lambda slices: published(slices, POOL))


async def test_a_pool_that_is_removed_and_added_again_keeps_the_counters_of_held_devices(world: World) -> None:
    claims, reports = Claims("half"), Reports()
    free = replace(POOL, devices=(Device("half"), POOL.devices[1]))
    async with world.publisher(allocation_lookup=claims, on_status=reports) as publisher:
        publisher.want([POOL])
        await publisher.wait_settled(40)
        publisher.want([])
        await world.until(lambda slices: not slices)
        publisher.want([free])
        held = await reports.until(lambda status: status.state is PoolState.HELD)
        assert held.held_by == ("ns/half",)
        assert published(await world.slices(), POOL)
        claims.held.clear()
        await world.until(lambda slices: published(slices, free))


async def test_a_removed_held_device_is_counted_again_with_its_counter_set(world: World) -> None:
    claims, reports = Claims("half"), Reports()
    without = replace(POOL, devices=(POOL.devices[1],))
    async with world.publisher(allocation_lookup=claims, on_status=reports) as publisher:
        publisher.want([POOL])
        await publisher.wait_settled(40)
        publisher.want([Pool("gpus", (Device("plain"),))])
        await world.until(lambda slices: published(slices, Pool("gpus", (Device("plain"),))))
        publisher.want([without])
        await reports.until(lambda status: status.state is PoolState.HELD)
        await world.until(lambda slices: published(slices, POOL))
        claims.held.clear()
        await world.until(lambda slices: published(slices, without))


async def test_a_free_removed_device_is_forgotten(world: World) -> None:
    asked: list[set[str]] = []

    async def no_claims(devices: AbstractSet[DeviceId], /) -> Mapping[DeviceId, str]:
        asked.append({device.device for device in devices})
        return {}

    async with world.publisher(allocation_lookup=no_claims) as publisher:
        publisher.want([POOL])
        await publisher.wait_settled(40)
        for memory in (3, 2, 1):
            publisher.want([Pool("gpus", (part("whole", memory),), (MEMORY,))])
            await publisher.wait_settled(40)
            await asyncio.sleep(0)
    assert asked == [{"half", "whole"}, {"whole"}, {"whole"}]
