"""The claim controller leaves allocation and finalizer of a classic claim to its controller (KEP-3063).

kube-controller-manager does the same with a claim that lacks the finalizer of structured allocations.
"""

from msgspec.structs import replace

from dradriver.control.claims.ownership import claim_step
from dradriver.control.runtime.actions import DeleteClaim, NextAction
from dradriver.model.classic.allocation_records import (
    AllocationRequest,
    ControllerAllocation,
    RecordedAllocation,
)
from dradriver.model.classic.names import DEALLOCATION_REQUESTED, finalizer
from dradriver.model.core.meta import OwnerReference
from dradriver.model.resource.claim import CLAIM_FINALIZER, ConsumerReference, ResourceClaim
from dradriver.testing import builders
from dradriver.testing.builders import CONTROLLED_CLASS, CONTROLLER
from tests.unit.control.world import NOW, World, cluster

FINALIZER = finalizer(CONTROLLER)


def classic(*consumers: ConsumerReference) -> ResourceClaim:
    """Return a claim that its controller has allocated and reserved."""
    claim = builders.claim(builders.device_request(CONTROLLED_CLASS))
    allocated = builders.allocated(claim, "card-1")
    return replace(
        allocated,
        metadata=replace(allocated.metadata, finalizers=[FINALIZER]),
        status=replace(allocated.status, reserved_for=list(consumers)),
    )


def used_by_a_finished_pod() -> World:
    w = cluster(nodes=1)
    w.add(builders.pod("claim-1", node_name="node-1"))
    pod = w.pod()
    consumer = ConsumerReference(resource="pods", name=pod.metadata.name, uid=pod.metadata.uid)
    w.add(classic(consumer))
    w.change(pod.metadata.name, phase="Succeeded")
    return w


def test_a_pod_that_ended_leaves_the_reservation_and_the_allocation_stays() -> None:
    w = used_by_a_finished_pod()
    before = w.claims["default/claim-1"]
    w.settle()
    after = w.claims["default/claim-1"]
    assert after.status.reserved_for == []
    assert after.allocation == before.allocation, "only the controller deallocates"
    assert after.metadata.finalizers == [FINALIZER], "and only the controller protects the claim"


def test_a_deleted_claim_waits_for_its_controller() -> None:
    w = cluster(nodes=1)
    claim = classic()
    deleted = replace(claim, metadata=replace(claim.metadata, deletion_timestamp=NOW))
    w.add(deleted)
    assert claim_step(deleted, w.objects()).next is NextAction.DONE
    w.settle()
    assert w.claims["default/claim-1"] == deleted


def test_a_claim_that_outlived_its_pod_is_deleted_while_it_is_allocated() -> None:
    w = used_by_a_finished_pod()
    pod, claim = w.pod(), classic()
    owner = OwnerReference(
        api_version="v1", kind="Pod", name=pod.metadata.name, uid=pod.metadata.uid, controller=True
    )
    owned = replace(claim, metadata=replace(claim.metadata, owner_references=[owner]))
    assert claim_step(owned, w.objects()).action == DeleteClaim(owned), "its finalizer holds it until then"


def test_a_preset_node_name_reserves_a_classic_claim_without_another_finalizer() -> None:
    w = cluster(nodes=1)
    w.add(classic())
    w.add(builders.pod("claim-1", node_name="node-1"))
    w.settle()
    claim = w.claims["default/claim-1"]
    assert [each.uid for each in claim.status.reserved_for] == [w.pod().metadata.uid]
    assert CLAIM_FINALIZER not in claim.metadata.finalizers


def test_an_allocated_claim_of_a_bound_pod_is_reserved_for_it() -> None:
    w = cluster(nodes=1)
    w.add(classic(), builders.pod("claim-1", node_name="node-1"))
    w.settle()
    assert [user.name for user in w.claims["default/claim-1"].status.reserved_for] == ["pod-1"]


def test_a_claim_that_is_not_shareable_is_reserved_for_one_bound_pod_only() -> None:
    w = cluster(nodes=1)
    w.add(classic(), *[builders.pod("claim-1", name=f"pod-{n}", node_name="node-1") for n in (1, 2)])
    w.settle()
    assert len(w.claims["default/claim-1"].status.reserved_for) == 1


def test_nobody_is_added_to_a_claim_while_its_deallocation_is_requested() -> None:
    w = cluster(nodes=1)
    w.add(classic(), builders.pod("claim-1", node_name="node-1"))
    w.set_condition("default/claim-1", DEALLOCATION_REQUESTED)
    w.settle()
    assert w.claims["default/claim-1"].status.reserved_for == []


def test_nobody_is_added_to_a_claim_without_devices_while_its_record_has_the_request() -> None:
    """KEP-3063, DeallocationRequested: a condition needs a device, so the request is in the record."""
    w = cluster(nodes=1)
    claim = classic()
    assert claim.allocation is not None
    allocation = replace(claim.allocation, devices=replace(claim.allocation.devices, results=[]))
    w.add(replace(claim, status=replace(claim.status, allocation=allocation)))
    spec = RecordedAllocation(
        claim_name=claim.metadata.name, claim_uid=claim.metadata.uid, controller_name=CONTROLLER
    )
    asked = AllocationRequest(deallocation_requested=True)
    w.records[claim.metadata.uid] = ControllerAllocation(spec=spec, status=asked)
    w.add(builders.pod("claim-1", node_name="node-1"))
    w.settle()
    assert w.claims["default/claim-1"].status.reserved_for == []
    del w.records[claim.metadata.uid]
    w.settle()
    assert len(w.claims["default/claim-1"].status.reserved_for) == 1


def test_an_allocation_from_a_pool_that_is_in_no_slice_does_not_disturb_the_scheduler() -> None:
    w = cluster(nodes=1)
    foreign = classic()
    (result,) = foreign.results
    assert foreign.allocation is not None
    devices = replace(foreign.allocation.devices, results=[replace(result, pool=f"{CONTROLLER}/fabric-1")])
    allocation = replace(foreign.allocation, devices=devices)
    w.add(replace(foreign, status=replace(foreign.status, allocation=allocation)))
    w.add(builders.claim(name="claim-2"))
    w.add(builders.pod("claim-2", name="pod-2"))
    w.settle()
    assert w.claims["default/claim-2"].allocation is not None
    assert w.claims["default/claim-1"].allocation == allocation
