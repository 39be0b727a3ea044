"""While a gate is off, a device that is unsafe without its field is never on the server."""

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pytest
from msgspec.structs import replace

from dradriver.kube import SLICES, Client, Invalid, Resource
from dradriver.kube.errors import StatusCause, StatusDetails
from dradriver.model.resource.counters import CounterConsumption, CounterSet
from dradriver.model.resource.device import Device, Taint
from dradriver.model.resource.pool import Pool
from dradriver.model.resource.slices import ResourceSlice
from dradriver.publish import DroppedField, PoolState, PoolStatus, PublishController
from dradriver.publish.features import api_features
from dradriver.publish.features.dropped_fields import CONSUMES_COUNTERS, SHARED_COUNTERS
from tests.unit.publish.conftest import Reports, World, a_world, offers

SET = CounterSet("gpu", {"memory": 4})


def part(name: str, *groups: str) -> Device:
    return Device(name, consumes_counters=[CounterConsumption("gpu", {"memory": 1}, list(groups))])


PARTS = Pool("gpus", (part("part-0"), part("part-1"), Device("plain")), (SET,))
GROUPED = Pool("gpus", (part("mig", "mig"), part("plain")), (SET,))
BOUND = Pool(
    "gpus", (Device("fabric", binding_conditions=["x"], binding_failure_conditions=["y"]), Device("plain"))
)
WHOLE = Pool("gpus", (Device("whole"),))


class Witness:
    """Records the devices of every state of every slice."""

    def __init__(self, world: World) -> None:
        self.devices: set[str] = set()
        self._world = world
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "Witness":
        version = (await self._world.client.list(SLICES, into=ResourceSlice)).resource_version
        self._task = asyncio.create_task(self._watch(version))
        return self

    async def __aexit__(self, *exc: object) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _watch(self, version: str) -> None:
        async for event in self._world.client.watch(SLICES, into=ResourceSlice, resource_version=version):
            if event.object is not None:
                self.devices |= {device.name for device in event.object.spec.devices}


@pytest.mark.parametrize(
    ("gate", "pool"),
    [
        ("DRAPartitionableDevices", PARTS),
        ("DRADeviceCompatibilityGroups", GROUPED),
        ("DRADeviceBindingConditions", BOUND),
    ],
)
async def test_without_a_fallback_only_the_safe_devices_are_published(
    gate: str, pool: Pool, tmp_path: Path
) -> None:
    async with a_world(tmp_path, **{gate: False}) as world, Witness(world) as witness:
        async with world.publisher() as publisher:
            publisher.want([pool])
            status = (await publisher.wait_settled(40))["gpus"]
        assert status.state is PoolState.UNSAFE_WITHDRAWN
        assert {field.gate for field in status.dropped} == {gate}
        assert gate in status.message
        assert await world.devices() == ["plain"]
        while not witness.devices:
            await asyncio.sleep(0.01)
    assert witness.devices == {"plain"}


@pytest.mark.parametrize("late", [False, True])
async def test_the_drivers_fallback_is_published(late: bool, tmp_path: Path) -> None:
    asked: list[tuple[str, frozenset[DroppedField]]] = []
    answer = asyncio.Event()

    async def at_once(pool: str, dropped: frozenset[DroppedField]) -> Sequence[Pool]:
        asked.append((pool, dropped))
        return [WHOLE]

    async def later(pool: str, dropped: frozenset[DroppedField]) -> Sequence[Pool]:
        await answer.wait()
        return await at_once(pool, dropped)

    async with a_world(tmp_path, DRAPartitionableDevices=False) as world:
        async with world.publisher(on_dropped=later if late else at_once) as publisher:
            publisher.want([PARTS])
            if late:
                await world.until(lambda slices: [d.name for s in slices for d in s.spec.devices] == ["plain"])
                answer.set()
            status = (await publisher.wait_settled(40))["gpus"]
        assert status.state is PoolState.FALLBACK
        assert await world.devices() == ["whole"]
    assert asked == [("gpus", frozenset({SHARED_COUNTERS, CONSUMES_COUNTERS}))]


async def test_a_server_that_requires_counters_beside_devices_gets_the_fallback(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kubernetes 1.34 with the gate on requires the counter sets in the slice of the devices."""
    text = "spec.devices[0].consumesCounters[0].counterSet: Invalid value: must reference a counterSet"
    create = Client.create

    async def of_1_34(client: Client, resource: Resource, body: ResourceSlice, **options: Any) -> Any:
        if any(device.consumes_counters for device in body.spec.devices):
            causes = [StatusCause(field="spec.devices[0].consumesCounters[0].counterSet")]
            raise Invalid(text, status=422, details=StatusDetails(causes=causes))
        return await create(client, resource, body, **options)

    monkeypatch.setattr(Client, "create", of_1_34)
    async with world.publisher(on_dropped=offers(WHOLE)) as publisher:
        publisher.want([PARTS])
        status = (await publisher.wait_settled(40))["gpus"]
    assert status.state is PoolState.FALLBACK
    assert text in status.message
    assert await world.devices() == ["whole"]


async def test_an_unsafe_fallback_is_reduced_to_its_safe_part(tmp_path: Path) -> None:
    async with a_world(tmp_path, DRAPartitionableDevices=False) as world:
        async with world.publisher(on_dropped=offers(PARTS)) as publisher:
            publisher.want([PARTS])
            await publisher.wait_settled(40)
        assert await world.devices() == ["plain"]


async def test_a_failed_fallback_withdraws_unsafe_devices(tmp_path: Path) -> None:
    async def broken(pool: str, dropped: frozenset[DroppedField]) -> Sequence[Pool]:
        raise RuntimeError("no such mode")

    async with (
        a_world(tmp_path, DRAPartitionableDevices=False) as world,
        world.publisher(on_dropped=broken) as publisher,
    ):
        publisher.want([PARTS])
        status = (await publisher.wait_settled(40))["gpus"]
    assert status.state is PoolState.UNSAFE_WITHDRAWN
    assert "the driver's fallback failed (no such mode)" in status.message


async def test_a_dropped_per_device_node_selection_withdraws_the_pool(tmp_path: Path) -> None:
    pool = Pool("gpus", (Device("a", all_nodes=True),), per_device_node_selection=True)
    async with a_world(tmp_path, DRAPartitionableDevices=False) as world:
        async with world.publisher(node=None) as publisher:
            publisher.want([pool])
            status = (await publisher.wait_settled(40))["gpus"]
        assert status.state is PoolState.UNSAFE_WITHDRAWN
        assert await world.slices() == []


async def test_dropped_harmless_fields_are_reported_and_the_devices_stay(tmp_path: Path) -> None:
    pool = Pool("gpus", (Device("a", {"list": [1, 2], "one": 1}, taints=[Taint(key="k", effect="None")]),))
    gates = {"DRADeviceTaints": False, "DRADeviceTaintRules": False, "DRAListTypeAttributes": False}
    async with a_world(tmp_path, **gates) as world:
        async with world.publisher() as publisher:
            publisher.want([pool])
            status = (await publisher.wait_settled(40))["gpus"]
        (item,) = await world.slices()
    assert status.state is PoolState.PUBLISHED
    assert {field.gate for field in status.dropped} == {"DRADeviceTaints", "DRAListTypeAttributes"}
    assert item.spec.devices == [Device("a", {"one": 1})]


async def test_the_whole_pool_is_published_when_the_gate_is_turned_on(tmp_path: Path) -> None:
    """A gate changes only with a restart of the server, which ends its watches."""
    reports = Reports()
    async with a_world(tmp_path, DRAPartitionableDevices=False) as world:
        async with world.publisher(on_status=reports) as publisher:
            publisher.want([PARTS])
            await reports.until(lambda status: status.state is PoolState.UNSAFE_WITHDRAWN)
            await world.regate()
            await reports.until(lambda status: status.state is PoolState.PUBLISHED)
        assert await world.devices() == ["plain", "part-0", "part-1"]


def _is_published(pool: str, status: PoolStatus) -> bool:
    return status.pool == pool and status.state is PoolState.PUBLISHED


async def test_a_gate_that_is_turned_on_during_a_watch_is_noticed_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind a load balancer, writes and watches can reach different servers."""
    monkeypatch.setattr(api_features, "PROBE_SECONDS", 0.05)
    monkeypatch.setattr(PublishController, "_watch_reopened", lambda self: None)
    reports = Reports()
    async with a_world(tmp_path, DRAPartitionableDevices=False) as world:
        async with world.publisher(on_status=reports) as publisher:
            publisher.want([PARTS])
            await reports.until(lambda status: status.state is PoolState.UNSAFE_WITHDRAWN)
            await world.regate()
            await reports.until(lambda status: status.state is PoolState.PUBLISHED)
        assert await world.devices() == ["plain", "part-0", "part-1"]


async def test_every_pool_probes_its_own_fields_again(tmp_path: Path) -> None:
    """While one gate stays off, the pool that needs it does not block the other pool."""
    reports = Reports()
    off = {"DRAPartitionableDevices": False, "DRADeviceBindingConditions": False}
    fabric = replace(BOUND, name="fabric")
    async with a_world(tmp_path, **off) as world, world.publisher(on_status=reports) as publisher:
        publisher.want([PARTS, fabric])
        await publisher.wait_settled(40)
        for gate, pool in (("DRADeviceBindingConditions", "fabric"), ("DRAPartitionableDevices", "gpus")):
            off[gate] = True
            await world.regate(**off)
            await reports.until(partial(_is_published, pool))


async def test_the_next_write_withdraws_when_the_gate_is_turned_off(tmp_path: Path) -> None:
    async with a_world(tmp_path) as world:
        async with world.publisher() as publisher:
            publisher.want([BOUND])
            await publisher.wait_settled(40)
            assert await world.devices() == ["plain", "fabric"]
        await world.regate(DRADeviceBindingConditions=False)
        async with world.publisher() as publisher:
            publisher.want([Pool("gpus", (*BOUND.devices, Device("more")))])
            await publisher.wait_settled(40)
        assert await world.devices() == ["plain", "more"]


async def test_a_gate_that_was_turned_off_is_noticed_before_the_next_write(tmp_path: Path) -> None:
    """A field that was stored before the watch ended may be dropped by the next server."""
    bound = Device("bound", binding_conditions=["x"], binding_failure_conditions=["y"])
    async with a_world(tmp_path) as world, world.publisher() as publisher:
        publisher.want([BOUND])
        await publisher.wait_settled(40)
        await world.regate(DRADeviceBindingConditions=False)
        async with Witness(world) as witness:
            publisher.want([BOUND, Pool("others", (bound, Device("last")))])
            await world.until(lambda slices: "last" in [d.name for s in slices for d in s.spec.devices])
            status = (await publisher.wait_settled(40))["others"]
        assert status.state is PoolState.UNSAFE_WITHDRAWN
        assert "bound" not in witness.devices


async def test_a_tainted_device_is_withdrawn_when_the_gate_is_turned_off(
    tmp_path: Path,
) -> None:
    """The server keeps the taint, which is in use, but a scheduler without the gate ignores it."""
    bad = Device("bad", taints=[Taint(key="example.com/broken", effect="NoSchedule")])
    async with a_world(tmp_path) as world, world.publisher() as publisher:
        publisher.want([Pool("gpus", (Device("good"), bad))])
        await publisher.wait_settled(40)
        assert await world.devices() == ["good", "bad"]
        await world.regate(DRADeviceTaints=False, DRADeviceTaintRules=False)
        await world.until(lambda slices: [d.name for s in slices for d in s.spec.devices] == ["good"])
        await world.regate()
        await world.until(lambda slices: [d.name for s in slices for d in s.spec.devices] == ["good", "bad"])


@pytest.mark.parametrize("effect", ["NoSchedule", "NoExecute"])
async def test_a_device_whose_taint_is_dropped_is_withdrawn(
    effect: Literal["NoSchedule", "NoExecute"], tmp_path: Path
) -> None:
    """The layout stays safe, so the driver's fallback is not called."""
    asked: list[str] = []

    async def fallback(pool: str, dropped: frozenset[DroppedField]) -> Sequence[Pool]:
        asked.append(pool)
        return [WHOLE]

    good, bad = Device("good"), Device("bad")
    tainted = replace(bad, taints=[Taint(key="example.com/broken", effect=effect)])
    async with (
        a_world(tmp_path, DRADeviceTaints=False, DRADeviceTaintRules=False) as world,
        world.publisher(on_dropped=fallback) as publisher,
    ):
        publisher.want([Pool("gpus", (good, bad))])
        await publisher.wait_settled(40)
        async with Witness(world) as witness:
            publisher.want([Pool("gpus", (good, tainted))])
            status = (await publisher.wait_settled(40))["gpus"]
            assert status.state is PoolState.UNSAFE_WITHDRAWN
            assert {field.gate for field in status.dropped} == {"DRADeviceTaints"}
            assert await world.devices() == ["good"]
        assert witness.devices <= {"good"}
        publisher.want([Pool("gpus", (good, bad))])
        assert (await publisher.wait_settled(40))["gpus"].state is PoolState.PUBLISHED
        assert await world.devices() == ["good", "bad"]
    assert asked == []
