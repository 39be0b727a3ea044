"""Waiting pods of one kind are refused for the same reasons, which are found once."""

from typing import Any

import pytest
from msgspec.structs import replace

from dradriver.allocator import Reason, Refusal
from dradriver.allocator.placement import Placer, RefusedNodes
from dradriver.control.scheduler.node_choice.refusals import KnownRefusals, NodeRefusals
from dradriver.control.scheduler.pipeline import schedule
from dradriver.control.scheduler.snapshot import Plan, Unschedulable
from dradriver.model.core.workload import Pod
from dradriver.testing import builders
from tests.unit.control.world import World, cluster


def full_cluster() -> World:
    """Return a node with one device, which the claim `held` has, and pods whose claims wait."""
    world = cluster(nodes=1, devices=1)
    world.add(builders.allocated(builders.claim(name="held"), "device-0"))
    for name in ("one", "two"):
        world.add(builders.claim(name=name), builders.pod(name, name=name))
    return world


def message(world: World, pod: Pod) -> str:
    verdict = schedule(pod, world.snapshot())
    assert isinstance(verdict, Unschedulable)
    return verdict.message


def test_the_second_pod_is_refused_without_a_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    world = full_cluster()
    first = message(world, world.pod("one"))

    def decide(*_: Any, **__: Any) -> None:
        raise AssertionError

    monkeypatch.setattr(Placer, "place", decide)
    assert message(world, world.pod("two")) == first.replace("default/one", "default/two")
    assert "claim default/one, request device" in first


def test_a_freed_device_is_allocated() -> None:
    world = full_cluster()
    message(world, world.pod("one"))
    world.delete_claim("default/held")
    plan = schedule(world.pod("one"), world.snapshot())
    assert isinstance(plan, Plan)
    world.plans["default/one"] = plan
    assert "in use by claim default/one" in message(world, world.pod("two"))


def test_pods_with_other_rules_for_nodes_have_their_own_reasons() -> None:
    world = full_cluster()
    message(world, world.pod("one"))
    two = world.pod("two")
    picky = replace(two, spec=replace(two.spec, node_selector={"disk": "ssd"}))
    assert message(world, picky) == (
        "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."
    )


def test_a_text_with_the_name_of_a_claim_is_not_used_for_another_claim() -> None:
    named = Refusal("node", "claim default/one cannot be served", claim="default/one")
    plain = Refusal("node", "cannot allocate all claims", claim="default/one", reasons=[Reason("taint", "why")])
    known = NodeRefusals(("default/one",), {}, [RefusedNodes(plain, ("a", "b"))], is_undecided=False)
    other = known.for_claims(("default/two",))
    assert other is not None
    assert "claim default/two: why" in other.message()
    known = NodeRefusals(("default/one",), {}, [RefusedNodes(named, ("a", "b"))], is_undecided=False)
    assert known.for_claims(("default/two",)) is None


def test_a_limited_number_of_kinds_is_known() -> None:
    known = KnownRefusals()
    for number in range(100):
        known.add(number, NodeRefusals((), {}, [], is_undecided=False))
    assert known.find(0) is None
    assert known.find(99) is not None
