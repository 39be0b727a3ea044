"""The writes of classic DRA against an API server."""

from collections.abc import AsyncIterator

import pytest
from msgspec.structs import replace

from dradriver.control.claims.pod_claims import consumer_of
from dradriver.control.runtime.actions import DeleteContext, RequestDeallocation, WriteContext
from dradriver.control.runtime.caches import Caches
from dradriver.control.runtime.executor import Executor
from dradriver.errors import DraError
from dradriver.kube import (
    CLAIMS,
    CONTROLLER_ALLOCATIONS,
    PODS,
    SCHEDULING_CONTEXTS,
    EventRecorder,
    NotFound,
    PatchKind,
)
from dradriver.kube.definitions import install_definitions
from dradriver.model.classic.allocation_records import ControllerAllocation, RecordedAllocation
from dradriver.model.classic.controlled_claims import is_deallocation_requested
from dradriver.model.classic.scheduling import PodSchedulingContext, SchedulingSpec
from dradriver.model.core.meta import ObjectMeta
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import ResourceClaim
from dradriver.testing import builders
from tests.unit.control.classic.drivers import make_allocation
from tests.unit.control.conftest import Lab

A = "a.example.com"
SPEC = SchedulingSpec(selected_node="node-1", potential_nodes=["node-1", "node-2"])


class Writer:
    """An executor with its caches."""

    def __init__(self, lab: Lab, caches: Caches, executor: Executor) -> None:
        self.lab, self.caches, self.executor = lab, caches, executor

    async def pod(self, *claims: str) -> Pod:
        return await self.lab.client.create(PODS, builders.pod(*claims), "default", into=Pod)

    async def context(self) -> PodSchedulingContext:
        return await self.lab.client.get(SCHEDULING_CONTEXTS, "pod-1", "default", into=PodSchedulingContext)

    async def allocated(self, pod: Pod, devices: int = 1) -> ResourceClaim:
        """Create a claim with an allocation of a controller that is reserved for a pod."""
        client = self.lab.client
        claim = await client.create(
            CLAIMS, builders.claim(builders.device_request(A)), "default", into=ResourceClaim
        )
        status = {
            "allocation": make_allocation(claim, A, "node-1", devices=devices),
            "reservedFor": [consumer_of(pod)],
        }
        operation = {"op": "add", "path": "/status", "value": status}
        return await client.patch(
            *(CLAIMS, "claim-1", "default", [operation], PatchKind.JSON),
            into=ResourceClaim,
            subresource="status",
        )


@pytest.fixture
async def writer(lab: Lab) -> AsyncIterator[Writer]:
    await install_definitions(lab.client)
    async with EventRecorder(lab.client, "test") as recorder, Caches(lab.client, classic=True) as caches:
        yield Writer(lab, caches, Executor(lab.client, caches, recorder))


async def test_a_context_is_created_with_its_pod_as_owner_and_each_change_is_a_round(writer: Writer) -> None:
    pod = await writer.pod()
    assert await writer.executor.execute(WriteContext(pod, SPEC))
    context = writer.caches.contexts.items[pod.ref]
    assert context == await writer.context()
    assert context.is_for(pod.metadata.uid)
    assert not any(owner.block_owner_deletion for owner in context.metadata.owner_references)
    assert (context.spec, context.metadata.generation) == (SPEC, 1)
    assert await writer.executor.execute(WriteContext(pod, SchedulingSpec(), context))
    context = writer.caches.contexts.items[pod.ref]
    assert (context.spec, context.metadata.generation) == (SchedulingSpec(), 2)


async def test_the_context_of_an_earlier_pod_is_replaced(writer: Writer) -> None:
    pod = await writer.pod()
    earlier = replace(pod, metadata=replace(pod.metadata, uid="earlier"))
    assert await writer.executor.execute(WriteContext(earlier, SPEC))
    old = writer.caches.contexts.items[pod.ref]
    assert await writer.executor.execute(WriteContext(pod, SPEC, old))
    assert (await writer.context()).is_for(pod.metadata.uid)


async def test_a_context_that_exists_already_is_read_and_the_decision_is_repeated(writer: Writer) -> None:
    pod = await writer.pod()
    assert await writer.executor.execute(WriteContext(pod, SPEC))
    assert not await writer.executor.execute(WriteContext(pod, SchedulingSpec()))
    assert writer.caches.contexts.items[pod.ref].spec == SPEC


async def test_a_context_is_deleted_once(writer: Writer) -> None:
    pod = await writer.pod()
    await writer.executor.execute(WriteContext(pod, SPEC))
    context = await writer.context()
    for _ in range(2):
        assert await writer.executor.execute(DeleteContext(context))
        assert pod.ref not in writer.caches.contexts.items
    with pytest.raises(NotFound):
        await writer.context()


async def test_the_request_and_the_removal_of_the_consumer_are_one_write(writer: Writer) -> None:
    pod = await writer.pod("claim-1")
    claim = await writer.allocated(pod)
    assert await writer.executor.execute(RequestDeallocation(claim))
    written = await writer.lab.client.get(CLAIMS, "claim-1", "default", into=ResourceClaim)
    assert is_deallocation_requested(written)
    assert written.status.reserved_for == []
    assert written.allocation == claim.allocation
    assert int(written.metadata.resource_version) > int(claim.metadata.resource_version)


async def test_the_request_keeps_what_a_driver_has_reported_about_the_devices(writer: Writer) -> None:
    pod = await writer.pod("claim-1")
    claim = await writer.allocated(pod, devices=2)
    first, second = claim.results
    condition = {
        "type": "Ready",
        "status": "True",
        "reason": "Test",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    for index, each in enumerate((second, first)):
        entry = {
            "driver": each.driver,
            "pool": each.pool,
            "device": each.device,
            "conditions": [condition],
            "data": {"kept": index},
        }
        path, value = ("/status/devices", [entry]) if index == 0 else ("/status/devices/-", entry)
        claim = await writer.lab.client.patch(
            *(CLAIMS, "claim-1", "default", [{"op": "add", "path": path, "value": value}], PatchKind.JSON),
            into=ResourceClaim,
            subresource="status",
        )
    assert await writer.executor.execute(RequestDeallocation(claim))
    written = await writer.lab.client.get(CLAIMS, "claim-1", "default", into=ResourceClaim)
    entries = {entry.device: entry for entry in written.status.devices}
    assert [c.type for c in entries[first.device].conditions] == ["Ready", "DeallocationRequested"]
    assert [c.type for c in entries[second.device].conditions] == ["Ready"]
    assert [entry.data_object for entry in written.status.devices] == [{"kept": 0}, {"kept": 1}]


async def test_a_claim_without_devices_is_requested_in_the_controllers_record(writer: Writer) -> None:
    pod = await writer.pod("claim-1")
    claim = await writer.allocated(pod, devices=0)
    with pytest.raises(DraError, match=r"default/claim-1: status\.allocation: .* no record of it"):
        await writer.executor.execute(RequestDeallocation(claim))
    uid = claim.metadata.uid
    record = await writer.lab.client.create(
        CONTROLLER_ALLOCATIONS,
        ControllerAllocation(
            metadata=ObjectMeta(name=uid, namespace="default"),
            spec=RecordedAllocation(claim_name="claim-1", claim_uid=uid, controller_name=A),
        ),
        "default",
        into=ControllerAllocation,
    )
    assert await writer.executor.execute(RequestDeallocation(claim, record))
    assert writer.caches.records.items[record.ref].status.deallocation_requested
    written = await writer.lab.client.get(CLAIMS, "claim-1", "default", into=ResourceClaim)
    assert written.status.reserved_for == []


async def test_a_request_for_a_claim_that_has_changed_is_decided_again(writer: Writer) -> None:
    pod = await writer.pod("claim-1")
    claim = await writer.allocated(pod)
    stale = replace(claim, metadata=replace(claim.metadata, resource_version="1"))
    assert not await writer.executor.execute(RequestDeallocation(stale))
    assert not is_deallocation_requested(writer.caches.claims.items[claim.ref])


async def test_without_the_definitions_nothing_is_watched_and_the_caches_are_empty(lab: Lab) -> None:
    async with Caches(lab.client, classic=True) as caches:
        assert not caches.has_contexts
        assert caches.contexts.problem is None
        assert not caches.contexts.is_synced
