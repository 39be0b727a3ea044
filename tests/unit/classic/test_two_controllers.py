"""Two controllers claim one class: a claim that the other one has begun to allocate is left alone."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, ClassVar

import pytest

import dradriver as dra
from dradriver.classic.metrics import ControllerMetrics
from dradriver.classic.orphans import OrphanedClaims
from dradriver.classic.releasing import Releaser
from dradriver.classic.reports import ControllerReports
from dradriver.classic.state import ControllerState
from dradriver.classic.steps.claim_steps import ClaimStep, next_claim_step
from dradriver.classic.writes import ClaimWrites
from dradriver.kube import (
    CLAIMS,
    CONTROLLER_ALLOCATIONS,
    LEASES,
    NAMESPACES,
    Client,
    EventRecorder,
    PatchKind,
    Resource,
)
from dradriver.model.classic.allocation_records import ControllerAllocation, RecordedAllocation
from dradriver.model.classic.names import LEASE_ANNOTATION, NODE_ANNOTATION, RELEASE_ANNOTATION
from dradriver.model.core.lease import Lease, LeaseSpec
from dradriver.model.core.meta import ObjectMeta
from dradriver.model.resource.claim import ResourceClaim
from dradriver.node.driver_calls import Calls
from tests.unit.classic.shelf import CONTROLLER, FINALIZER, Shelf, ShelfDriver, ShelfLab

OTHER = "other/shelf.example.com"
OWN = "default/shelf.example.com"


class Blind(Client):
    """A client that neither lists nor watches records: the cache of this process is late."""

    async def list(self, resource: Resource, *args: Any, **kwargs: Any) -> Any:
        if resource is CONTROLLER_ALLOCATIONS:
            kwargs["labels"] = "example.com/none"
        return await super().list(resource, *args, **kwargs)

    async def watch(self, resource: Resource, *args: Any, **kwargs: Any) -> AsyncGenerator[Any, None]:
        if resource is CONTROLLER_ALLOCATIONS:
            await asyncio.get_running_loop().create_future()
        async for event in super().watch(resource, *args, **kwargs):
            yield event


class LateRecord(Client):
    """A client that creates no record before `may_record`, and sets `ended` when it has written a status."""

    may_record: ClassVar[asyncio.Event]
    ended: ClassVar[asyncio.Event]

    async def create(self, resource: Resource, *args: Any, **kwargs: Any) -> Any:
        if resource is CONTROLLER_ALLOCATIONS:
            await self.may_record.wait()
        return await super().create(resource, *args, **kwargs)

    async def patch(self, resource: Resource, *args: Any, **kwargs: Any) -> Any:
        stored = await super().patch(resource, *args, **kwargs)
        if resource is CLAIMS and kwargs.get("subresource") == "status":
            self.ended.set()
        return stored


async def record_of_other(lab: ShelfLab, claim: ResourceClaim) -> None:
    meta = claim.metadata
    record = ControllerAllocation(
        metadata=ObjectMeta(name=meta.uid, namespace="default", annotations={LEASE_ANNOTATION: OTHER}),
        spec=RecordedAllocation(claim_name=meta.name, claim_uid=meta.uid, controller_name=CONTROLLER),
    )
    await lab.client.create(CONTROLLER_ALLOCATIONS, record, "default", into=dict)


async def lease_of_other(lab: ShelfLab, holder: str = "pod-1", seconds: int = 3600) -> None:
    spec = LeaseSpec(
        holder_identity=holder,
        lease_duration_seconds=seconds,
        acquire_time="2026-01-01T00:00:00.000000Z",
        renew_time="2026-01-01T00:00:00.000000Z",
    )
    await lab.client.create(NAMESPACES, {"metadata": {"name": "other"}}, into=dict)
    lease = Lease(metadata=ObjectMeta(name=CONTROLLER, namespace="other"), spec=spec)
    await lab.client.create(LEASES, lease, "other", into=dict)


async def test_a_claim_with_the_finalizer_of_another_controller_is_left_alone_with_an_event(
    lab: ShelfLab, shelf: Shelf
) -> None:
    await lab.create_claim(immediate=True)
    body = {"metadata": {"finalizers": ["old.example.com/deletion-protection"]}}
    await lab.client.patch(CLAIMS, "claim-1", "default", body, PatchKind.MERGE, into=dict)
    async with lab.driver(ShelfDriver(shelf)):
        message = await lab.event("ControllerConflict")
        assert message == (
            "controller old.example.com has begun to allocate the claim, so shelf.example.com leaves it alone"
        )
        body = {"metadata": {"finalizers": []}}
        await lab.client.patch(CLAIMS, "claim-1", "default", body, PatchKind.MERGE, into=dict)
        await lab.allocated()


async def test_a_claim_of_another_lease_is_left_alone_with_an_event(lab: ShelfLab, shelf: Shelf) -> None:
    await lease_of_other(lab)
    claim = await lab.create_claim(immediate=True)
    await record_of_other(lab, claim)
    async with lab.driver(ShelfDriver(shelf), OWN):
        assert f"with the Lease {OTHER}" in await lab.event("ControllerConflict")
    assert shelf.log == []


@pytest.mark.parametrize("state", ["gone", "released", "expired"])
async def test_the_claims_of_a_lease_that_ended_are_taken_over(lab: ShelfLab, shelf: Shelf, state: str) -> None:
    if state == "released":
        await lease_of_other(lab, holder="")
    if state == "expired":
        await lease_of_other(lab, seconds=1)
    claim = await lab.create_claim(immediate=True)
    shelf.held[claim.metadata.uid] = ("node-1", 1)
    await record_of_other(lab, claim)
    async with lab.driver(ShelfDriver(shelf), OWN):
        await lab.allocated()
        record = await lab.until(lambda: r if (r := lab.record(claim)) and r.node else None)
    assert record.metadata.annotations == {LEASE_ANNOTATION: OWN, NODE_ANNOTATION: "node-1"}
    assert shelf.calls("deallocate") == [claim.metadata.uid]


async def test_what_another_process_allocates_now_is_no_orphan(lab: ShelfLab, shelf: Shelf) -> None:
    """The caches are read nowhere here, so they are older than the claim."""
    driver, state = ShelfDriver(shelf), ControllerState(lab.client, CONTROLLER, OWN)
    claim = await lab.create_claim(immediate=True)
    body = {"metadata": {"finalizers": [FINALIZER]}}
    await lab.client.patch(CLAIMS, "claim-1", "default", body, PatchKind.MERGE, into=dict)
    shelf.held |= {claim.metadata.uid: ("node-1", 1), "gone": ("node-1", 1)}
    calls = Calls(driver)
    reports = ControllerReports(EventRecorder(lab.client, CONTROLLER), ControllerMetrics(CONTROLLER))
    releaser = Releaser(driver, state, ClaimWrites(lab.client, state), calls, reports)
    await OrphanedClaims(driver, lab.client, state, releaser, calls, reports).release()
    calls.close()
    assert shelf.calls("deallocate") == ["gone"]


@pytest.mark.parametrize("is_late", [False, True], ids=["before", "after"])
async def test_a_claim_is_not_released_if_another_process_has_recorded_it_since(
    lab: ShelfLab, shelf: Shelf, is_late: bool
) -> None:
    """It records the claim before or after this process writes the annotation.

    The caches are read nowhere here, so they do not have the record.
    """

    class Writes(ClaimWrites):
        async def settle(self, claim: ResourceClaim) -> bool:
            has_settled = await super().settle(claim)
            await record_of_other(lab, claim)
            return has_settled

    driver, state = ShelfDriver(shelf), ControllerState(lab.client, CONTROLLER, OWN)
    await lab.create_claim(immediate=True)
    body = {"metadata": {"finalizers": [FINALIZER]}}
    claim = await lab.client.patch(CLAIMS, "claim-1", "default", body, PatchKind.MERGE, into=ResourceClaim)
    if not is_late:
        await record_of_other(lab, claim)
    state.claims.apply_written(claim)
    calls = Calls(driver)
    reports = ControllerReports(EventRecorder(lab.client, CONTROLLER), ControllerMetrics(CONTROLLER))
    await Releaser(driver, state, Writes(lab.client, state), calls, reports).release(claim.metadata.uid)
    calls.close()
    assert shelf.log == []
    assert next_claim_step(state.view(claim.metadata.uid)) is ClaimStep.RIVAL
    stored = await lab.client.get(CLAIMS, "claim-1", "default", into=ResourceClaim)
    assert (RELEASE_ANNOTATION in stored.metadata.annotations) == is_late
    assert is_late or stored == claim, "the other process continues undisturbed"


async def test_a_claim_that_another_process_has_allocated_and_recorded_since_is_not_withdrawn(
    lab: ShelfLab, shelf: Shelf
) -> None:
    """The caches are read nowhere here, so they do not have the record."""
    driver, state = ShelfDriver(shelf), ControllerState(lab.client, CONTROLLER, OWN)
    claim = await lab.create_claim(immediate=True)
    body: dict[str, Any] = {"metadata": {"finalizers": [FINALIZER]}}
    await lab.client.patch(CLAIMS, "claim-1", "default", body, PatchKind.MERGE, into=dict)
    body = {"status": {"allocation": {"devices": {}}}}
    allocated = await lab.client.patch(
        *(CLAIMS, "claim-1", "default", body, PatchKind.MERGE), into=ResourceClaim, subresource="status"
    )
    await record_of_other(lab, claim)
    uid = claim.metadata.uid
    state.claims.apply_written(allocated)
    state.withdrawn.add(uid)
    calls = Calls(driver)
    reports = ControllerReports(EventRecorder(lab.client, CONTROLLER), ControllerMetrics(CONTROLLER))
    await Releaser(driver, state, ClaimWrites(lab.client, state), calls, reports).withdraw(uid)
    calls.close()
    assert shelf.log == []
    assert next_claim_step(state.view(uid)) is ClaimStep.RIVAL
    assert uid not in state.withdrawn
    assert await lab.client.get(CLAIMS, "claim-1", "default", into=ResourceClaim) == allocated


async def test_an_allocation_is_not_written_after_a_process_with_another_lease_has_begun_to_release_it(
    lab: ShelfLab, shelf: Shelf
) -> None:
    """The record is created only after the other process has looked for it."""

    class Late(LateRecord):
        may_record, ended = asyncio.Event(), asyncio.Event()

    class First(ShelfDriver):
        async def deallocate(self, claim: dra.RecordedClaim) -> None:
            Late.ended.set()
            await super().deallocate(claim)

    class Second(ShelfDriver):
        async def deallocate(self, claim: dra.RecordedClaim) -> None:
            Late.may_record.set()
            await Late.ended.wait()
            await super().deallocate(claim)
            released.set()

    released = asyncio.Event()
    await lease_of_other(lab)
    await lab.create_claim(immediate=True)
    async with lab.driver(First(shelf), OTHER, Late):
        await lab.until(lambda: (c := lab.claim()) and FINALIZER in c.metadata.finalizers)
        async with lab.driver(Second(shelf), OWN, Blind):
            await released.wait()
            claim = await lab.allocated()
            assert shelf.held == {claim.metadata.uid: ("node-1", 1)}
