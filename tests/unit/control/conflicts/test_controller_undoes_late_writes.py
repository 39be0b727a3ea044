"""Double allocations on an API server: they are reverted before a pod is bound."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import pytest

from dradriver.control.controllers import Controllers
from dradriver.errors import DraError
from dradriver.kube import CLAIMS, EVENTS, SLICES, Client, PatchKind
from dradriver.kube.http.request import Request, WriteGuard
from dradriver.model.resource.claim import CLAIM_FINALIZER, Allocation, DeviceResult, ResourceClaim
from dradriver.model.resource.counters import CounterConsumption, CounterSet
from dradriver.model.resource.device import Device
from dradriver.testing import builders
from tests.unit.control.conflicts.allocations import allocation_at
from tests.unit.control.conftest import Lab
from tests.unit.control.events import Event, wait_for_event

REVERTED = "the allocation of this claim is reverted"


class PausedLeader:
    """The guard of a leader whose process is stopped between a check of its Lease and a system call."""

    def __init__(self, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        self.client = client.with_guard(self._limit_write)
        self.is_paused = asyncio.Event()
        self.wake = asyncio.Event()
        self.has_written = asyncio.Event()
        send = client._transport.request

        async def request(request: Request, guard: WriteGuard | None = None) -> bytes:
            if guard is None or b"/status/allocation" not in (request.body or b""):
                return await send(request, guard)
            with guard():
                pass
            self.is_paused.set()
            await self.wake.wait()
            try:
                return await send(request)
            finally:
                self.has_written.set()

        monkeypatch.setattr(self.client, "_transport", _Transport(client._transport, request))

    @contextmanager
    def _limit_write(self) -> Generator[float, None, None]:
        if self.is_paused.is_set():
            raise DraError("another process may lead")
        yield 5.0


class _Transport:
    """A transport with another `request`."""

    def __init__(self, inner: Any, request: Any) -> None:
        self._inner = inner
        self.request = request

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


async def allocate(lab: Lab, claim: ResourceClaim, device: DeviceResult | str, *, seconds: int) -> None:
    """Create a claim and allocate a device of node-1 to it, as another scheduler does."""
    await lab.client.create(CLAIMS, claim, "default", into=dict)
    allocation = builders.allocated(claim, device).allocation
    assert allocation is not None
    await write_allocation(lab, claim.metadata.name, allocation_at(allocation, seconds))


async def write_allocation(lab: Lab, name: str, allocation: Allocation) -> None:
    finalizers = {"op": "add", "path": "/metadata/finalizers", "value": [CLAIM_FINALIZER]}
    await lab.client.patch(CLAIMS, name, "default", [finalizers], PatchKind.JSON, into=dict)
    await write(lab, name, {"op": "add", "path": "/status/allocation", "value": allocation})


async def write(lab: Lab, name: str, *operations: dict[str, object]) -> None:
    """Change the status of a claim."""
    await lab.client.patch(CLAIMS, name, "default", operations, PatchKind.JSON, into=dict, subresource="status")


async def events_of(lab: Lab, claim: str) -> list[Event]:
    events = (await lab.client.list(EVENTS, "default", into=Event)).items
    return [event for event in events if event.involved_object.name == claim]


async def test_a_late_write_of_a_leader_that_was_paused_is_undone_before_its_pod_is_bound(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two claims need both devices of the only node with devices. Both leaders choose these devices."""
    await lab.client.delete(SLICES, f"node-2-{builders.DRIVER}")
    both = builders.device_request(count=2)
    await lab.client.create(CLAIMS, builders.claim(both, name="late"), "default", into=dict)
    paused = PausedLeader(lab.client, monkeypatch)
    async with Controllers(paused.client):
        await lab.pods(builders.pod("late", name="late"))
        await paused.is_paused.wait()
        await lab.client.create(CLAIMS, builders.claim(both, name="early"), "default", into=dict)
        await lab.pods(builders.pod("early", name="early"))
        async with Controllers(lab.client):
            await lab.until_bound(1)
            assert lab.seen.pods.items["default/early"].spec.node_name == "node-1"
            paused.wake.set()
            await paused.has_written.wait()
            event = await wait_for_event(lab.client, REVERTED)
            await lab.until(lambda _, claims: not claims["default/late"].metadata.finalizers)
    assert lab.seen.pods.items["default/late"].spec.node_name == ""
    assert len(lab.held()) == 2
    assert (event.type, event.reason) == ("Warning", "DeviceAllocatedTwice")
    assert event.involved_object.name == "late"
    assert "is also allocated to claim default/early, which takes precedence" in event.message


async def test_an_allocation_that_an_earlier_process_left_is_reverted_at_the_start(lab: Lab) -> None:
    await allocate(lab, builders.claim(name="newer"), "device-0", seconds=2)
    await allocate(lab, builders.claim(name="older"), "device-0", seconds=1)
    async with Controllers(lab.client):
        await wait_for_event(lab.client, REVERTED)
        await lab.until(lambda _, claims: claims["default/newer"].allocation is None)
    assert lab.seen.claims.items["default/older"].allocation is not None
    assert not await events_of(lab, "older")


async def test_an_older_allocation_that_appears_late_takes_the_device_from_the_newer_one(lab: Lab) -> None:
    """The write of the older allocation was delayed. Neither pod is bound."""
    async with Controllers(lab.client):
        await allocate(lab, builders.claim(name="newer"), "device-0", seconds=2)
        await allocate(lab, builders.claim(name="older"), "device-0", seconds=1)
        await lab.until(lambda _, claims: claims["default/newer"].allocation is None)
    assert lab.seen.claims.items["default/older"].allocation is not None


async def test_the_pod_of_a_reverted_claim_gets_another_device(lab: Lab) -> None:
    claim = builders.claim(name="second")
    await allocate(lab, builders.claim(name="first"), "device-0", seconds=1)
    await allocate(lab, claim, "device-0", seconds=2)
    await lab.pods(builders.pod("second"))
    async with Controllers(lab.client):
        await lab.until_bound(1)
        await lab.until(lambda _pods, _claims: len(set(lab.held())) == 2)


async def test_a_partition_that_overlaps_an_older_device_is_released(lab: Lab) -> None:
    gpu = CounterSet("gpu", {"memory": 4})
    devices = [
        Device(name, consumes_counters=[CounterConsumption("gpu", {"memory": memory})])
        for name, memory in (("whole", 4), ("quarter", 1))
    ]
    for source in (
        builders.slice_(counter_sets=[gpu], pool="gpus", count=2, name="counters"),
        builders.slice_(*devices, pool="gpus", count=2, name="devices"),
    ):
        await lab.client.create(SLICES, source, into=dict)
    for name, seconds in (("quarter", 2), ("whole", 1)):
        result = DeviceResult(request="device", driver=builders.DRIVER, pool="gpus", device=name)
        await allocate(lab, builders.claim(name=name), result, seconds=seconds)
    async with Controllers(lab.client):
        event = await wait_for_event(lab.client, "counter memory of counter set gpu is also allocated")
        await lab.until(lambda _, claims: claims["default/quarter"].allocation is None)
    assert event.involved_object.name == "quarter"
    assert lab.seen.claims.items["default/whole"].allocation is not None


async def test_if_both_pods_are_bound_the_allocation_is_kept_and_reported(lab: Lab) -> None:
    async with Controllers(lab.client):
        for name in ("first", "second"):
            await lab.client.create(CLAIMS, builders.claim(name=name), "default", into=dict)
        await lab.pods(builders.pod("first", name="first"), builders.pod("second", name="second"))
        await lab.until_bound(2)
        await lab.until(lambda _pods, _claims: len(lab.held()) == 2)
    first, second = (lab.seen.claims.items[f"default/{name}"] for name in ("first", "second"))
    assert first.allocation is not None
    release: list[dict[str, object]] = [
        {"op": "remove", "path": f"/status/{field}"} for field in ("reservedFor", "allocation")
    ]
    for claim, seconds in ((first, 1), (second, 2)):
        await write(lab, claim.metadata.name, *release)
        await write_allocation(lab, claim.metadata.name, allocation_at(first.allocation, seconds))
    async with Controllers(lab.client):
        event = await wait_for_event(lab.client, "the allocation is kept")
    assert event.involved_object.name == "second"
    claims = (await lab.client.list(CLAIMS, "default", into=ResourceClaim)).items
    assert [claim.allocation is not None for claim in claims] == [True, True]
