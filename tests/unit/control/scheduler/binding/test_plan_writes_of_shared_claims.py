"""Pods share a claim and each has its own claim: a pod that lacks one of them releases the shared claim."""

import pytest

from dradriver.control.claims.ownership import claim_step, pod_step
from dradriver.control.claims.pod_claims import is_reserved_for
from dradriver.testing import builders
from tests.unit.control.world import World, cluster

SHARED = "default/shared"


def sharing(*, devices: int) -> World:
    """Return a node with two such pods. Their own claims are created, and nothing is allocated."""
    w = cluster(nodes=1, devices=devices)
    w.add(builders.claim(name="shared"))
    for name in ("pod-1", "pod-2"):
        add_pod(w, name, "shared")
    return w


def add_pod(w: World, name: str, *claims: str) -> None:
    w.add(builders.pod(*claims, name=name, templates=["template"]))
    for _ in ("create its own claim", "name it in the status"):
        w.carry_out(pod_step(w.pod(name), w.objects()))


def reserve_shared(w: World, name: str) -> None:
    """Schedule the pod until the shared claim is reserved for it."""
    while not is_reserved_for(w.claims[SHARED], w.pod(name)):
        w.carry_out(w.scheduling_step(f"default/{name}"))


def lose_own_claim(w: World, name: str) -> None:
    """Delete the pod's own claim, which would be allocated next."""
    (claim,) = w.claims_of(name)
    w.delete_claim(claim.ref)


def users(w: World) -> list[str]:
    return [consumer.name for consumer in w.claims[SHARED].status.reserved_for]


def running(w: World) -> set[str]:
    return {pod.metadata.name for pod in w.pods.values() if pod.spec.node_name}


def test_a_failed_plan_releases_a_shared_claim_with_which_another_pod_runs() -> None:
    w = sharing(devices=2)
    reserve_shared(w, "pod-1")
    lose_own_claim(w, "pod-1")
    reserve_shared(w, "pod-2")
    w.settle()
    assert running(w) == {"pod-2"}
    assert users(w) == ["pod-2"]


@pytest.mark.parametrize("crashed", [False, True], ids=["their plans failed", "the scheduler died"])
def test_pods_that_all_wait_release_the_shared_claim(crashed: bool) -> None:
    w = sharing(devices=3)
    for name in ("pod-1", "pod-2"):
        reserve_shared(w, name)
    if crashed:
        w.crash()
    else:
        lose_own_claim(w, "pod-1")
        lose_own_claim(w, "pod-2")
    others = [f"other-{number}" for number in (1, 2, 3)]
    for name in others:
        add_pod(w, name)
        w.carry_out(w.scheduling_step(f"default/{name}"))
    w.settle()
    assert running(w) == set(others)
    assert users(w) == []
    for name in others:
        w.delete_pod(name)
    w.settle()
    assert running(w) == {"pod-1", "pod-2"}
    assert sorted(users(w)) == ["pod-1", "pod-2"]


def test_a_deleted_shared_claim_is_removed_while_a_pod_is_being_bound() -> None:
    w = sharing(devices=3)
    for name in ("pod-1", "pod-2"):
        reserve_shared(w, name)
    w.delete_pod("pod-1")
    while users(w) != ["pod-2"]:
        w.carry_out(claim_step(w.claims[SHARED], w.objects()))
    w.delete_claim(SHARED)
    w.settle()
    assert SHARED not in w.claims
    assert 'resourceclaim "shared" not found' in w.condition("pod-2").message
