"""The victims that another scheduler selected are kept where they give the pod its devices, too."""

from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from dradriver.control.preemption.trimming import trim_victims
from dradriver.control.scheduler.snapshot import NoNode
from dradriver.model.core.node_selector import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import DeviceResult
from dradriver.testing import builders
from tests.unit.control import extended_pods
from tests.unit.control.running_pods import budget, leave, pending, run, with_priority
from tests.unit.control.world import World, cluster


def trimmed(world: World, pod: Pod, victims: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[list[str], int]]:
    by_node = {node: [world.pod(name) for name in names] for node, names in victims.items()}
    kept = trim_victims(pod, world.snapshot(), by_node)
    return {node: ([pod.metadata.name for pod in each.pods], each.violations) for node, each in kept.items()}


def test_victims_that_hold_enough_devices_are_kept_alone() -> None:
    world = cluster(nodes=1, devices=2)
    run(world, "low-1", "device-0")
    run(world, "low-2", "device-1", started=5)
    assert trimmed(world, pending(world), {"node-1": ("low-1",)}) == {"node-1": (["low-1"], 0)}


def test_a_node_with_free_devices_keeps_victims_without_devices() -> None:
    world = cluster(nodes=1)
    run(world, "plain")
    assert trimmed(world, pending(world), {"node-1": ("plain",)}) == {"node-1": (["plain"], 0)}


def test_further_pods_of_the_node_are_evicted_if_devices_are_missing() -> None:
    world = cluster(nodes=1, devices=2)
    run(world, "low-1", "device-0", priority=2, app="web")
    run(world, "low-2", "device-1", priority=3)
    run(world, "plain", priority=1, app="web")
    world.add(budget("web", "web", 1))
    assert trimmed(world, pending(world), {"node-1": ("plain",)}) == {"node-1": (["low-2", "plain"], 0)}
    world.budgets.clear()
    assert trimmed(world, pending(world, name="next"), {"node-1": ("plain",)}) == {
        "node-1": (["low-1", "plain"], 0)
    }


def test_violated_budgets_are_counted_over_all_victims() -> None:
    world = cluster(nodes=1, devices=1)
    run(world, "low", "device-0", app="web")
    run(world, "plain", app="web")
    world.add(budget("web", "web", 1))
    assert trimmed(world, pending(world), {"node-1": ("plain",)}) == {"node-1": (["low", "plain"], 1)}


def test_nodes_on_which_no_eviction_gives_the_pod_its_devices_are_dropped() -> None:
    world = cluster(nodes=2, devices=1)
    run(world, "important", "device-0", priority=10)
    run(world, "plain-1")
    run(world, "low", "device-0", node="node-2")
    run(world, "plain-2", node="node-2")
    found = trimmed(world, pending(world), {"node-1": ("plain-1",), "node-2": ("plain-2",), "gone": ("low",)})
    assert found == {"node-2": (["low", "plain-2"], 0)}


def test_pods_on_other_nodes_are_not_added() -> None:
    """kube-scheduler rejects victims that do not run on the node."""
    world = World()
    anywhere = NodeSelector([NodeSelectorTerm(match_expressions=[NodeSelectorRequirement("fabric", "Exists")])])
    slice_ = builders.slice_(builders.device("memory-0"), pool="shared", node_name="")
    slice_ = replace(slice_, spec=replace(slice_.spec, node_name=None, node_selector=anywhere))
    nodes = [builders.node(name) for name in ("node-1", "node-2")]
    world.add(*[replace(n, metadata=replace(n.metadata, labels={"fabric": "a"})) for n in nodes])
    world.add(builders.device_class(), slice_)
    result = DeviceResult(request="device", driver=builders.DRIVER, pool="shared", device="memory-0")
    run(world, "low", result, node="node-2")
    run(world, "plain-1")
    run(world, "plain-2", node="node-2")
    found = trimmed(world, pending(world), {"node-1": ("plain-1",), "node-2": ("plain-2",)})
    assert found == {"node-2": (["low", "plain-2"], 0)}


def test_a_pod_that_is_leaving_already_is_not_added() -> None:
    world = cluster(nodes=1, devices=2)
    run(world, "low-1", "device-0")
    run(world, "low-2", "device-1")
    run(world, "plain")
    leave(world, "low-1")
    assert trimmed(world, pending(world), {"node-1": ("plain",)}) == {"node-1": (["plain"], 0)}


def test_amounts_of_a_device_plugin_that_victims_use_count_as_free() -> None:
    world = World()
    world.add(extended_pods.plugin_node("node-1", 1), extended_pods.gpu_class())
    low = with_priority(extended_pods.pod("low", gpu=1), 0)
    world.add(replace(low, spec=replace(low.spec, node_name="node-1")))
    high = with_priority(extended_pods.pod("high", gpu=1), 10)
    world.add(high)
    assert trimmed(world, high, {"node-1": ("low",)}) == {"node-1": (["low"], 0)}
    state = world.snapshot().cluster
    assert state.requested.on_node("node-1") == {extended_pods.GPU: 1}


def test_nobody_knows_whether_evictions_help_a_pod_whose_claim_is_missing() -> None:
    world = cluster(nodes=1)
    run(world, "plain")
    with pytest.raises(NoNode, match='resourceclaim "missing" not found'):
        trimmed(world, with_priority(builders.pod("missing"), 10), {"node-1": ("plain",)})


def test_a_pod_whose_claim_is_wrong_keeps_no_node() -> None:
    world = cluster(nodes=1, devices=1)
    run(world, "low", "device-0")
    world.add(builders.claim(builders.device_request("missing"), name="wrong"))
    assert trimmed(world, with_priority(builders.pod("wrong"), 10), {"node-1": ("low",)}) == {}


def test_nodes_that_lack_amounts_of_a_device_plugin_are_dropped() -> None:
    world = World()
    world.add(extended_pods.plugin_node("node-1", 1), extended_pods.gpu_class())
    run(world, "plain")
    high = with_priority(extended_pods.pod("high", gpu=2), 10)
    world.add(high)
    assert trimmed(world, high, {"node-1": ("plain",)}) == {}


def test_nodes_beyond_the_budget_of_work_are_dropped() -> None:
    world = cluster(nodes=1, devices=1)
    run(world, "low", "device-0")
    pod = pending(world)
    world.snapshot().cluster.budget = 0
    assert trimmed(world, pod, {"node-1": ("low",)}) == {}
