"""KEP-5007, Goals: devices without binding conditions are preferred, on whichever node they are."""

import pytest
from msgspec.structs import replace

from dradriver.control.scheduler.pipeline import schedule
from dradriver.control.scheduler.snapshot import Plan
from dradriver.model.core.node_selector import NodeSelector
from dradriver.model.core.workload import Pod
from dradriver.model.resource.slices import ResourceSlice
from dradriver.testing import builders
from tests.unit.control import extended_pods
from tests.unit.control.extended_pods import NIC, gpu_class, plugin_node
from tests.unit.control.world import World, slow_device

OTHER = "other.example.com"


def a_slice(*names: str, node: str = "", driver: str = builders.DRIVER) -> ResourceSlice:
    """Return a slice of a node with devices that are ready at once."""
    devices = [builders.device(name) for name in names]
    return builders.slice_(*devices, node_name=node, pool=f"{node}-ready", driver=driver)


def cluster(*slices: ResourceSlice) -> World:
    """Return three nodes with devices that have to be attached, and the given slices."""
    world = World()
    for number in (1, 2, 3):
        name = f"node-{number}"
        world.add(builders.node(name), builders.slice_(slow_device(), node_name=name))
    world.add(builders.device_class(), *slices)
    world.add(builders.claim(), builders.pod("claim-1"))
    return world


def extended_cluster(pod: Pod, *slices: ResourceSlice) -> World:
    """Return the same cluster with a pod that requests extended resources."""
    world = cluster(*slices)
    world.add(gpu_class(), pod)
    return world


def chosen(world: World) -> str:
    """Return the chosen node."""
    plan = schedule(world.pod(), world.snapshot())
    assert isinstance(plan, Plan)
    return plan.node


def test_the_node_with_a_ready_device_is_chosen() -> None:
    world = cluster(a_slice("quick", node="node-3"))
    assert chosen(world) == "node-3"


def test_the_newest_generation_that_the_node_reaches_counts() -> None:
    """Of a pool that several nodes have slices of, each node sees the newest generation among its own."""
    quick = builders.slice_(builders.device("quick"), node_name="node-3", pool="ready", name="ready-3")
    newer = builders.slice_(slow_device(), node_name="node-1", pool="ready", name="ready-1", generation=2)
    assert chosen(cluster(quick, newer)) == "node-3"


def test_ready_devices_that_do_not_match_are_ignored() -> None:
    world = cluster(a_slice("quick", node="node-2", driver=OTHER))
    assert chosen(world) == "node-1"


def test_ready_devices_in_use_are_ignored() -> None:
    world = cluster(a_slice("quick", node="node-3"))
    other = builders.claim(name="other")
    held = builders.allocated(other, "quick", node_name="node-3-ready")
    world.add(held)
    assert chosen(world) == "node-1"


def test_a_node_that_reaches_a_shared_ready_device_is_chosen() -> None:
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
    assert chosen(cluster(shared)) == "node-2"


EXTENDED = [extended_pods.pod(gpu=1), extended_pods.pod(implicit=1), extended_pods.pod(gpu=1, nic=1)]


@pytest.mark.parametrize("pod", EXTENDED, ids=["explicit", "implicit", "beside another resource"])
def test_extended_resources_use_a_node_with_a_ready_device(pod: Pod) -> None:
    world = extended_cluster(pod, a_slice("quick", node="node-3"))
    world.nodes = [plugin_node(each.metadata.name, 1, NIC) for each in world.nodes]
    assert chosen(world) == "node-3"


def test_ready_devices_of_other_resources_are_ignored() -> None:
    world = extended_cluster(extended_pods.pod(gpu=1), a_slice("quick", node="node-2", driver=OTHER))
    assert chosen(world) == "node-1"


@pytest.mark.parametrize("slices", [(), (a_slice("quick", node="node-9"),)], ids=["alone", "others elsewhere"])
def test_a_node_whose_device_plugin_serves_the_pod_is_chosen(slices: tuple[ResourceSlice, ...]) -> None:
    world = extended_cluster(extended_pods.pod(gpu=2), *slices)
    world.nodes[1:] = [plugin_node("node-2", 1), plugin_node("node-3", 2)]
    world.slices[0] = builders.slice_(slow_device("a"), slow_device("b"), node_name="node-1")
    assert chosen(world) == "node-3"


def test_a_device_plugin_without_enough_capacity_is_skipped() -> None:
    world = extended_cluster(extended_pods.pod(gpu=1))
    world.nodes[2] = plugin_node("node-3", 1)
    other = extended_pods.pod("other", gpu=1)
    world.add(replace(other, spec=replace(other.spec, node_name="node-3")))
    assert chosen(world) == "node-1"


def test_an_invalid_class_does_not_exclude_a_node_without_need_for_it() -> None:
    """Only the device plugin of the first node serves it, and devices there serve the rest."""
    world = extended_cluster(extended_pods.pod(gpu=1, nic=1), a_slice("quick", node="node-3"))
    broken = gpu_class("broken", NIC)
    wrong = builders.device_class("broken", "device.").spec.selectors
    world.add(replace(broken, spec=replace(broken.spec, selectors=wrong)))
    world.nodes[0] = plugin_node("node-1", 1, NIC)
    assert chosen(world) == "node-1"


def test_the_pod_waits_for_the_devices_of_its_leftover_claim() -> None:
    """The leftover claim names the devices that are being attached."""
    world = extended_cluster(extended_pods.pod(gpu=1))
    while not world.claims_of("pod-1") or not world.claims_of("pod-1")[0].results:
        world.carry_out(world.scheduling_step("default/pod-1"))
    world.crash()
    world.add(a_slice("quick", node="node-3"))
    world.nodes[1] = plugin_node("node-2", 1)
    pod = world.pod()
    plan = schedule(pod, world.snapshot(leftovers=world.special_of(pod)))
    assert isinstance(plan, Plan)
    assert plan.node == "node-1"
