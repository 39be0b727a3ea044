"""Counters and groups of an allocated device stay as they are until it is free (KEP-5963)."""

import asyncio
from collections.abc import Mapping
from collections.abc import Set as AbstractSet

import pytest
from msgspec.structs import replace

from dradriver.errors import DraError
from dradriver.kube.client import Listing
from dradriver.model.claim import DeviceId
from dradriver.model.counters import CounterConsumption, CounterSet
from dradriver.model.device import Device
from dradriver.model.meta import ObjectMeta
from dradriver.model.pool import Pool
from dradriver.model.slices import PoolReference, ResourceSlice, ResourceSliceSpec
from dradriver.publish import PoolState, sync
from dradriver.publish.holders import ClaimsOnServer
from dradriver.publish.holding import changed_devices, hold_back
from tests.unit.publish.conftest import DRIVER, Reports, World


def part(name: str, memory: int) -> Device:
    return Device(name, consumes_counters=[CounterConsumption("gpu", {"memory": memory})])


SET = CounterSet("gpu", {"memory": 4})
OLD = Pool("gpus", (part("a", 1), part("b", 1)), (SET,))
NEW = Pool("gpus", (part("a", 2), part("b", 2), Device("c")), (SET,))


def seen(pool: Pool) -> list[ResourceSlice]:
    reference = PoolReference(name="gpus", generation=1, resource_slice_count=1)
    spec = ResourceSliceSpec(
        driver="d", pool=reference, devices=list(pool.devices), shared_counters=list(pool.counter_sets)
    )
    return [ResourceSlice(metadata=ObjectMeta(name="00000-d"), spec=spec)]


class Claims:
    """Says that these devices are held until told otherwise."""

    def __init__(self, *held: str) -> None:
        self.held = set(held)
        self.asked = asyncio.Event()

    async def __call__(self, devices: AbstractSet[DeviceId], /) -> Mapping[DeviceId, str]:
        self.asked.set()
        return {device: f"ns/{device.device}" for device in devices if device.device in self.held}


def test_changed_counters_groups_and_counter_sets_count_as_changes() -> None:
    assert changed_devices(NEW, seen(OLD)) == {"a", "b"}
    assert changed_devices(OLD, seen(OLD)) == set()
    grouped = Device("a", consumes_counters=[CounterConsumption("gpu", {"memory": 1}, ["mig"])])
    assert changed_devices(replace(OLD, devices=(grouped,)), seen(OLD)) == {"a"}
    assert changed_devices(replace(OLD, counter_sets=(CounterSet("gpu", {"memory": 8}),)), seen(OLD)) == {
        "a",
        "b",
    }
    assert changed_devices(replace(OLD, devices=()), seen(OLD)) == set()
    tainted = replace(OLD, devices=(replace(OLD.devices[0], attributes={"x": 1}),))
    assert changed_devices(tainted, seen(OLD)) == set()


def test_the_rest_of_the_pool_goes_on() -> None:
    merged = hold_back(NEW, seen(OLD), {"a"})
    assert merged is not None
    assert merged.devices == (part("a", 1), part("b", 2), Device("c"))


def test_a_counter_set_that_a_held_device_consumes_stays() -> None:
    merged = hold_back(Pool("gpus", (Device("a"),)), seen(OLD), {"a"})
    assert merged is not None
    assert merged.counter_sets == (SET,)


def test_what_does_not_fit_together_waits_as_a_whole() -> None:
    other = Device("b", consumes_counters=[CounterConsumption("gpu", {"engines": 1})])
    new = Pool("gpus", (part("a", 1), other), (CounterSet("gpu", {"memory": 4, "engines": 2}),))
    assert hold_back(new, seen(OLD), {"a"}) is None


async def test_a_held_device_keeps_its_counters_until_it_is_free(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync, "_HELD_SECONDS", (0.02, 0.02))
    claims, reports = Claims("a"), Reports()
    async with world.publisher(holders=claims, on_status=reports) as publisher:
        publisher.want([OLD])
        await publisher.settled(10)
        publisher.want([NEW])
        held = await reports.until(lambda status: status.state is PoolState.HELD)
        assert held.held_by == ("ns/a",)
        assert "counters or groups of a stay" in held.message
        devices = {d.name: d for item in await world.slices() for d in item.spec.devices}
        assert devices == {"a": part("a", 1), "b": part("b", 2), "c": Device("c")}
        claims.held.clear()
        await reports.until(lambda status: status.state is PoolState.PUBLISHED)
    devices = {d.name: d for item in await world.slices() for d in item.spec.devices}
    assert devices["a"] == part("a", 2)


async def test_who_cannot_be_asked_counts_as_holding(world: World) -> None:
    async def unknown(devices: AbstractSet[DeviceId], /) -> Mapping[DeviceId, str]:
        raise DraError("claims can't be listed")

    async with world.publisher(holders=unknown) as publisher:
        publisher.want([OLD])
        await publisher.settled(10)
        publisher.want([NEW])
        status = (await publisher.settled(10))["gpus"]
    assert status.state is PoolState.HELD
    assert "claims can't be listed" in status.message


async def test_by_default_the_allocated_claims_on_the_server_hold(world: World) -> None:
    from dradriver.kube import CLAIMS, PatchKind
    from dradriver.model.claim import (
        Allocation,
        ClaimSpec,
        ClaimStatus,
        DeviceAllocation,
        DeviceRequest,
        DeviceRequests,
        DeviceResult,
        ExactDeviceRequest,
        ResourceClaim,
    )

    request = DeviceRequest("r", ExactDeviceRequest(device_class_name="c"))
    claim = ResourceClaim(metadata=ObjectMeta(name="c"), spec=ClaimSpec(DeviceRequests(requests=[request])))
    result = DeviceResult(request="r", driver=DRIVER, pool="gpus", device="b")
    allocation = Allocation(devices=DeviceAllocation(results=[result]))
    async with world.publisher() as publisher:
        publisher.want([OLD])
        await publisher.settled(10)
        await world.client.create(CLAIMS, claim, "default", into=dict)
        body = {"status": ClaimStatus(allocation=allocation)}
        await world.client.patch(CLAIMS, "c", "default", body, PatchKind.MERGE, subresource="status", into=dict)
        publisher.want([NEW])
        status = (await publisher.settled(10))["gpus"]
    assert status.held_by == ("default/c",)


async def test_a_claim_that_cannot_be_read_may_hold_anything(world: World) -> None:
    class Unreadable:
        async def list(self, *_: object, **__: object) -> Listing[object]:
            return Listing([], "1", {"default/odd": DraError("ResourceClaim default/odd: can't be read")})

    holders = ClaimsOnServer(Unreadable())  # type: ignore[arg-type]
    async with world.publisher(holders=holders) as publisher:
        publisher.want([OLD])
        await publisher.settled(10)
        publisher.want([NEW])
        status = (await publisher.settled(10))["gpus"]
    assert status.state is PoolState.HELD
    assert "default/odd" in status.message
