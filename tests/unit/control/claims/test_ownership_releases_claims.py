import pytest
from msgspec.structs import replace

from dradriver.control.claims.ownership import claim_step
from dradriver.control.runtime.actions import LookUpPod, NextAction, Release
from dradriver.model.resource.claim import CLAIM_FINALIZER, ConsumerReference
from dradriver.testing import builders
from tests.unit.control.world import NOW, World, cluster


def running(*, pods: int = 1) -> World:
    """Pods that share one claim of a user, on their node."""
    w = cluster(nodes=1)
    w.add(builders.claim())
    for number in range(1, pods + 1):
        w.add(builders.pod("claim-1", name=f"pod-{number}"))
    w.settle()
    assert len(w.claims["default/claim-1"].status.reserved_for) == pods
    return w


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_without_consumers_a_claim_loses_its_allocation_and_finalizer(phase: str) -> None:
    w = running()
    w.change("pod-1", phase=phase)
    w.settle()
    claim = w.claims["default/claim-1"]
    assert claim.allocation is None
    assert claim.status.reserved_for == []
    assert claim.metadata.finalizers == []


def test_other_consumers_keep_the_allocation() -> None:
    w = running(pods=2)
    w.change("pod-1", phase="Succeeded")
    w.settle()
    claim = w.claims["default/claim-1"]
    assert claim.allocation is not None
    assert [consumer.name for consumer in claim.status.reserved_for] == ["pod-2"]


def test_a_pod_that_is_being_deleted_keeps_its_claim_until_it_has_ended() -> None:
    w = running()
    pod = w.pod()
    w.pods[pod.ref] = replace(pod, metadata=replace(pod.metadata, deletion_timestamp=NOW))
    w.settle()
    assert w.claims["default/claim-1"].allocation is not None


def test_a_pod_that_is_not_cached_is_read_before_its_reservation_is_removed() -> None:
    w = running()
    claim = w.claims["default/claim-1"]
    pod = w.pods.pop("default/pod-1")
    assert claim_step(claim, w.objects()).action == LookUpPod("default", "pod-1", pod.metadata.uid)
    w.settle()
    assert w.claims["default/claim-1"].allocation is None


def test_a_pod_with_the_same_name_and_another_uid_is_not_the_consumer() -> None:
    w = running()
    w.add(builders.pod(name="pod-1", node_name="node-1"))
    assert isinstance(claim_step(w.claims["default/claim-1"], w.objects()).action, Release)


def test_consumers_that_are_not_pods_are_kept() -> None:
    w = running()
    claim = w.claims["default/claim-1"]
    other = ConsumerReference(api_group="example.com", resource="jobs", name="job-1", uid="1")
    w.claims[claim.ref] = replace(claim, status=replace(claim.status, reserved_for=[other]))
    w.settle()
    assert w.claims["default/claim-1"].allocation is not None


def test_an_allocation_that_was_never_used_stays() -> None:
    """As in Kubernetes, only the end of use deallocates a claim."""
    w = cluster(nodes=1)
    claim = builders.allocated(builders.claim(), "device-0")
    w.add(replace(claim, metadata=replace(claim.metadata, finalizers=[CLAIM_FINALIZER])))
    w.settle()
    assert w.claims["default/claim-1"].allocation is not None


def test_a_deleted_claim_is_deallocated_after_its_last_use() -> None:
    w = running()
    w.delete_claim("default/claim-1")
    w.settle()
    assert w.claims["default/claim-1"].allocation is not None, "its pod still runs"
    w.change("pod-1", phase="Succeeded")
    w.settle()
    assert w.claims == {}


def test_a_generated_claim_is_deleted_when_its_pod_has_ended() -> None:
    w = cluster(nodes=1)
    w.add(builders.pod(templates=["template"]))
    w.settle()
    w.change("pod-1", phase="Succeeded")
    w.settle()
    assert w.claims == {}
    assert claim_step(builders.claim(), w.objects()).next is NextAction.DONE


def test_a_generated_claim_is_deleted_with_its_pod() -> None:
    w = cluster(nodes=1)
    w.add(builders.pod(templates=["template"]))
    w.settle()
    w.delete_pod("pod-1")
    w.settle()
    assert w.claims == {}
