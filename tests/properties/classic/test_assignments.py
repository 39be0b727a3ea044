"""The brute force finds a node for a pod if only pods that wait are in its way."""

import random

from msgspec.structs import replace

from dradriver.model.resource.claim import ConsumerReference, ResourceClaim
from dradriver.testing import builders
from tests.properties.classic.assignments import World, find_node
from tests.properties.classic.fabric import Fabric

A, B = "a.example.com", "b.example.com"


def world_of(*, is_bound: bool) -> World:
    """Return two pods: each needs a slot of both controllers, and has the only slot of one.

    Args:
        is_bound: whether the second pod is bound, and so keeps what it has.
    """
    one = builders.pod("one-a", "one-b", name="one")
    two = builders.pod("two-a", "two-b", name="two", node_name="node-1" if is_bound else "")
    claims = {(pod, name): claim_of(f"{pod}-{name[0]}", name) for pod in ("one", "two") for name in (A, B)}
    held = {A: claims["one", A], B: claims["two", B]}
    owners = {"one": one, "two": two}
    for (pod, name), claim in claims.items():
        if claim is held[name]:
            uid = owners[pod].metadata.uid
            status = replace(
                builders.allocated(claim, "slot", driver=name, node_name="node-1").status,
                reserved_for=[ConsumerReference(resource="pods", name=pod, uid=uid)],
            )
            claims[pod, name] = replace(claim, status=status)
    fabrics = {
        name: Fabric(name, random.Random(0), {"node-1": 1}, held={claim.metadata.uid: "node-1"})
        for name, claim in held.items()
    }
    classes = {name: builders.controller_class(name, controller=name) for name in (A, B)}
    pods = {pod.ref: pod for pod in (one, two)}
    return World(
        pods, {c.ref: c for c in claims.values()}, [builders.node("node-1")], classes, fabrics, {"node-1": 1}
    )


def claim_of(name: str, class_name: str) -> ResourceClaim:
    return builders.claim(builders.device_request(class_name), name=name)


def test_each_of_two_pods_that_wait_could_run_if_the_other_one_released_its_claim() -> None:
    world = world_of(is_bound=False)
    assert [find_node(world, pod) for pod in world.pods.values()] == ["node-1", "node-1"]


def test_a_bound_pod_keeps_what_it_has() -> None:
    world = world_of(is_bound=True)
    assert find_node(world, world.pods["default/one"]) == ""
