"""Two controllers claim one class: a claim that the other one has begun to allocate is left alone."""

import pytest

from dradriver.classic.metrics import ControllerMetrics
from dradriver.classic.orphans import OrphanedClaims
from dradriver.classic.releasing import Releaser
from dradriver.classic.reports import ControllerReports
from dradriver.classic.state import ControllerState
from dradriver.classic.writes import ClaimWrites
from dradriver.kube import CLAIMS, CONTROLLER_ALLOCATIONS, LEASES, NAMESPACES, EventRecorder, PatchKind
from dradriver.model.classic.allocation_records import ControllerAllocation, RecordedAllocation
from dradriver.model.classic.names import LEASE_ANNOTATION
from dradriver.model.core.lease import Lease, LeaseSpec
from dradriver.model.core.meta import ObjectMeta
from dradriver.model.resource.claim import ResourceClaim
from dradriver.node.driver_calls import Calls
from tests.unit.classic.shelf import CONTROLLER, FINALIZER, Shelf, ShelfDriver, ShelfLab

OTHER = "other/shelf.example.com"
OWN = "default/shelf.example.com"


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
        record = await lab.until(lambda: lab.record(claim))
    assert record.metadata.annotations == {LEASE_ANNOTATION: OWN}
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
