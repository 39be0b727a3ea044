"""Counters and groups of an allocated device stay unchanged until it is free (KEP-5963)."""

import asyncio
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from dradriver.errors import DraError
from dradriver.kube.client import Listing
from dradriver.model.core.meta import ObjectMeta
from dradriver.model.resource.claim import DeviceId
from dradriver.model.resource.counters import CounterConsumption, CounterSet
from dradriver.model.resource.device import Device
from dradriver.model.resource.pool import Pool
from dradriver.model.resource.slices import PoolReference, ResourceSlice, ResourceSliceSpec
from dradriver.publish import PoolState, pool_worker
from dradriver.publish.holds.allocation_lookup import look_up_allocations
from dradriver.publish.holds.pinned_changes import PinnedPool, affected_devices, pin_pool
from dradriver.publish.holds.published_counters import PublishedCounters
from tests.unit.publish.conftest import DRIVER, Reports, World, a_world


def part(name: str, memory: int) -> Device:
    return Device(name, consumes_counters=[CounterConsumption("gpu", {"memory": memory})])


SET = CounterSet("gpu", {"memory": 4})
OLD = Pool("gpus", (part("a", 1), part("b", 1)), (SET,))
NEW = Pool("gpus", (part("a", 2), part("b", 2), Device("c")), (SET,))


def seen(pool: Pool) -> PublishedCounters:
    reference = PoolReference(name="gpus", generation=1, resource_slice_count=1)
    spec = ResourceSliceSpec(
        driver="d", pool=reference, devices=list(pool.devices), shared_counters=list(pool.counter_sets)
    )
    return PublishedCounters([ResourceSlice(metadata=ObjectMeta(name="00000-d"), spec=spec)])


class Claims:
    """The claims that hold devices, until a test releases them."""

    def __init__(self, *held: str) -> None:
        self.held = set(held)
        self.asked = asyncio.Event()

    async def __call__(self, devices: AbstractSet[DeviceId], /) -> Mapping[DeviceId, str]:
        self.asked.set()
        return {device: f"ns/{device.device}" for device in devices if device.device in self.held}


def test_changed_counters_groups_and_counter_sets_affect_their_devices() -> None:
    assert affected_devices(NEW, seen(OLD)) == {"a", "b"}
    assert affected_devices(OLD, seen(OLD)) == set()
    grouped = Device("a", consumes_counters=[CounterConsumption("gpu", {"memory": 1}, ["mig"])])
    assert affected_devices(replace(OLD, devices=(grouped, part("b", 1))), seen(OLD)) == {"a", "b"}
    larger = replace(OLD, counter_sets=(CounterSet("gpu", {"memory": 8}),))
    assert affected_devices(larger, seen(OLD)) == {"a", "b"}
    described = replace(OLD, devices=(replace(OLD.devices[0], attributes={"x": 1}), OLD.devices[1]))
    assert affected_devices(described, seen(OLD)) == set()


def test_a_kept_counter_set_keeps_all_its_consumers() -> None:
    """A smaller `whole` beside the larger old counter set would fit next to a held partition."""
    old = Pool("gpus", (part("p0", 1), part("p1", 1), part("whole", 4)), (SET,))
    smaller = CounterSet("gpu", {"memory": 2})
    new = Pool("gpus", (part("p0", 1), part("p1", 1), part("whole", 2), part("more", 1)), (smaller,))
    hold = pin_pool(new, seen(old), {"p0"})
    assert hold.pool == old
    assert hold.held == {"p0"}
    assert hold.waiting == {"more"}


def test_devices_on_other_counter_sets_change() -> None:
    other = Device("c", consumes_counters=[CounterConsumption("other", {"memory": 1})])
    changed = Device("c", consumes_counters=[CounterConsumption("other", {"memory": 2})])
    sets = (SET, CounterSet("other", {"memory": 2}))
    old = replace(OLD, devices=(*OLD.devices, other), counter_sets=sets)
    new = replace(NEW, devices=(part("a", 2), part("b", 2), Device("plain"), changed), counter_sets=sets)
    pool = pin_pool(new, seen(old), {"a"}).pool
    assert pool is not None
    assert pool.devices == (*OLD.devices, Device("plain"), changed)


def test_a_removed_device_stays_while_it_is_held_and_its_counter_set_is_in_use() -> None:
    kept = pin_pool(Pool("gpus", (part("b", 1),), (SET,)), seen(OLD), {"a"})
    assert kept.pool == Pool("gpus", (part("b", 1), part("a", 1)), (SET,))
    free = pin_pool(Pool("gpus", (part("b", 2),), (SET,)), seen(OLD), set())
    assert free.pool == Pool("gpus", (part("b", 2),), (SET,))


def test_a_kept_counter_set_counts_all_held_devices() -> None:
    """The counter set is still in use: `a` holds it, `c` is kept with it, and `b` is counted."""
    old = Pool("gpus", (part("a", 1), part("b", 1), part("c", 3)), (SET,))
    new = Pool("gpus", (Device("a"), Device("c")))
    pool = pin_pool(new, seen(old), {"a", "b"}).pool
    assert pool == replace(old, devices=(part("a", 1), part("c", 3), part("b", 1)))


def test_a_removed_card_is_removed_although_a_claim_holds_it() -> None:
    assert pin_pool(Pool("gpus", (Device("c"),)), seen(OLD), {"a"}) == PinnedPool(Pool("gpus", (Device("c"),)))


def test_a_counter_set_that_a_held_device_consumes_stays() -> None:
    hold = pin_pool(Pool("gpus", (Device("a"),)), seen(OLD), {"a"})
    assert hold.pool == Pool("gpus", (part("a", 1),), (SET,))


def test_a_pool_waits_if_the_kept_devices_break_its_rules() -> None:
    """A kept device has no node selection of its own, but all devices of the wanted pool must have one."""
    nodes = Device("b", consumes_counters=part("b", 1).consumes_counters, all_nodes=True)
    new = replace(OLD, devices=(nodes,), per_device_node_selection=True)
    assert pin_pool(new, seen(OLD), {"a"}).pool is None


def test_missing_parts_of_an_incomplete_generation_are_read_from_the_previous_one() -> None:
    reference = PoolReference(name="gpus", generation=1, resource_slice_count=1)
    spec = ResourceSliceSpec(
        driver="d", pool=reference, devices=list(OLD.devices), shared_counters=list(OLD.counter_sets)
    )
    before = ResourceSlice(metadata=ObjectMeta(name="00000-d"), spec=spec)
    begun = replace(
        before,
        metadata=ObjectMeta(name="00001-d"),
        spec=replace(
            before.spec,
            pool=PoolReference(name="gpus", generation=2, resource_slice_count=2),
            devices=[],
        ),
    )
    pool = pin_pool(NEW, PublishedCounters([before, begun]), {"a"}).pool
    assert pool is not None
    assert part("a", 1) in pool.devices


async def test_a_held_device_keeps_its_counters_until_it_is_free(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_worker, "_HELD_SECONDS", (0.02, 0.02))
    claims, reports = Claims("a"), Reports()
    async with world.publisher(allocation_lookup=claims, on_status=reports) as publisher:
        publisher.want([OLD])
        await publisher.wait_settled(40)
        publisher.want([NEW])
        held = await reports.until(lambda status: status.state is PoolState.HELD)
        assert held.held_by == ("ns/a",)
        assert "counter sets of a stay unchanged" in held.message
        devices = {d.name: d for item in await world.slices() for d in item.spec.devices}
        assert devices == {"a": part("a", 1), "b": part("b", 1), "c": Device("c")}
        claims.held.clear()
        await reports.until(lambda status: status.state is PoolState.PUBLISHED)
    devices = {d.name: d for item in await world.slices() for d in item.spec.devices}
    assert devices["a"] == part("a", 2)


async def test_dropped_harmless_fields_do_not_end_the_hold(tmp_path: Path) -> None:
    def described(pool: Pool) -> Pool:
        return replace(pool, devices=(replace(pool.devices[0], attributes={"x": [1, 2]}), *pool.devices[1:]))

    async with (
        a_world(tmp_path, DRAListTypeAttributes=False) as world,
        world.publisher(allocation_lookup=Claims("a")) as publisher,
    ):
        publisher.want([described(OLD)])
        await publisher.wait_settled(40)
        publisher.want([described(NEW)])
        status = (await publisher.wait_settled(40))["gpus"]
        devices = {d.name: d for item in await world.slices() for d in item.spec.devices}
    assert status.state is PoolState.HELD
    assert {field.gate for field in status.dropped} == {"DRAListTypeAttributes"}
    assert devices["a"] == part("a", 1)


async def test_all_devices_count_as_held_while_the_claims_cannot_be_read(world: World) -> None:
    async def unknown(devices: AbstractSet[DeviceId], /) -> Mapping[DeviceId, str]:
        raise DraError("claims can't be listed")

    async with world.publisher(allocation_lookup=unknown) as publisher:
        publisher.want([OLD])
        await publisher.wait_settled(40)
        publisher.want([NEW])
        status = (await publisher.wait_settled(40))["gpus"]
    assert status.state is PoolState.HELD
    assert "claims can't be listed" in status.message


async def test_by_default_allocated_claims_on_the_server_hold_devices(world: World) -> None:
    from dradriver.kube import CLAIMS, PatchKind
    from dradriver.model.resource.claim import (
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
        await publisher.wait_settled(40)
        await world.client.create(CLAIMS, claim, "default", into=dict)
        body = {"status": ClaimStatus(allocation=allocation)}
        await world.client.patch(CLAIMS, "c", "default", body, PatchKind.MERGE, subresource="status", into=dict)
        publisher.want([NEW])
        status = (await publisher.wait_settled(40))["gpus"]
    assert status.held_by == ("default/c",)


async def test_a_claim_that_cannot_be_read_may_hold_anything(world: World) -> None:
    class Unreadable:
        async def list(self, *_: object, **__: object) -> Listing[object]:
            return Listing([], "1", {"default/odd": DraError("ResourceClaim default/odd: can't be read")})

    lookup = partial(look_up_allocations, Unreadable())  # type: ignore[arg-type]
    async with world.publisher(allocation_lookup=lookup) as publisher:
        publisher.want([OLD])
        await publisher.wait_settled(40)
        publisher.want([NEW])
        status = (await publisher.wait_settled(40))["gpus"]
    assert status.state is PoolState.HELD
    assert "default/odd" in status.message
