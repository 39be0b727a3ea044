"""The steps of the controller, and the index that finds the conflicts, without an API server."""

import itertools
from collections.abc import Sequence
from typing import Any, cast

from msgspec.structs import replace

from dradriver.control.claims.pod_claims import consumer_of
from dradriver.control.conflicts.allocation_index import AllocationIndex
from dradriver.control.conflicts.controller import DoubleAllocationController
from dradriver.control.runtime.actions import (
    Action,
    EmitEvent,
    LookUpPod,
    NextAction,
    Release,
    RequestDeallocation,
)
from dradriver.control.runtime.caches import Caches
from dradriver.control.runtime.executor import Executor
from dradriver.control.runtime.metrics import ControlMetrics
from dradriver.kube import Cache, Client
from dradriver.model.classic.names import DEALLOCATION_REQUESTED, finalizer
from dradriver.model.core.meta import Condition
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import AllocatedDeviceStatus, ConsumerReference, ResourceClaim
from dradriver.model.resource.counters import CounterConsumption, CounterSet
from dradriver.model.resource.device import Device
from dradriver.testing import builders
from tests.unit.control.conflicts.allocations import held_claim

POD = builders.pod("newer")
OLDER = held_claim("older", "device-0", seconds=1)
NEWER = held_claim("newer", "device-0", seconds=2)
ROBOT = ConsumerReference(resource="robots", api_group="example.com", name="r", uid="r")


class Cluster:
    """Caches without an API server, and a controller whose writes are recorded.

    Attributes:
        binding: the pods that are being bound.
        bound_meanwhile: a pod that the API server shows as bound when it is read.
        deleted_meanwhile: a claim that is deleted while another claim is being released.
    """

    def __init__(self, *claims: ResourceClaim) -> None:
        self.caches = Caches(cast(Client, None))
        self.index = AllocationIndex(self.caches)
        self.binding: set[str] = set()
        self.bound_meanwhile: Pod | None = None
        self.deleted_meanwhile = ""
        self.writes: list[Action] = []
        self.controller = DoubleAllocationController(
            self.caches, self.index, cast(Executor, self), self.binding.__contains__, ControlMetrics()
        )
        self._versions = itertools.count(1)
        self.put(self.caches.claims, *claims)

    def put(self, cache: Cache[Any], *items: Any) -> None:
        """Store objects, as a watch does."""
        for item in items:
            meta = replace(item.metadata, resource_version=str(next(self._versions)))
            cache.apply_written(replace(item, metadata=meta))

    async def execute(self, action: Action) -> bool:
        if not isinstance(action, LookUpPod):
            self.writes.append(action)
        elif self.bound_meanwhile is not None:
            self.put(self.caches.pods, self.bound_meanwhile)
        if isinstance(action, RequestDeallocation):
            device = action.claim.results[0]
            condition = Condition(type=DEALLOCATION_REQUESTED, status="True")
            entry = AllocatedDeviceStatus(
                driver=device.driver, pool=device.pool, device=device.device, conditions=[condition]
            )
            asked = replace(action.claim.status, devices=[entry], reserved_for=list(action.remaining))
            self.put(self.caches.claims, replace(action.claim, status=asked))
        if isinstance(action, Release):
            if self.deleted_meanwhile:
                self.caches.claims.apply_deleted(self.caches.claims.items[self.deleted_meanwhile])
            assert self.index.find_conflict(action.claim) is not None, "a pod could be bound during the write"
            self.put(
                self.caches.claims, replace(action.claim, status=replace(action.claim.status, allocation=None))
            )
        return True

    async def run(self, *refs: str) -> list[str]:
        """Take the steps of claims until nothing is left to do now, and return the writes."""
        self.writes.clear()
        for ref in refs:
            while True:
                step = await self.controller.decide(ref)
                done = step.action is None or await self.controller._carry_out(step.action)
                if done and step.next is not NextAction.CONTINUE:
                    break
        return [_name(write) for write in self.writes]

    def losers(self) -> Sequence[str]:
        claims = self.caches.claims.items.values()
        return [claim.metadata.name for claim in claims if self.index.find_conflict(claim) is not None]


def _name(write: Action) -> str:
    if isinstance(write, Release):
        return f"release {write.claim.metadata.name}"
    if isinstance(write, RequestDeallocation):
        return f"request of {write.claim.metadata.name}"
    assert isinstance(write, EmitEvent)
    return f"event on {write.regarding.name}"


def reserved(claim: ResourceClaim, *consumers: ConsumerReference) -> ResourceClaim:
    return replace(claim, status=replace(claim.status, reserved_for=list(consumers)))


def bound(pod: Pod) -> Pod:
    return replace(pod, spec=replace(pod.spec, node_name=builders.NODE))


async def test_a_claim_is_reported_and_then_released() -> None:
    cluster = Cluster(OLDER, NEWER)
    assert await cluster.run("default/older", "default/newer") == ["event on newer", "release newer"]
    assert await cluster.run("default/older", "default/newer") == []


async def test_a_conflict_ends_with_one_of_the_allocations() -> None:
    cluster = Cluster(OLDER, NEWER)
    assert cluster.losers() == ["newer"]
    cluster.caches.claims.apply_deleted(cluster.caches.claims.items["default/older"])
    assert cluster.losers() == []


async def test_a_claim_is_not_released_while_its_pod_is_being_bound() -> None:
    cluster = Cluster(OLDER, reserved(NEWER, consumer_of(POD)))
    cluster.put(cluster.caches.pods, POD)
    cluster.binding.add(POD.ref)
    assert await cluster.run("default/newer") == ["event on newer"]
    assert (await cluster.controller.decide("default/newer")).next is NextAction.RETRY
    cluster.binding.clear()
    assert await cluster.run("default/newer") == ["release newer"]


async def test_the_conflict_is_reported_until_the_release_has_ended() -> None:
    cluster = Cluster(OLDER, NEWER)
    cluster.deleted_meanwhile = "default/older"
    assert await cluster.run("default/newer") == ["event on newer", "release newer"]
    assert cluster.losers() == []


async def test_if_the_pod_was_bound_meanwhile_the_other_claim_gives_way() -> None:
    cluster = Cluster(OLDER, reserved(NEWER, consumer_of(POD)))
    cluster.put(cluster.caches.pods, POD)
    cluster.bound_meanwhile = bound(POD)
    assert await cluster.run("default/newer") == ["event on newer"]
    assert await cluster.run("default/older") == ["event on older", "release older"]


async def test_a_claim_of_a_bound_pod_is_only_reported() -> None:
    first, second = builders.pod("older", name="first"), builders.pod("newer", name="second")
    cluster = Cluster(reserved(OLDER, consumer_of(first)), NEWER)
    cluster.put(cluster.caches.pods, bound(first), bound(second))
    assert await cluster.run("default/older", "default/newer") == ["event on newer"]


async def test_a_claim_of_a_pod_that_has_ended_is_released() -> None:
    cluster = Cluster(OLDER, reserved(NEWER, consumer_of(POD)))
    ended = bound(POD)
    cluster.put(cluster.caches.pods, replace(ended, status=replace(ended.status, phase="Succeeded")))
    assert await cluster.run("default/newer") == ["event on newer", "release newer"]


async def test_a_claim_of_another_consumer_than_a_pod_keeps_its_device() -> None:
    cluster = Cluster(OLDER, reserved(NEWER, ROBOT))
    assert cluster.losers() == ["older"]


async def test_the_counters_of_a_changed_pool_are_summed_again() -> None:
    def slices(memory: int, generation: int) -> Any:
        consumes = [CounterConsumption("gpu", {"memory": 2})]
        devices = [Device(name, consumes_counters=consumes) for name in ("half-0", "half-1")]
        fields: dict[str, Any] = {"count": 2, "generation": generation}
        counter_set = CounterSet("gpu", {"memory": memory})
        return (
            builders.slice_(counter_sets=[counter_set], name="counters", **fields),
            builders.slice_(*devices, name="devices", **fields),
        )

    cluster = Cluster(held_claim("a", "half-0"), held_claim("b", "half-1"))
    assert cluster.losers() == []
    cluster.put(cluster.caches.slices, *slices(3, 1))
    assert cluster.losers() == ["b"]
    cluster.put(cluster.caches.slices, *slices(4, 2))
    assert cluster.losers() == []


def classic(claim: ResourceClaim, pool: str = "a.example.com/pool") -> ResourceClaim:
    """Return the claim as its controller allocates it, from a pool that no slice publishes."""
    assert claim.allocation is not None
    results = [replace(result, driver="a.example.com", pool=pool) for result in claim.results]
    allocation = replace(claim.allocation, devices=replace(claim.allocation.devices, results=results))
    meta = replace(claim.metadata, finalizers=[finalizer("a.example.com")])
    return replace(claim, metadata=meta, status=replace(claim.status, allocation=allocation))


async def test_the_same_name_of_a_device_in_two_pools_of_a_controller_is_not_one_device() -> None:
    cluster = Cluster(classic(OLDER, "a.example.com/1"), classic(NEWER, "a.example.com/2"))
    assert await cluster.run("default/older", "default/newer") == []
    assert cluster.index.find_conflict(classic(NEWER, "a.example.com/2")) is None


async def test_the_controller_is_asked_to_deallocate_the_newer_of_two_claims_with_one_device() -> None:
    cluster = Cluster(classic(OLDER), classic(NEWER))
    written = await cluster.run("default/older", "default/newer")
    assert written == ["event on newer", "request of newer"]
    assert cluster.caches.claims.items["default/newer"].allocation is not None, "its controller removes it"
