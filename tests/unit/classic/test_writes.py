"""The writes of a controller when the cluster has changed meanwhile, or an answer is lost."""

from datetime import UTC, datetime

import pytest

from dradriver.classic.state import ControllerState
from dradriver.classic.writes import ClaimChangedError, ClaimWrites
from dradriver.cluster.apiserver import Fault
from dradriver.kube import CLAIMS, CONTROLLER_ALLOCATIONS, PatchKind, Unavailable
from dradriver.model.classic.names import LEASE_ANNOTATION, RELEASE_ANNOTATION
from dradriver.model.resource.claim import Allocation, ConsumerReference, ResourceClaim
from tests.unit.classic.shelf import CONTROLLER, FINALIZER, ShelfLab

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ALLOCATION = Allocation(allocation_timestamp=NOW)
POD = ConsumerReference(resource="pods", name="pod-1", uid="pod-uid")


@pytest.fixture
async def writes(lab: ShelfLab) -> ClaimWrites:
    return ClaimWrites(lab.client, ControllerState(lab.client, CONTROLLER, "default/lease"))


async def annotate(lab: ShelfLab, value: str = "1") -> None:
    body = {"metadata": {"annotations": {"example.com/note": value}}}
    await lab.client.patch(CLAIMS, "claim-1", "default", body, PatchKind.MERGE, into=dict)


async def hold(lab: ShelfLab, *finalizers: str) -> ResourceClaim:
    body = {"metadata": {"finalizers": list(finalizers)}}
    return await lab.client.patch(CLAIMS, "claim-1", "default", body, PatchKind.MERGE, into=ResourceClaim)


async def current(lab: ShelfLab) -> ResourceClaim:
    return await lab.client.get(CLAIMS, "claim-1", "default", into=ResourceClaim)


async def test_a_finalizer_is_added_to_a_claim_that_has_changed(lab: ShelfLab, writes: ClaimWrites) -> None:
    claim = await lab.create_claim()
    await annotate(lab)
    stored = await writes.add_finalizer(claim)
    assert stored.metadata.finalizers == [FINALIZER]


async def test_the_finalizer_is_refused_for_a_claim_that_is_being_deleted(
    lab: ShelfLab, writes: ClaimWrites
) -> None:
    await lab.create_claim()
    claim = await hold(lab, "example.com/hold")
    await lab.client.delete(CLAIMS, "claim-1", "default")
    with pytest.raises(ClaimChangedError, match="being deleted"):
        await writes.add_finalizer(claim)
    assert (await current(lab)).metadata.finalizers == ["example.com/hold"]


async def test_a_claim_with_the_finalizer_is_read_before_it_is_allocated(
    lab: ShelfLab, writes: ClaimWrites
) -> None:
    await lab.create_claim()
    claim = await hold(lab, FINALIZER)
    await lab.client.delete(CLAIMS, "claim-1", "default")
    with pytest.raises(ClaimChangedError, match="being deleted"):
        await writes.add_finalizer(claim)


async def test_a_claim_that_another_controller_allocates_is_left_alone(
    lab: ShelfLab, writes: ClaimWrites
) -> None:
    claim = await lab.create_claim()
    await hold(lab, "other.example.com/deletion-protection")
    with pytest.raises(ClaimChangedError, match=r"controller other\.example\.com has begun"):
        await writes.add_finalizer(claim)


async def test_a_replaced_claim_is_not_the_claim(lab: ShelfLab, writes: ClaimWrites) -> None:
    claim = await lab.create_claim()
    await lab.client.delete(CLAIMS, "claim-1", "default")
    await lab.create_claim()
    with pytest.raises(ClaimChangedError, match="is gone"):
        await writes.add_finalizer(claim)


async def test_a_record_has_the_lease_and_no_owner(lab: ShelfLab, writes: ClaimWrites) -> None:
    claim = await lab.create_claim()
    await writes.create_record(claim, "node-1")
    record = await lab.until(lambda: lab.record(claim))
    assert record.metadata.annotations == {LEASE_ANNOTATION: "default/lease"}
    assert record.metadata.owner_references == []
    assert record.metadata.finalizers == []


async def test_a_record_whose_answer_was_lost_is_found(lab: ShelfLab, writes: ClaimWrites) -> None:
    claim = await lab.create_claim()
    fault = Fault("create", CONTROLLER_ALLOCATIONS.plural, drop=True, applied=True, count=1)
    lab.server.faults.add(fault)
    with pytest.raises(Unavailable):
        await writes.create_record(claim, "node-1")
    await writes.create_record(claim, "node-1")
    with pytest.raises(ClaimChangedError, match="attempt for node 'node-1'"):
        await writes.create_record(claim, "node-2")


async def test_an_allocation_is_written_to_a_claim_that_has_changed(lab: ShelfLab, writes: ClaimWrites) -> None:
    claim = await writes.add_finalizer(await lab.create_claim())
    await annotate(lab)
    await writes.write_allocation(claim, ALLOCATION, POD)
    stored = await current(lab)
    assert (stored.allocation, stored.status.reserved_for) == (ALLOCATION, [POD])


async def test_an_allocation_whose_answer_was_lost_is_found(lab: ShelfLab, writes: ClaimWrites) -> None:
    claim = await writes.add_finalizer(await lab.create_claim())
    lab.server.faults.add(Fault("patch", "resourceclaims/status", drop=True, applied=True, count=1))
    await writes.write_allocation(claim, ALLOCATION, POD)


async def test_an_allocation_that_was_not_carried_out_is_an_error(lab: ShelfLab, writes: ClaimWrites) -> None:
    claim = await writes.add_finalizer(await lab.create_claim())
    lab.server.faults.add(Fault("patch", "resourceclaims/status", drop=True, count=1))
    with pytest.raises(Unavailable):
        await writes.write_allocation(claim, ALLOCATION, POD)


async def test_an_allocation_is_not_written_without_the_finalizer(lab: ShelfLab, writes: ClaimWrites) -> None:
    claim = await writes.add_finalizer(await lab.create_claim())
    await hold(lab)
    with pytest.raises(ClaimChangedError, match="its finalizer"):
        await writes.write_allocation(claim, ALLOCATION, POD)


async def test_an_allocation_is_not_written_to_a_claim_that_is_being_released(
    lab: ShelfLab, writes: ClaimWrites
) -> None:
    claim = await writes.add_finalizer(await lab.create_claim())
    assert await writes.settle(claim)
    with pytest.raises(ClaimChangedError, match="being released"):
        await writes.write_allocation(claim, ALLOCATION, POD)
    with pytest.raises(ClaimChangedError, match="being released"):
        await writes.add_finalizer(claim)


async def test_a_release_that_has_ended_prevents_no_allocation(lab: ShelfLab, writes: ClaimWrites) -> None:
    """The finalizer may have been removed by others meanwhile, so the annotation is removed without it too."""
    await writes.settle(await lab.create_claim())
    await writes.remove_finalizer(await current(lab))
    assert RELEASE_ANNOTATION not in (await current(lab)).metadata.annotations
    await writes.settle(await current(lab))
    claim = await writes.add_finalizer(await current(lab))
    await writes.write_allocation(claim, ALLOCATION, POD)


async def test_an_allocation_is_not_written_over_that_of_others(lab: ShelfLab, writes: ClaimWrites) -> None:
    claim = await writes.add_finalizer(await lab.create_claim())
    await writes.write_allocation(claim, ALLOCATION, POD)
    other = ConsumerReference(resource="pods", name="pod-2", uid="other-uid")
    different = Allocation(allocation_timestamp=NOW, node_selector=None)
    await writes.write_allocation(claim, different, other)  # the same devices: the write of a lost answer
    assert (await current(lab)).status.reserved_for == [POD]


async def test_an_allocation_is_not_cleared_while_a_pod_has_reserved_the_claim(
    lab: ShelfLab, writes: ClaimWrites
) -> None:
    claim = await writes.add_finalizer(await lab.create_claim())
    await writes.write_allocation(claim, ALLOCATION, None)
    before = await current(lab)
    body = {"status": {"reservedFor": [{"resource": "pods", "name": "pod-1", "uid": "pod-uid"}]}}
    await lab.client.patch(
        *(CLAIMS, "claim-1", "default", body, PatchKind.MERGE), into=dict, subresource="status"
    )
    await writes.clear_allocation(before)
    assert (await current(lab)).allocation == ALLOCATION


async def test_the_finalizer_of_an_allocated_claim_stays(lab: ShelfLab, writes: ClaimWrites) -> None:
    await lab.create_claim()
    claim = await hold(lab, FINALIZER)
    await writes.write_allocation(claim, ALLOCATION, None)
    await writes.remove_finalizer(claim)
    assert (await current(lab)).metadata.finalizers == [FINALIZER]


async def test_only_the_own_finalizer_is_removed(lab: ShelfLab, writes: ClaimWrites) -> None:
    await lab.create_claim()
    claim = await hold(lab, "example.com/hold", FINALIZER)
    await annotate(lab)
    await writes.remove_finalizer(claim)
    assert (await current(lab)).metadata.finalizers == ["example.com/hold"]
