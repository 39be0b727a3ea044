"""Another scheduler may give the nodes to choose from, and gets other suitable nodes with scores."""

import pytest
from msgspec.structs import replace

from dradriver.allocator import Refusal
from dradriver.control.scheduler.node_choice.refusals import NodeRefusals
from dradriver.control.scheduler.pipeline import schedule
from dradriver.control.scheduler.snapshot import Plan, Unschedulable
from dradriver.model.core.node_selector import NodeSelector
from dradriver.model.resource.claim import CelSelector, DeviceRequest, DeviceSelector, DeviceSubRequest
from dradriver.testing import builders
from tests.unit.control.extended_pods import gpu_class, plugin_node, pod
from tests.unit.control.world import World, cluster, slow_device


def find(world: World, name: str = "p", limit: int = 9, nodes: list[str] | None = None) -> Plan:
    plan = schedule(world.pod(name), world.snapshot(nodes=nodes), others=limit)
    assert isinstance(plan, Plan), plan
    return plan


def with_pod(world: World, *requests: DeviceRequest) -> World:
    world.add(builders.claim(*requests, name="c"), builders.pod("c", name="p"))
    return world


@pytest.fixture
def world() -> World:
    """Five nodes with a device each, and a pod."""
    return with_pod(cluster(nodes=5, devices=1))


def test_other_nodes_are_found_up_to_the_limit(world: World) -> None:
    assert find(world).other_nodes == dict.fromkeys(["node-2", "node-3", "node-4", "node-5"], 1.0)
    assert len(find(world, limit=2).other_nodes) == 2
    assert not find(world, limit=0).other_nodes


def test_only_given_nodes_are_chosen_and_their_rules_are_left_to_who_gave_them(world: World) -> None:
    cordoned = replace(world.nodes[3], spec=replace(world.nodes[3].spec, unschedulable=True))
    world.nodes[3] = cordoned
    plan = find(world, nodes=["node-4", "node-2"])
    assert {plan.node, *plan.other_nodes} == {"node-2", "node-4"}
    assert "node-4" not in find(world).other_nodes


def test_no_node_may_be_given(world: World) -> None:
    verdict = schedule(world.pod("p"), world.snapshot(nodes=[]))
    assert isinstance(verdict, Unschedulable)
    assert verdict.message == "no nodes available to schedule pods"


def test_nodes_without_free_devices_are_no_other_nodes(world: World) -> None:
    world.add(builders.allocated(builders.claim(name="held"), "device-0", node_name="node-3"))
    assert set(find(world).other_nodes) == {"node-2", "node-4", "node-5"}


def test_nodes_whose_devices_must_be_attached_first_are_worse(world: World) -> None:
    world.add(builders.node("slow"), builders.slice_(slow_device(), node_name="slow"))
    assert find(world).other_nodes["slow"] == 0.5
    assert find(world).other_nodes["node-5"] == 1.0


def test_the_chosen_node_counts_if_it_is_the_last_in_order() -> None:
    world = with_pod(cluster(nodes=2, devices=1, slow=True))
    world.add(builders.node("ready"), builders.slice_(builders.device(), node_name="ready"))
    world.add(builders.pod(name="other", node_name="ready"))
    plan = find(world, limit=2)
    assert plan.node == "ready"
    assert plan.other_nodes == {"node-1": 0.5, "node-2": 0.5}


def test_a_node_with_a_later_alternative_has_a_lower_score() -> None:
    big = builders.device("big", {"size": "big"})
    world = World()
    names = ("first", "second")
    selectors = [f'device.attributes["{builders.DRIVER}"].size == "{size}"' for size in ("big", "small")]
    alternatives = [
        DeviceSubRequest(
            name=name,
            device_class_name=builders.CLASS,
            selectors=[DeviceSelector(cel=CelSelector(selector))],
        )
        for name, selector in zip(names, selectors, strict=True)
    ]
    world.add(builders.device_class())
    for name, device in (
        ("node-1", builders.device("small", {"size": "small"})),
        ("node-2", big),
        ("node-3", big),
    ):
        world.add(builders.node(name), builders.slice_(device, node_name=name))
    with_pod(world, DeviceRequest(name="any", first_available=alternatives))
    plan = find(world)
    assert plan.node == "node-2"
    assert plan.other_nodes == {"node-1": 7 / 8, "node-3": 1.0}


def extended(*selectors: str, amount: int = 1) -> World:
    """Two nodes with devices for an extended resource, and two nodes with a device plugin for it."""
    world = cluster(nodes=2, devices=1)
    made = gpu_class()
    if selectors:
        listed = [DeviceSelector(cel=CelSelector(each)) for each in selectors]
        made = replace(made, spec=replace(made.spec, selectors=listed))
    world.classes.clear()
    world.add(made, plugin_node("node-3", amount), plugin_node("node-4", amount), pod("p", gpu=1))
    return world


def test_extended_resources_are_served_by_devices_on_some_nodes_and_by_plugins_on_others() -> None:
    plan = find(extended())
    assert {plan.node, *plan.other_nodes} == {"node-1", "node-2", "node-3", "node-4"}
    assert len(find(extended(), limit=2).other_nodes) == 2


def test_a_class_that_is_wrong_leaves_the_other_nodes_of_a_nominated_pod() -> None:
    world = extended("nonsense(")
    world.change("p", nominated_node_name="node-3")
    plan = find(world)
    assert plan.node == "node-3"
    assert plan.other_nodes == {"node-4": 1.0}


def test_each_refused_node_has_its_reason() -> None:
    world = with_pod(cluster(nodes=3, devices=1))
    held = builders.allocated(builders.claim(name="held"), "device-0", node_name="node-2")
    world.add(held, builders.claim(name="d"), builders.pod("c", "held", name="both"))
    world.add(builders.node("bare"))
    verdict = schedule(world.pod("both"), world.snapshot())
    assert isinstance(verdict, Unschedulable)
    assert isinstance(verdict.refusals, NodeRefusals)
    reasons = verdict.refusals.by_node()
    assert set(reasons) == {"node-1", "node-2", "node-3", "bare"}
    assert reasons["node-1"] == "resourceclaim not available on the node (default/held)"
    assert "in use by claim default/held" in reasons["node-2"]
    assert held.allocation is not None
    assert held.allocation.node_selector == NodeSelector.for_node("node-2")


class TestFindFitting:
    def test_the_names_are_read_only_as_far_as_necessary(self, world: World) -> None:
        placer = world.snapshot().cluster.placer
        names = iter(["node-5", "node-1", "node-2"])
        assert list(placer.find_fitting([world.claims["default/c"]], names, 1)) == ["node-5"]
        assert "node-2" in names

    def test_an_unknown_node_is_an_error(self, world: World) -> None:
        with pytest.raises(KeyError):
            world.snapshot().cluster.placer.find_fitting([world.claims["default/c"]], ["node-9"], 1)

    def test_wrong_claims_are_refused(self, world: World) -> None:
        wrong = builders.claim(builders.device_request("missing"), name="wrong")
        with pytest.raises(Refusal) as caught:
            world.snapshot().cluster.placer.find_fitting([wrong], ["node-1"], 1)
        assert caught.value.kind == "claim"
