"""A crash after each write in turn has the same result as no crash."""

from collections.abc import Callable
from contextlib import suppress

import pytest

from dradriver.control.claims.ownership import pod_step
from dradriver.control.extended import requested_amounts
from dradriver.testing import builders
from tests.unit.control.extended_pods import container, gpu_class, pod
from tests.unit.control.world import CrashError, World, cluster


def two_claims_each() -> World:
    """Return two pods with two claims each, and nodes with devices for one pod each."""
    w = cluster(nodes=2, devices=2)
    w.add(*(builders.pod(name=f"pod-{i}", templates=["template", "template"]) for i in (1, 2)))
    return w


def shared_claim() -> World:
    """Return two pods that share a claim, and a third that needs the remaining device."""
    w = cluster(nodes=1, devices=2)
    w.add(builders.claim(), *(builders.pod("claim-1", name=f"pod-{i}") for i in (1, 2)))
    w.add(builders.pod(name="pod-3", templates=["template"]))
    return w


def extended_resources() -> World:
    """Return two pods with extended resources, and a third that needs the remaining device."""
    w = cluster(nodes=1, devices=4)
    w.classes.clear()
    w.add(gpu_class(), pod("pod-1", gpu=1, init=(container("setup", gpu=2),)), pod("pod-2", implicit=1))
    w.add(builders.pod(name="pod-3", templates=["template"]))
    return w


def run_pods(w: World) -> None:
    """Start the pods, end the first one, delete the second one."""
    w.settle()
    assert all(pod.spec.node_name for pod in w.pods.values())
    held = [result.id for claim in w.claims.values() for result in claim.results]
    assert len(held) == len(set(held))
    for each in w.pods.values():
        wanted = [used for used in each.spec.resource_claims if used.resource_claim_template_name]
        assert len(w.claims_of(each.metadata.name)) == len(wanted) + bool(requested_amounts(each))
    w.change("pod-1", phase="Succeeded")
    w.settle()
    w.delete_pod("pod-2")
    w.settle()
    for claim in w.claims.values():
        users = {consumer.name for consumer in claim.status.reserved_for}
        assert (claim.allocation is not None) == bool(users)
        assert users <= {"pod-3"}


def writes_of(start: Callable[[], World]) -> int:
    w = start()
    run_pods(w)
    # A release is two writes.
    return 2 * len(w.writes)


@pytest.mark.parametrize("start", [two_claims_each, shared_claim, extended_resources])
def test_a_crash_after_any_write_loses_nothing(start: Callable[[], World]) -> None:
    total = writes_of(start)
    assert total > 20
    for number in range(1, total):
        w = start()
        w.crash_after = number
        run_pods(w)


def test_an_allocation_from_before_the_crash_is_used() -> None:
    w = cluster(nodes=2)
    w.add(builders.claim(), builders.pod("claim-1"))
    w.crash_after = 2
    w.settle()
    allocations = [write for write in w.writes if type(write).__name__ == "Allocate"]
    assert len(allocations) == 1
    assert w.pod().spec.node_name


def test_a_pod_that_waits_after_a_crash_releases_its_devices() -> None:
    """One of its two claims is allocated, and the device for the other one is in use."""
    w = cluster(nodes=1, devices=2)
    w.add(builders.claim(), builders.claim(name="claim-2"), builders.pod("claim-1", "claim-2"))
    w.crash_after = 2
    with suppress(CrashError):
        while True:
            w.carry_out(w.scheduling_step("default/pod-1"))
    w.plans.clear()
    w.add(builders.allocated(builders.claim(name="other"), "device-1"))
    assert w.claims["default/claim-1"].allocation is not None
    w.settle()
    assert w.claims["default/claim-1"].allocation is None
    assert not w.pod().spec.node_name


def test_a_claim_that_is_deleted_before_its_pod_is_bound_is_created_again() -> None:
    w = cluster(nodes=1)
    w.add(builders.pod(templates=["template"]))
    w.crash_after = 4
    with suppress(CrashError):
        while True:
            w.carry_out(pod_step(w.pod(), w.objects()))
            w.carry_out(w.scheduling_step("default/pod-1"))
    w.plans.clear()
    (claim,) = w.claims_of("pod-1")
    assert claim.allocation is not None
    w.delete_claim(claim.ref)
    w.settle()
    assert w.pod().spec.node_name
    assert [c.metadata.uid for c in w.claims_of("pod-1")] != [claim.metadata.uid]
