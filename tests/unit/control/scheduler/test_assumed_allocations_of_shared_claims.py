"""Pods share a claim and have one each of their own: who lacks either leaves the shared one to the others."""

import pytest

from dradriver.control.claims.ownership import claim_step, pod_step
from dradriver.control.claims.pod_claims import reserved_for
from dradriver.testing import builders
from tests.unit.control.world import World, cluster

SHARED = "default/shared"


def sharing(*, devices: int) -> World:
    """Two such pods on a node; their own claims are made and named in their status, nothing is allocated."""
    w = cluster(nodes=1, devices=devices)
    w.add(builders.claim(name="shared"))
    for name in ("pod-1", "pod-2"):
        add_pod(w, name, "shared")
    return w


def add_pod(w: World, name: str, *claims: str) -> None:
    w.add(builders.pod(*claims, name=name, templates=["template"]))
    for _ in ("its own claim is made", "the pod names it"):
        w.take(pod_step(w.pod(name), w.objects()))


def reserve_shared(w: World, name: str) -> None:
    """The scheduler plans for the pod, and writes until the shared claim is reserved for it."""
    while not reserved_for(w.claims[SHARED], w.pod(name)):
        w.take(w.scheduling_step(f"default/{name}"))


def lose_own_claim(w: World, name: str) -> None:
    """A user deletes the pod's own claim, which was to be allocated next."""
    (claim,) = w.claims_of(name)
    w.delete_claim(claim.ref)


def users(w: World) -> list[str]:
    return [consumer.name for consumer in w.claims[SHARED].status.reserved_for]


def running(w: World) -> set[str]:
    return {pod.metadata.name for pod in w.pods.values() if pod.spec.node_name}


def test_a_pod_whose_plan_fails_gives_back_its_part_while_another_pod_runs_with_the_claim() -> None:
    w = sharing(devices=2)
    reserve_shared(w, "pod-1")
    lose_own_claim(w, "pod-1")
    reserve_shared(w, "pod-2")
    w.settle()
    assert running(w) == {"pod-2"}
    assert users(w) == ["pod-2"]


@pytest.mark.parametrize("crashed", [False, True], ids=["their plans failed", "the scheduler died"])
def test_pods_that_all_wait_do_not_hold_the_device_for_each_other(crashed: bool) -> None:
    w = sharing(devices=3)
    for name in ("pod-1", "pod-2"):
        reserve_shared(w, name)
    if crashed:
        w.forget_everything()
    else:
        lose_own_claim(w, "pod-1")
        lose_own_claim(w, "pod-2")
    others = [f"other-{number}" for number in (1, 2, 3)]
    for name in others:
        add_pod(w, name)
        w.take(w.scheduling_step(f"default/{name}"))
    w.settle()
    assert running(w) == set(others)
    assert users(w) == []
    for name in others:
        w.delete_pod(name)
    w.settle()
    assert running(w) == {"pod-1", "pod-2"}
    assert sorted(users(w)) == ["pod-1", "pod-2"]


def test_a_shared_claim_that_is_deleted_goes_also_when_a_pod_was_about_to_use_it() -> None:
    w = sharing(devices=3)
    for name in ("pod-1", "pod-2"):
        reserve_shared(w, name)
    w.delete_pod("pod-1")
    while users(w) != ["pod-2"]:
        w.take(claim_step(w.claims[SHARED], w.objects()))
    w.delete_claim(SHARED)
    w.settle()
    assert SHARED not in w.claims
    assert 'resourceclaim "shared" not found' in w.condition("pod-2").message
