"""The tracker computes only what changed, and reports it."""

from datetime import timedelta
from itertools import pairwise

import pytest
from msgspec.structs import replace

from dradriver.model.core.meta import Condition
from dradriver.model.core.node_selector import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from dradriver.model.core.workload import Container, ContainerResources, NodeStatus
from dradriver.model.quantity import Quantity
from dradriver.model.resource.counters import CounterConsumption, CounterSet
from dradriver.model.resource.device import Device
from dradriver.model.resource.slices import ResourceSlice
from dradriver.testing.builders import DRIVER, allocated, claim, node, slice_
from tests.unit.overview.objects import (
    NOW,
    apply,
    health_of,
    holding,
    mig_slices,
    overview,
    pod_of,
    rule,
    tracking,
)

PARTITION = "gpu-0-mig-3g-20gb-0"


def shared_slice(*devices: Device, **fields: object) -> ResourceSlice:
    published = slice_(*devices, pool="shared", name="shared")
    return replace(published, spec=replace(published.spec, node_name=None, **fields))


def selecting(*names: str) -> NodeSelector:
    requirement = NodeSelectorRequirement("kubernetes.io/hostname", "In", names)
    return NodeSelector([NodeSelectorTerm(match_expressions=[requirement])])


def host(name: str) -> object:
    return node(name, **{"kubernetes.io/hostname": name})


def test_an_update_names_only_the_nodes_that_changed() -> None:
    tracker = tracking(*mig_slices("node-1"), *mig_slices("node-2"))
    apply(tracker, None, holding("train", PARTITION, node="node-2"))
    update = tracker.update(NOW)
    assert (update.nodes, update.reaches, update.waiting, update.problems) == (
        frozenset({"node-2"}),
        frozenset(),
        False,
        False,
    )
    assert tracker.overview.nodes["node-2"].cards[0].listed[0].claims == ("default/train",)


def test_nothing_is_reported_if_nothing_changed() -> None:
    held = holding("train", PARTITION)
    tracker = tracking(*mig_slices(), held)
    apply(tracker, held, replace(held, metadata=replace(held.metadata, resource_version="2")))
    assert not tracker.update(NOW)


def test_changes_before_the_first_update_are_no_news() -> None:
    tracker = tracking(*mig_slices(), node("node-1"), holding("train", PARTITION))
    assert tracker.overview.changes == ()


def test_an_allocation_and_its_end_are_news() -> None:
    pending, held = claim(name="train"), holding("train", PARTITION)
    tracker = tracking(*mig_slices(), pending)
    apply(tracker, pending, held)
    assert [each.text for each in tracker.update(NOW).changes] == [
        f"claim default/train got {PARTITION} on node-1"
    ]
    apply(tracker, held, None)
    assert [(each.text, each.node) for each in tracker.update(NOW).changes] == [
        (f"claim default/train released {PARTITION} on node-1", "node-1")
    ]
    assert len(tracker.overview.changes) == 2


def test_taints_and_their_end_are_news() -> None:
    tracker = tracking(*mig_slices())
    drain = rule("drain", "repair:NoSchedule", device=PARTITION)
    apply(tracker, None, drain)
    (change,) = tracker.update(NOW).changes
    assert change.text == f"{PARTITION} of pool gpu.nvidia.com/node-1: tainted repair:NoSchedule"
    assert change.is_problem
    apply(tracker, drain, None)
    (change,) = tracker.update(NOW).changes
    assert "no longer tainted" in change.text
    assert not change.is_problem


def test_a_device_that_becomes_unhealthy_and_healthy_is_news() -> None:
    resource = f"gpu.nvidia.com/node-1/{PARTITION}"
    pods = [
        pod_of("train", containerStatuses=[health_of("train", **{resource: word})])
        for word in ("Healthy", "Unhealthy", "Healthy")
    ]
    tracker = tracking(*mig_slices(), holding("train", PARTITION), pods[0])
    texts = []
    for old, new in pairwise(pods):
        apply(tracker, old, new)
        texts += [(change.text.rpartition(" ")[2], change.is_problem) for change in tracker.update(NOW).changes]
    assert texts == [("unhealthy", True), ("healthy", False)]


def test_a_node_that_is_not_ready_is_news() -> None:
    ready = node("node-1")
    broken = replace(ready, status=NodeStatus(conditions=[Condition(type="Ready", status="False")]))
    tracker = tracking(*mig_slices(), ready)
    apply(tracker, ready, broken)
    update = tracker.update(NOW)
    assert [change.text for change in update.changes] == ["node node-1 is not ready or cordoned"]
    assert not tracker.overview.nodes["node-1"].is_ready


def test_a_node_without_an_object_is_ready_only_while_no_node_is_known() -> None:
    tracker = tracking(*mig_slices("node-1"))
    assert tracker.overview.nodes["node-1"].is_ready
    apply(tracker, None, node("node-2"))
    assert tracker.update(NOW).nodes == {"node-1"}
    assert not tracker.overview.nodes["node-1"].is_ready


def test_pools_that_are_published_broken_and_removed_are_news() -> None:
    tracker = tracking()
    whole, part = slice_(Device("a")), slice_(Device("a"), count=2)
    texts = []
    for old, new in ((None, whole), (whole, part), (part, whole), (whole, None)):
        apply(tracker, old, new)
        texts += [change.text for change in tracker.update(NOW).changes]
    assert texts == [
        f"pool {DRIVER}/node-1 was published: 1 device",
        f"pool {DRIVER}/node-1: incomplete: 1 of 2 slices",
        f"pool {DRIVER}/node-1 can be used again",
        f"pool {DRIVER}/node-1 is gone",
    ]
    assert tracker.overview.nodes == {}


def test_old_changes_are_forgotten() -> None:
    tracker = tracking(*mig_slices())
    apply(tracker, None, holding("train", PARTITION))
    tracker.update(NOW)
    tracker.update(NOW + timedelta(minutes=16))
    assert tracker.overview.changes == ()


def test_a_large_load_can_be_divided() -> None:
    tracker = tracking()
    for number in range(5):
        apply(tracker, None, slice_(Device("a"), node_name=f"node-{number}"))
    first = tracker.update(NOW, max_pools=3)
    assert (first.is_complete, len(first.nodes)) == (False, 3)
    both = first.then(tracker.update(NOW, max_pools=3))
    assert (both.is_complete, len(both.nodes)) == (True, 5)
    assert list(tracker.overview.nodes) == sorted(both.nodes)


def test_a_pool_of_a_selector_is_reached_by_the_nodes_that_match() -> None:
    published = shared_slice(Device("a"), node_selector=selecting("node-1", "node-3"))
    tracker = tracking(published, *map(host, ("node-1", "node-2", "node-3")))
    (reach,) = tracker.overview.reaches
    assert (reach.nodes, reach.is_everywhere, reach.device_nodes) == (("node-1", "node-3"), False, {})
    assert tracker.overview.nodes == {}
    apply(tracker, host("node-3"), None)
    update = tracker.update(NOW)
    assert update.reaches == {(DRIVER, "shared")}
    assert tracker.overview.reaches[0].nodes == ("node-1",)


def test_devices_that_only_some_nodes_reach_name_these_nodes() -> None:
    devices = (
        Device("all", node_selector=selecting("node-1", "node-2")),
        Device("half", node_selector=selecting("node-2")),
    )
    shown = overview(shared_slice(*devices, per_device_node_selection=True), *map(host, ("node-1", "node-2")))
    (reach,) = shown.reaches
    assert (reach.nodes, reach.device_nodes) == (("node-1", "node-2"), {"half": ("node-2",)})


def test_a_pool_for_all_nodes_is_everywhere() -> None:
    tracker = tracking(shared_slice(Device("a"), all_nodes=True), host("node-1"))
    apply(tracker, None, host("node-2"))
    tracker.update(NOW)
    (reach,) = tracker.overview.reaches
    assert (reach.nodes, reach.is_everywhere) == (("node-1", "node-2"), True)


def test_a_pod_waits_with_the_reason_of_the_scheduler() -> None:
    unmet = {"type": "PodScheduled", "status": "False", "message": "0/2 nodes: no GPU"}
    pending = pod_of("train", phase="Pending", conditions=[unmet])
    tracker = tracking(claim(name="train"), pending)
    (waiting,) = tracker.overview.waiting
    assert (waiting.kind, waiting.ref, waiting.reason) == ("Pod", "default/train-0", "0/2 nodes: no GPU")
    apply(tracker, pending, pod_of("train", phase="Running"))
    assert tracker.update(NOW).waiting
    assert tracker.overview.waiting == ()


@pytest.mark.parametrize(
    ("resource", "waits"),
    [("example.com/gpu", True), ("deviceclass.resource.kubernetes.io/gpu", True), ("memory", False)],
)
def test_a_pod_that_requests_an_extended_resource_waits_before_it_has_a_claim(
    resource: str, waits: bool
) -> None:
    container = Container(name="main", resources=ContainerResources(requests={resource: Quantity("1")}))
    pending = pod_of(name="train", phase="Pending")
    pending = replace(pending, spec=replace(pending.spec, containers=[container]))
    assert [each.ref for each in overview(pending).waiting] == ["default/train"] * waits


def test_times_without_a_zone_are_utc() -> None:
    zoned, plain = (
        replace(each, metadata=replace(each.metadata, creation_timestamp=created))
        for each, created in (
            (claim(name="zoned"), NOW),
            (claim(name="plain"), (NOW - timedelta(hours=1)).replace(tzinfo=None)),
        )
    )
    assert [each.ref for each in overview(zoned, plain).waiting] == ["default/plain", "default/zoned"]


def test_a_device_that_consumes_a_counter_set_twice_breaks_its_pool() -> None:
    twice = [CounterConsumption("set", {"memory": 1})] * 2
    counters = slice_(counter_sets=[CounterSet("set", {"memory": 4})], name="counters", count=2)
    shown = overview(counters, slice_(Device("a", consumes_counters=twice), name="devices", count=2))
    assert "'set' is consumed twice" in shown.problems[0].problem
    assert shown.nodes["node-1"].cards == ()


def test_problems_follow_their_pools() -> None:
    broken, whole = slice_(Device("a"), count=2), slice_(Device("a"))
    tracker = tracking(broken)
    assert [each.node for each in tracker.overview.problems] == ["node-1"]
    apply(tracker, broken, whole)
    assert tracker.update(NOW).problems
    assert tracker.overview.problems == ()


def test_a_claim_waits_if_no_pod_uses_it() -> None:
    pending = claim(name="lonely")
    tracker = tracking(*mig_slices(), pending)
    (waiting,) = tracker.overview.waiting
    assert (waiting.kind, waiting.ref) == ("ResourceClaim", "default/lonely")
    apply(tracker, pending, allocated(pending, "a"))
    assert tracker.update(NOW).waiting
    assert tracker.overview.waiting == ()
