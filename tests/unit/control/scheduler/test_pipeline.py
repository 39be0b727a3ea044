"""The scheduling pipeline: PreEnqueue, PreFilter, Filter, PostFilter, Score."""

from typing import Any

import pytest
from msgspec.structs import replace

from dradriver.allocator.placement import Placer
from dradriver.control.claims.pod_claims import consumer_of
from dradriver.control.conflicts.double_allocations import DoubleAllocation
from dradriver.control.runtime.actions import Release
from dradriver.control.scheduler.pipeline import schedule
from dradriver.control.scheduler.snapshot import Plan, Unschedulable
from dradriver.model.core.meta import Condition
from dradriver.model.core.node_selector import NodeSelector
from dradriver.model.core.workload import (
    Affinity,
    Node,
    NodeAffinity,
    NodeSpec,
    NodeStatus,
    NodeTaint,
    Pod,
    Toleration,
)
from dradriver.model.resource.claim import ConsumerReference, DeviceSubRequest
from dradriver.model.resource.counters import CounterConsumption
from dradriver.model.resource.device import Device
from dradriver.testing import builders
from tests.unit.control.world import NOW, UNDECIDED_TEXT, World, cluster, give_up


def planned(world: World, pod: Pod, **changes: Any) -> Plan:
    verdict = schedule(pod, world.snapshot(**changes))
    assert isinstance(verdict, Plan), verdict
    return verdict


def refused(world: World, pod: Pod, **changes: Any) -> Unschedulable:
    verdict = schedule(pod, world.snapshot(**changes))
    assert isinstance(verdict, Unschedulable), verdict
    return verdict


def with_claim(world: World) -> Pod:
    world.add(builders.claim())
    return builders.pod("claim-1")


def test_a_pod_without_claims_gets_a_node() -> None:
    assert planned(cluster(), builders.pod()).allocations == {}


def test_an_unallocated_claim_is_allocated_on_the_chosen_node() -> None:
    w = cluster()
    pod = with_claim(w)
    plan = planned(w, pod)
    (allocation,) = plan.allocations.values()
    assert [str(r.id) for r in allocation.devices.results] == ["driver.example.com/node-1/device-0"]
    assert allocation.node_selector == NodeSelector.for_node("node-1")


def test_the_allocation_has_a_timestamp() -> None:
    w = cluster()
    (allocation,) = planned(w, with_claim(w), now=NOW).allocations.values()
    assert allocation.allocation_timestamp == NOW


def test_pods_are_spread_and_equal_nodes_are_ordered_by_name() -> None:
    w = cluster(nodes=3)
    assert planned(w, builders.pod()).node == "node-1"
    for name in ("node-1", "node-2"):
        pod = builders.pod(name=f"on-{name}")
        w.add(replace(pod, spec=replace(pod.spec, node_name=name)))
    assert planned(w, builders.pod()).node == "node-3"


def test_a_node_that_serves_the_first_alternative_is_preferred() -> None:
    w = World()
    w.add(builders.node("node-1"), builders.node("node-2"), builders.device_class())
    w.add(builders.slice_(builders.device("small"), node_name="node-1"))
    w.add(builders.slice_(builders.device("large", {"large": True}), node_name="node-2"))
    large = builders.device_request(
        builders.CLASS,
        'has(device.attributes["driver.example.com"].large) && device.attributes["driver.example.com"].large',
    ).exactly
    assert large is not None
    alternatives = [
        DeviceSubRequest(name="large", device_class_name=builders.CLASS, selectors=large.selectors),
        DeviceSubRequest(name="any", device_class_name=builders.CLASS),
    ]
    w.add(builders.claim(replace(builders.device_request(), exactly=None, first_available=alternatives)))
    assert planned(w, builders.pod("claim-1")).node == "node-2"


def test_an_allocated_claim_ties_the_pod_to_the_nodes_of_the_allocation() -> None:
    w = cluster()
    w.add(builders.allocated(builders.claim(), "device-1", node_name="node-2"))
    plan = planned(w, builders.pod("claim-1"))
    assert plan.node == "node-2"
    assert plan.allocations == {}


def test_an_unallocated_claim_is_allocated_on_the_node_of_the_allocated_claim() -> None:
    w = cluster()
    w.add(builders.allocated(builders.claim(), "device-1", node_name="node-2"), builders.claim(name="claim-2"))
    plan = planned(w, builders.pod("claim-1", "claim-2"))
    assert plan.node == "node-2"
    assert set(plan.allocations) == {w.claims["default/claim-2"].metadata.uid}


def test_devices_of_plans_in_flight_are_in_use() -> None:
    """Reserve: two pods in flight never get one device."""
    w = cluster(nodes=1, devices=2)
    w.add(builders.claim(), builders.claim(name="claim-2"), builders.claim(name="claim-3"))
    for number in (1, 2):
        pod = builders.pod(f"claim-{number}", name=f"pod-{number}")
        w.plans[pod.ref] = planned(w, pod)
    assumed = [r.id for p in w.plans.values() for a in p.allocations.values() for r in a.devices.results]
    assert len(set(assumed)) == 2
    assert "cannot allocate all claims" in refused(w, builders.pod("claim-3", name="pod-3")).message


def test_a_pod_waits_for_a_claim_that_is_being_allocated() -> None:
    w = cluster()
    pod = with_claim(w)
    w.plans[pod.ref] = planned(w, pod)
    verdict = refused(w, builders.pod("claim-1", name="pod-2"))
    assert "is in the process of being allocated" in verdict.message
    assert verdict.quiet


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (NodeSpec(unschedulable=True), "node(s) were unschedulable"),
        (
            NodeSpec(taints=[NodeTaint(key="k", value="v", effect="NoSchedule")]),
            "node(s) had untolerated taint(s)",
        ),
        (
            NodeSpec(taints=[NodeTaint(key="k", value="v", effect="NoExecute")]),
            "node(s) had untolerated taint(s)",
        ),
    ],
)
def test_cordoned_and_tainted_nodes_are_excluded(spec: NodeSpec, words: str) -> None:
    w = World(nodes=[replace(builders.node(), spec=spec)])
    assert refused(w, builders.pod()).message == f"0/1 nodes are available: 1 {words}."
    tolerant = replace(builders.pod().spec, tolerations=[Toleration(operator="Exists")])
    assert planned(w, replace(builders.pod(), spec=tolerant)).node == "node-1"


def test_prefer_no_schedule_does_not_exclude_a_node() -> None:
    spec = NodeSpec(taints=[NodeTaint(key="k", effect="PreferNoSchedule")])
    assert planned(World(nodes=[replace(builders.node(), spec=spec)]), builders.pod()).node == "node-1"


@pytest.mark.parametrize("ready", ["False", "Unknown"])
def test_a_node_that_is_not_ready_is_excluded(ready: str) -> None:
    status = NodeStatus(conditions=[Condition(type="Ready", status=ready)])
    w = World(nodes=[replace(builders.node(), status=status)])
    assert refused(w, builders.pod()).message == "0/1 nodes are available: 1 node(s) were not ready."


def _affinity(pod: Pod, name: str) -> Pod:
    affinity = NodeAffinity(required_during_scheduling_ignored_during_execution=NodeSelector.for_node(name))
    return replace(pod, spec=replace(pod.spec, affinity=Affinity(node_affinity=affinity)))


def test_node_selector_and_required_affinity_choose_the_node() -> None:
    w = World(nodes=[builders.node("node-1"), builders.node("node-2", disk="ssd")])
    pod = builders.pod()
    assert planned(w, replace(pod, spec=replace(pod.spec, node_selector={"disk": "ssd"}))).node == "node-2"
    assert planned(w, _affinity(pod, "node-2")).node == "node-2"
    words = "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector."
    assert refused(w, _affinity(pod, "node-3")).message == words


def test_the_message_counts_nodes_by_reason() -> None:
    w = cluster(nodes=3, devices=0)
    w.nodes[0] = replace(w.nodes[0], spec=NodeSpec(unschedulable=True))
    message = refused(w, with_claim(w)).message
    assert message.startswith("0/3 nodes are available: ")
    assert "1 node(s) were unschedulable" in message
    assert "2 cannot allocate all claims" in message


def test_the_message_has_the_reason_and_counts_equal_nodes_together() -> None:
    w = cluster(nodes=2)
    w.add(builders.claim(builders.device_request(builders.CLASS, "false")))
    place = "claim default/claim-1, request device"
    why = "1 device is needed, 0 can be used; 2 devices: selector 1 of the request is false"
    message = refused(w, builders.pod("claim-1")).message
    assert message == f"0/2 nodes are available: 2 cannot allocate all claims: {place}: {why}."


def test_the_message_of_many_nodes_stays_short() -> None:
    w = World()
    w.add(builders.device_class(), builders.claim(builders.device_request(count=30)))
    for number in range(1, 20):
        devices = (builders.device(f"device-{n}") for n in range(number))
        w.add(builders.node(f"node-{number}"), builders.slice_(*devices, node_name=f"node-{number}"))
    message = refused(w, builders.pod("claim-1")).message
    assert message.startswith("0/19 nodes are available: 1 cannot allocate all claims: claim default/claim-1")
    assert message.endswith(", 15 node(s) for other reasons.")
    assert len(message) < 1024


def test_the_message_always_contains_an_invalid_pool() -> None:
    """KEP-4815, Risks: if no node fits, the error of an invalid pool is in the pod's status."""
    w = World()
    w.add(builders.device_class(), builders.claim(builders.device_request(count=30)))
    for number in range(1, 9):
        devices = (builders.device(f"device-{n}") for n in range((number + 1) // 2))
        w.add(builders.node(f"node-{number}"), builders.slice_(*devices, node_name=f"node-{number}"))
    broken = Device("device-0", consumes_counters=[CounterConsumption("missing", {"memory": 1})])
    w.add(builders.node("node-9"), builders.slice_(broken, node_name="node-9"))
    message = refused(w, builders.pod("claim-1")).message
    assert "the pool has no counter set 'missing'" in message
    assert message.startswith("0/9 nodes are available: 1 cannot allocate all claims")
    assert message.endswith(", 2 node(s) for other reasons.")


def test_without_nodes_the_message_is_that_of_kubernetes() -> None:
    assert refused(World(), builders.pod()).message == "no nodes available to schedule pods"


def test_a_claim_that_no_node_can_serve_is_not_tried_node_by_node() -> None:
    w = cluster(nodes=2)
    w.add(builders.claim(builders.device_request("nowhere")))
    message = refused(w, builders.pod("claim-1")).message
    words = "claim default/claim-1, request device: device class nowhere does not exist"
    assert message == f"0/2 nodes are available: {words}."


@pytest.mark.parametrize(
    ("pod", "words", "quiet"),
    [
        (builders.pod("missing"), 'resourceclaim "missing" not found', False),
        (builders.pod(templates=["template"]), "ResourceClaim not created yet", True),
    ],
)
def test_a_pod_waits_for_its_claims(pod: Pod, words: str, quiet: bool) -> None:
    verdict = refused(cluster(), pod)
    assert words in verdict.message
    assert verdict.quiet is quiet


def test_a_claim_that_is_being_deleted_cannot_be_used() -> None:
    w = cluster()
    claim = builders.claim()
    w.add(replace(claim, metadata=replace(claim.metadata, deletion_timestamp=NOW)))
    assert 'resourceclaim "claim-1" is being deleted' in refused(w, builders.pod("claim-1")).message


def test_a_claim_with_the_maximum_of_consumers_cannot_be_used() -> None:
    w = cluster()
    claim = builders.allocated(builders.claim(), "device-0")
    consumers = [ConsumerReference(resource="pods", name=f"p-{i}", uid=f"u-{i}") for i in range(256)]
    w.add(replace(claim, status=replace(claim.status, reserved_for=consumers)))
    assert "resourceclaim in use" in refused(w, builders.pod("claim-1")).message


def test_a_pod_waits_if_its_claim_must_give_way_to_another_claim_and_releases_it() -> None:
    w, pod = cluster(), builders.pod("claim-1")
    claim = builders.allocated(builders.claim(), "device-0")
    claim = replace(claim, status=replace(claim.status, reserved_for=[consumer_of(pod)]))
    w.add(claim)
    conflict = DoubleAllocation("device d", "default/other")
    verdict = refused(w, pod, conflicts={claim.metadata.uid: conflict})
    assert f"resourceclaim default/claim-1: {conflict}" in verdict.message
    assert verdict.releases == (Release(claim, deallocate=True),)
    assert planned(w, pod).node == "node-1", "without the conflict, the pod uses the allocation"


def test_a_gated_pod_waits() -> None:
    pod = builders.pod()
    gated = replace(pod, spec=replace(pod.spec, scheduling_gates=[{"name": "example.com/wait"}]))
    assert refused(cluster(), gated).reason == "SchedulingGated"


def cordoned(node: Node) -> Node:
    return replace(node, spec=NodeSpec(unschedulable=True))


def test_an_allocation_that_no_other_pod_uses_is_reverted_when_its_node_is_unavailable() -> None:
    """PostFilter; otherwise a pod whose claim was allocated before a crash could hang forever."""
    w = cluster()
    w.add(builders.claim(), builders.pod("claim-1"))
    for _ in ("finalizer", "allocation"):
        action = w.scheduling_step("default/pod-1").action
        assert action is not None
        w.apply(action)
    assert w.claims["default/claim-1"].allocation is not None
    w.plans.clear()
    w.nodes[0] = cordoned(w.nodes[0])
    w.settle()
    assert w.pod().spec.node_name == "node-2"


def test_an_allocation_that_another_pod_uses_is_kept() -> None:
    w = cluster()
    claim = builders.allocated(builders.claim(), "device-0")
    other = ConsumerReference(resource="pods", name="other", uid="other")
    w.add(replace(claim, status=replace(claim.status, reserved_for=[other])))
    w.nodes[0] = cordoned(w.nodes[0])
    verdict = refused(w, builders.pod("claim-1"))
    assert verdict.releases == ()
    assert "1 resourceclaim not available on the node" in verdict.message


def test_an_undecided_allocation_has_its_own_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Placer, "place", give_up)
    w = cluster(nodes=1)
    verdict = refused(w, with_claim(w))
    assert verdict.reason == "AllocationUndecided"
    assert UNDECIDED_TEXT in verdict.message
