"""Which pods are evicted so that a pod of higher priority gets its devices."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from dradriver.allocator import BudgetSpentError
from dradriver.control.preemption.dry_run import select_victims
from dradriver.control.preemption.victims import Victims
from dradriver.control.scheduler.cluster_state import ClusterState
from dradriver.control.scheduler.pipeline import schedule
from dradriver.control.scheduler.snapshot import Plan, Unschedulable
from dradriver.model.core.node_selector import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from dradriver.model.core.workload import PodCondition
from dradriver.model.resource.claim import ConsumerReference, DeviceResult
from dradriver.model.resource.slices import ResourceSlice
from dradriver.testing import builders
from tests.unit.control import extended_pods
from tests.unit.control.running_pods import budget, leave, pending, run, share, victims, with_priority
from tests.unit.control.world import World, cluster


def held(nodes: int = 1, devices: int = 2) -> World:
    """Return a cluster whose devices are all held by pods of priority 0, named `pod-NODE-DEVICE`."""
    world = cluster(nodes=nodes, devices=devices)
    for node in range(1, nodes + 1):
        for device in range(devices):
            run(world, f"pod-{node}-{device}", f"device-{device}", node=f"node-{node}", started=device)
    return world


def test_the_pod_that_started_last_is_evicted_for_one_device() -> None:
    world = held()
    assert victims(world, pending(world)) == ("node-1", ["pod-1-1"])


def test_only_as_many_pods_are_evicted_as_necessary() -> None:
    world = held(devices=3)
    assert victims(world, pending(world, count=2)) == ("node-1", ["pod-1-1", "pod-1-2"])


def test_the_verdict_says_what_happens_next() -> None:
    world = held()
    verdict = schedule(pending(world), world.snapshot(), preempts=True)
    assert isinstance(verdict, Unschedulable)
    _, _, words = verdict.message.partition(" preemption: ")
    assert words == "found a potential placement for pod on node node-1, preempting 1 victims"
    assert verdict.nominated_node == "node-1"


@pytest.mark.parametrize("priority", [0, -1, None])
def test_no_pod_of_equal_or_higher_priority_is_evicted(priority: int | None) -> None:
    world = held()
    assert victims(world, pending(world, priority=priority)) is None


def test_a_pod_that_never_preempts_waits() -> None:
    world = held()
    assert victims(world, pending(world, policy="Never")) is None


def test_a_decision_without_preemption_evicts_no_pod() -> None:
    world = held()
    verdict = schedule(pending(world), world.snapshot())
    assert isinstance(verdict, Unschedulable)
    assert verdict.preemption is None


def test_no_pod_is_evicted_if_the_evictions_do_not_suffice() -> None:
    world = held()
    run(world, "important", "device-1", priority=10)
    assert victims(world, pending(world, count=2)) is None


def test_no_pod_is_evicted_for_a_node_that_other_checks_refuse() -> None:
    world = held()
    world.nodes = [replace(node, spec=replace(node.spec, unschedulable=True)) for node in world.nodes]
    assert victims(world, pending(world)) is None


def test_no_pod_is_evicted_for_a_claim_that_is_wrong_on_every_node() -> None:
    world = held()
    world.add(builders.claim(builders.device_request("missing"), name="wrong"))
    assert victims(world, with_priority(builders.pod("wrong", name="high"), 10)) is None


def test_pods_without_devices_are_not_evicted() -> None:
    world = held()
    run(world, "idle", priority=-1)
    assert victims(world, pending(world)) == ("node-1", ["pod-1-1"])


# --- shared claims ---------------------------------------------------------------------------------


def test_all_pods_of_a_shared_claim_are_evicted() -> None:
    world = cluster(nodes=1, devices=1)
    run(world, "low-1", "device-0", started=1)
    share(world, "low-2", "low-1", priority=1)
    assert victims(world, pending(world)) == ("node-1", ["low-2", "low-1"])


def test_no_pod_is_evicted_for_a_claim_that_a_pod_of_higher_priority_uses_too() -> None:
    world = cluster(nodes=1, devices=1)
    run(world, "low", "device-0")
    share(world, "high-2", "low", priority=10)
    assert victims(world, pending(world)) is None


def test_a_claim_of_a_pod_that_waits_is_not_freed() -> None:
    """A pod without a node, such as one from before a restart, has reserved the claim, too."""
    world = cluster(nodes=1, devices=1)
    run(world, "low", "device-0")
    waiting = share(world, "waiting", "low")
    world.add(replace(waiting, spec=replace(waiting.spec, node_name="")))
    assert victims(world, pending(world)) is None


def test_a_claim_that_a_plan_in_flight_will_reserve_for_a_higher_pod_is_not_freed() -> None:
    world = cluster(nodes=1, devices=1)
    run(world, "low", "device-0")
    other = with_priority(builders.pod("low", name="other"), 10)
    world.add(other)
    plan = schedule(other, world.snapshot())
    assert isinstance(plan, Plan)
    world.plans[other.ref] = plan
    assert victims(world, pending(world)) is None


def test_a_claim_that_the_preempting_pod_uses_too_is_not_freed() -> None:
    """The claim stays allocated for this pod, so its devices would not become free."""
    world = cluster(nodes=1, devices=1)
    run(world, "low", "device-0")
    world.add(builders.claim(name="own"))
    high = with_priority(builders.pod("low", "own", name="high"), 10)
    world.add(high)
    assert victims(world, high) is None


def test_no_pod_is_waited_for_because_it_leaves_a_claim_that_the_preempting_pod_uses_too() -> None:
    world = cluster(nodes=1, devices=2)
    run(world, "shared", "device-0")
    run(world, "low", "device-1")
    leave(world, "shared")
    world.add(builders.claim(name="own"))
    high = with_priority(builders.pod("shared", "own", name="high"), 10)
    world.add(high)
    assert victims(world, high) == ("node-1", ["low"])


@pytest.mark.parametrize(("priority", "expected"), [(9, ("node-1", ["low"])), (10, None), (11, None)])
def test_a_claim_that_a_waiting_pod_names_is_freed_only_if_the_priority_of_this_pod_is_lower(
    priority: int, expected: tuple[str, list[str]] | None
) -> None:
    world = cluster(nodes=1, devices=1)
    run(world, "low", "device-0")
    world.add(with_priority(builders.pod("low", name="waiting"), priority))
    assert victims(world, pending(world)) == expected


def test_an_allocated_claim_without_users_is_not_freed() -> None:
    world = cluster(nodes=1, devices=1)
    world.add(builders.allocated(builders.claim(name="unused"), "device-0"))
    run(world, "idle")
    assert victims(world, pending(world)) is None


def test_a_claim_that_another_kind_of_object_uses_is_not_freed() -> None:
    world = cluster(nodes=1, devices=1)
    run(world, "low", "device-0")
    claim = world.claims["default/low"]
    users = [
        *claim.status.reserved_for,
        ConsumerReference(resource="jobs", name="job", uid="1", api_group="batch"),
    ]
    world.add(replace(claim, status=replace(claim.status, reserved_for=users)))
    assert victims(world, pending(world)) is None


def test_a_pod_whose_plan_is_not_written_yet_is_a_victim() -> None:
    world = cluster(nodes=1, devices=1)
    low = pending(world, priority=0, name="low")
    plan = schedule(low, world.snapshot())
    assert isinstance(plan, Plan)
    world.plans[low.ref] = plan
    assert victims(world, pending(world)) == ("node-1", ["low"])


# --- pods that are leaving -------------------------------------------------------------------------


def test_the_pod_waits_for_a_pod_that_is_leaving_instead_of_evicting_another() -> None:
    world = held()
    leave(world, "pod-1-0")
    assert victims(world, pending(world)) == ("node-1", [])


def test_a_pod_that_is_leaving_counts_whatever_its_priority_is() -> None:
    world = held()
    run(world, "important", "device-0", priority=100)
    del world.pods["default/pod-1-0"], world.claims["default/pod-1-0"]
    leave(world, "important")
    assert victims(world, pending(world)) == ("node-1", [])


def test_a_claim_whose_pod_has_ended_counts_as_leaving() -> None:
    world = held()
    del world.pods["default/pod-1-0"]
    assert victims(world, pending(world)) == ("node-1", [])


def test_only_the_missing_devices_are_freed_by_evictions() -> None:
    world = held(devices=3)
    leave(world, "pod-1-0")
    assert victims(world, pending(world, count=2)) == ("node-1", ["pod-1-2"])


def test_no_more_pods_are_evicted_while_a_victim_is_leaving_the_nominated_node() -> None:
    """A device may be lost while the victim leaves; then the pod decides again when the victim has left."""
    world = held(devices=3)
    leave(world, "pod-1-0")
    target = PodCondition(type="DisruptionTarget", status="True", reason="PreemptionByScheduler")
    world.change("pod-1-0", conditions=[target])
    pod = pending(world, count=3)
    nominated = replace(pod, status=replace(pod.status, nominated_node_name="node-1"))
    assert victims(world, nominated) == ("node-1", [])
    assert victims(world, pod) == ("node-1", ["pod-1-1", "pod-1-2"])


# --- the choice of the node ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param(lambda _: None, ("node-2", ["two"]), id="priority"),
        pytest.param(lambda w: w.add(budget("b", "two", 0)), ("node-1", ["one"]), id="disruption budget"),
        pytest.param(
            lambda w: w.add(budget("b", "two", 0), budget("c", "one", 0)),
            ("node-2", ["two"]),
            id="both violate",
        ),
    ],
)
def test_the_node_is_chosen_by_its_victims(
    change: Callable[[World], None], expected: tuple[str, list[str]]
) -> None:
    world = cluster(nodes=2, devices=1)
    run(world, "one", "device-0", priority=5, app="one")
    run(world, "two", "device-0", node="node-2", priority=4, app="two")
    change(world)
    assert victims(world, pending(world)) == expected


def test_a_pod_that_its_budget_protects_is_spared_although_it_is_less_important() -> None:
    world = cluster(nodes=1, devices=2)
    run(world, "important", "device-0", priority=5)
    run(world, "protected", "device-1", priority=1, app="web")
    world.add(budget("web", "web", 0))
    assert victims(world, pending(world)) == ("node-1", ["important"])


def test_only_the_given_nodes_are_candidates() -> None:
    world = held(nodes=2, devices=1)
    pod = pending(world)
    verdict = schedule(pod, world.snapshot(nodes=("node-2",)), preempts=True)
    assert isinstance(verdict, Unschedulable)
    assert verdict.nominated_node == "node-2"


# --- pools of several nodes, special claims, admin access ------------------------------------------


def shared_pool(*devices: str) -> ResourceSlice:
    made = builders.slice_(*map(builders.device, devices), pool="shared", node_name="")
    everywhere = NodeSelector(
        [NodeSelectorTerm(match_expressions=[NodeSelectorRequirement("fabric", "Exists")])]
    )
    return replace(made, spec=replace(made.spec, node_name=None, node_selector=everywhere))


def test_a_pod_on_another_node_is_evicted_for_a_device_of_a_shared_pool() -> None:
    world = World()
    nodes = [builders.node(f"node-{number}") for number in (1, 2, 3)]
    with_fabric = [replace(n, metadata=replace(n.metadata, labels={"fabric": "a"})) for n in nodes[:2]]
    world.add(*with_fabric, nodes[2], builders.device_class(), shared_pool("memory-0"))
    result = DeviceResult(request="device", driver=builders.DRIVER, pool="shared", device="memory-0")
    run(world, "low", result, node="node-2")
    assert victims(world, pending(world)) == ("node-1", ["low"])


def test_the_pod_of_a_special_claim_is_evicted_and_a_special_claim_is_a_reason_to_evict() -> None:
    world = World()
    world.add(builders.node("node-1"), builders.slice_(builders.device()), extended_pods.gpu_class())
    world.add(with_priority(extended_pods.pod("low", gpu=1), 0))
    world.settle()
    assert world.pod("low").spec.node_name == "node-1"
    high = with_priority(extended_pods.pod("high", gpu=1), 10)
    world.add(high)
    assert victims(world, high) == ("node-1", ["low"])


def test_admin_access_holds_no_device() -> None:
    world = cluster(nodes=1, devices=1)
    admin = DeviceResult(
        request="device", driver=builders.DRIVER, pool="node-1", device="device-0", admin_access=True
    )
    run(world, "low", "device-0")
    run(world, "monitor", admin, priority=-5)
    assert victims(world, pending(world)) == ("node-1", ["low"])


# --- limits ----------------------------------------------------------------------------------------


def test_pods_for_which_no_eviction_helps_are_known_until_a_claim_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = held()
    run(world, "important", "device-1", priority=10)
    calls = []
    monkeypatch.setattr(
        "dradriver.control.preemption.decision.select_victims", lambda *args: calls.append(args)
    )
    for name in ("high-1", "high-2"):
        assert victims(world, pending(world, count=2, name=name)) is None
        assert len(calls) == 1
    del world.claims["default/important"]
    assert victims(world, pending(world, count=2, name="high-3")) is None
    assert len(calls) == 2


def test_pods_with_extended_resources_for_which_no_eviction_helps_are_known_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    world.add(builders.node("node-1"), builders.slice_(builders.device()), extended_pods.gpu_class())
    run(world, "important", "device-0", priority=10)
    run(world, "low")
    calls: list[object] = []
    monkeypatch.setattr(
        "dradriver.control.preemption.decision.select_victims", lambda *args: calls.append(args)
    )
    for name, amount, expected in (("a", 1, 1), ("b", 1, 1), ("c", 2, 2)):
        assert victims(world, with_priority(extended_pods.pod(name, gpu=amount), 5)) is None
        assert len(calls) == expected


def test_a_search_without_a_budget_evicts_no_pod_and_the_next_search_begins_elsewhere() -> None:
    world = held(nodes=3)
    pod = pending(world)
    state = world.snapshot().cluster
    state.budget = 0
    assert victims(world, pod) is None
    state.budget = 250_000
    started = state.next_candidate
    assert started == 1
    assert victims(world, pod) == ("node-1", ["pod-1-1"])


def three_nodes() -> World:
    """Return three nodes. A budget protects the pod of the first; the pod of the last is least important."""
    world = cluster(nodes=3, devices=1)
    for number, priority in enumerate((5, 5, 1), 1):
        run(world, f"low-{number}", "device-0", node=f"node-{number}", priority=priority, app=str(number))
    world.add(budget("first", "1", 0))
    return world


def test_the_search_ends_when_it_found_enough_nodes_and_one_without_a_violation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = three_nodes()
    assert victims(world, pending(world, name="all")) == ("node-3", ["low-3"])
    world.snapshot().cluster.next_candidate = 0
    monkeypatch.setattr("dradriver.control.preemption.decision._MIN_CANDIDATES", 1)
    assert victims(world, pending(world, name="few")) == ("node-2", ["low-2"])


def test_the_best_node_that_was_found_is_chosen_if_the_budget_is_spent(monkeypatch: pytest.MonkeyPatch) -> None:
    world = three_nodes()
    looked_at: list[str] = []

    def select(state: ClusterState, node: str, *arguments: Any) -> Victims | None:
        looked_at.append(node)
        if node == "node-2":
            raise BudgetSpentError
        return select_victims(state, node, *arguments)

    monkeypatch.setattr("dradriver.control.preemption.decision.select_victims", select)
    assert victims(world, pending(world)) == ("node-1", ["low-1"])
    assert looked_at == ["node-1", "node-2"]


def test_the_state_is_unchanged_after_a_decision() -> None:
    world = held(nodes=2)
    pod = pending(world, count=2)
    before = {name: world.snapshot().cluster.placer.holders_on(name) for name in ("node-1", "node-2")}
    victims(world, pod)
    assert {name: world.snapshot().cluster.placer.holders_on(name) for name in before} == before
