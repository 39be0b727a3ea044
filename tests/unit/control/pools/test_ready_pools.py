"""KEP-5007, Goals: devices without binding conditions are preferred, on whichever node they are."""

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from dradriver.allocator import Features, Inventory, allocate
from dradriver.allocator.request.matching import WantedDevices
from dradriver.control.pools.ready_pools import ReadyPools
from dradriver.control.scheduler import pipeline
from dradriver.control.scheduler.pipeline import schedule
from dradriver.control.scheduler.snapshot import Plan
from dradriver.model.core.node_selector import NodeSelector
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import ResourceClaim
from dradriver.model.resource.slices import ResourceSlice
from dradriver.testing import builders
from tests.unit.control import extended_pods
from tests.unit.control.extended_pods import NIC, gpu_class, plugin_node
from tests.unit.control.world import World, slow_device

OTHER = "other.example.com"


def a_slice(*names: str, node: str = "", driver: str = builders.DRIVER) -> ResourceSlice:
    """Devices that are ready at once, in a pool of a node."""
    devices = [builders.device(name) for name in names]
    return builders.slice_(*devices, node_name=node, pool=f"{node}-ready", driver=driver)


def cluster(*slices: ResourceSlice) -> World:
    """Three nodes with devices that have to be attached, and what else is given."""
    world = World()
    for number in (1, 2, 3):
        name = f"node-{number}"
        world.add(builders.node(name), builders.slice_(slow_device(), node_name=name))
    world.add(builders.device_class(), *slices)
    world.add(builders.claim(), builders.pod("claim-1"))
    return world


def extended_cluster(asking: Pod, *slices: ResourceSlice) -> World:
    """The same for a pod that asks for extended resources."""
    world = cluster(*slices)
    world.add(gpu_class(), asking)
    return world


def chosen(world: World, monkeypatch: pytest.MonkeyPatch) -> tuple[str, list[str]]:
    """The node, and those on which an allocation was tried."""
    tried: list[str] = []

    def noted(claims: Sequence[ResourceClaim], *rest: Any, **settings: Any) -> Any:
        tried.append(rest[3].name)
        return allocate(claims, *rest, **settings)

    monkeypatch.setattr(pipeline, "allocate", noted)
    plan = schedule(world.pod(), world.snapshot())
    assert isinstance(plan, Plan)
    return plan.node, tried


def test_the_node_that_has_one_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    world = cluster(a_slice("quick", node="node-3"))
    assert chosen(world, monkeypatch) == ("node-3", ["node-1", "node-3"])


def test_the_generation_that_the_node_itself_sees_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a pool that several nodes have slices of, each node sees the newest generation among its own."""
    quick = builders.slice_(builders.device("quick"), node_name="node-3", pool="ready", name="ready-3")
    newer = builders.slice_(slow_device(), node_name="node-1", pool="ready", name="ready-1", generation=2)
    assert chosen(cluster(quick, newer), monkeypatch) == ("node-3", ["node-1", "node-3"])


def test_a_node_is_not_tried_for_devices_that_the_claim_does_not_ask_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = cluster(a_slice("quick", node="node-2", driver=OTHER))
    assert chosen(world, monkeypatch) == ("node-1", ["node-1"])


def test_a_node_is_not_tried_for_devices_that_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    world = cluster(a_slice("quick", node="node-3"))
    other = builders.claim(name="other")
    held = builders.allocated(other, "quick", node_name="node-3-ready")
    world.add(held)
    assert chosen(world, monkeypatch) == ("node-1", ["node-1"])


def test_devices_that_several_nodes_reach_are_looked_at_there(monkeypatch: pytest.MonkeyPatch) -> None:
    ready = a_slice("quick", node="node-2")
    spec = ready.spec
    shared = type(ready)(
        metadata=ready.metadata,
        spec=type(spec)(
            driver=spec.driver,
            pool=spec.pool,
            devices=spec.devices,
            node_selector=NodeSelector.for_node("node-2"),
        ),
    )
    assert chosen(cluster(shared), monkeypatch) == ("node-2", ["node-1", "node-2"])


EXTENDED = [extended_pods.pod(gpu=1), extended_pods.pod(implicit=1), extended_pods.pod(gpu=1, nic=1)]


@pytest.mark.parametrize("asking", EXTENDED, ids=["explicit", "implicit", "beside another resource"])
def test_extended_resources_take_the_node_that_has_one(asking: Pod, monkeypatch: pytest.MonkeyPatch) -> None:
    world = extended_cluster(asking, a_slice("quick", node="node-3"))
    world.nodes = [plugin_node(each.metadata.name, 1, NIC) for each in world.nodes]
    assert chosen(world, monkeypatch) == ("node-3", ["node-1", "node-3"])


def test_a_node_is_not_tried_for_devices_that_no_resource_stands_for(monkeypatch: pytest.MonkeyPatch) -> None:
    world = extended_cluster(extended_pods.pod(gpu=1), a_slice("quick", node="node-2", driver=OTHER))
    assert chosen(world, monkeypatch) == ("node-1", ["node-1"])


@pytest.mark.parametrize("slices", [(), (a_slice("quick", node="node-9"),)], ids=["alone", "others elsewhere"])
def test_a_node_whose_device_plugin_serves_the_pod_is_chosen(
    slices: tuple[ResourceSlice, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = extended_cluster(extended_pods.pod(gpu=2), *slices)
    world.nodes[1:] = [plugin_node("node-2", 1), plugin_node("node-3", 2)]
    world.slices[0] = builders.slice_(slow_device("a"), slow_device("b"), node_name="node-1")
    assert chosen(world, monkeypatch) == ("node-3", ["node-1"])


def test_a_device_plugin_with_too_little_left_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    world = extended_cluster(extended_pods.pod(gpu=1))
    world.nodes[2] = plugin_node("node-3", 1)
    other = extended_pods.pod("other", gpu=1)
    world.add(replace(other, spec=replace(other.spec, node_name="node-3")))
    assert chosen(world, monkeypatch) == ("node-1", ["node-1"])


def test_a_class_that_no_claim_can_ask_for_keeps_no_pod_from_its_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the device plugin of the first node serves it, and devices there serve the rest."""
    world = extended_cluster(extended_pods.pod(gpu=1, nic=1), a_slice("quick", node="node-3"))
    broken = gpu_class("broken", NIC)
    wrong = builders.device_class("broken", "device.").spec.selectors
    world.add(replace(broken, spec=replace(broken.spec, selectors=wrong)))
    world.nodes[0] = plugin_node("node-1", 1, NIC)
    assert chosen(world, monkeypatch)[0] == "node-1"


def test_what_an_earlier_attempt_made_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The special claim that it left says where the devices are that are being attached."""
    world = extended_cluster(extended_pods.pod(gpu=1))
    while not world.claims_of("pod-1") or not world.claims_of("pod-1")[0].results:
        world.take(world.scheduling_step("default/pod-1"))
    world.forget_everything()
    world.add(a_slice("quick", node="node-3"))
    world.nodes[1] = plugin_node("node-2", 1)
    asking = world.pod()
    plan = schedule(asking, world.snapshot(special=world.special_of(asking)))
    assert isinstance(plan, Plan)
    assert plan.node == "node-1"


def test_what_was_found_is_kept_for_claims_of_the_same_kind() -> None:
    ready = ReadyPools.of(Inventory.of([a_slice("quick", node="node-1")]))
    classes = {builders.CLASS: builders.device_class()}
    first = ready.of_use(WantedDevices([builders.claim()], classes, Features()))
    assert list(first) == ["node-1"]
    assert ready.of_use(WantedDevices([builders.claim(name="again")], classes, Features())) is first
    others = builders.claim(builders.device_request(builders.CLASS, 'device.driver == "x"'))
    assert not ready.of_use(WantedDevices([others], classes, Features()))
