"""Laws of the controllers for any order of events and for crashes at any time."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from dradriver.control.claims.ownership import claim_step, pod_step
from dradriver.control.claims.pod_claims import is_reserved_for, used_names
from dradriver.kube import ApiError
from dradriver.testing import builders
from tests.unit.control.world import World, cluster

PODS = 6


def apply_event(world: World, chance: random.Random) -> None:
    """Apply one event of users, kubelets, controllers or power failures."""
    pods, claims = sorted(world.pods), sorted(world.claims)
    match chance.choice(["pod", "claim", "bind", "bind", "watch", "end", "delete", "delete claim", "die"]):
        case "pod" if pods:
            world.carry_out(pod_step(world.pods[chance.choice(pods)], world.objects()))
        case "claim" if claims:
            world.carry_out(claim_step(world.claims[chance.choice(claims)], world.objects()))
        case "bind" if pods:
            bind(world, chance, chance.choice(pods))
        case "watch" if chance.random() < 0.2:
            world.catch_up()
        case "end" if pods and chance.random() < 0.2:
            name = chance.choice(pods).partition("/")[2]
            if world.pod(name).spec.node_name:
                world.change(name, phase=chance.choice(["Succeeded", "Failed"]))
        case "delete" if pods and chance.random() < 0.2:
            world.delete_pod(chance.choice(pods).partition("/")[2])
        case "delete claim" if claims and chance.random() < 0.1:
            world.delete_claim(chance.choice(claims))
        case "die" if chance.random() < 0.2:
            world.crash()
        case _:
            pass


def bind(world: World, chance: random.Random, ref: str) -> None:
    """Make one write for a pod without a node; it may fail, or get no answer, stored or not."""
    step = world.scheduling_step(ref)
    if chance.random() < (0.6 if ref in world.failed else 0.2):
        world.lose(ref, step, stored=False, error=ApiError("not like this", status=403))
    elif chance.random() < 0.3:
        world.lose(ref, step, stored=chance.random() < 0.8)
    else:
        world.carry_out(step)


def held(world: World) -> list[str]:
    return [str(result.id) for claim in world.claims.values() for result in claim.results]


def check(world: World) -> None:
    assert len(held(world)) == len(set(held(world)))
    for pod in world.pods.values():
        if pod.spec.node_name and not pod.finished:
            for claim in (world.claims[ref] for ref in used_names(pod)):
                assert claim.allocation is not None, "a pod that runs keeps its devices"
                assert is_reserved_for(claim, pod), "a pod that runs keeps its claims"


@given(st.randoms(use_true_random=False), st.integers(1, 3), st.integers(1, 3))
@settings(max_examples=100)
def test_no_order_of_events_gives_a_device_to_two_claims(
    chance: random.Random, nodes: int, devices: int
) -> None:
    world = cluster(nodes, devices)
    world.watch_is_late = True
    world.add(builders.claim(name="shared"))
    for number in range(PODS):
        shared = ["shared"] if number % 3 == 0 else []
        world.add(builders.pod(*shared, name=f"pod-{number}", templates=["template"]))
    for _ in range(150):
        apply_event(world, chance)
        check(world)
    world.watch_is_late = False
    world.catch_up()
    world.settle()
    check(world)
    running = {pod.metadata.uid for pod in world.pods.values() if pod.spec.node_name and not pod.finished}
    for claim in world.claims.values():
        assert bool(claim.status.reserved_for) == (claim.allocation is not None), "held is used, used is held"
        assert {c.uid for c in claim.status.reserved_for} <= running
