"""What decisions read, and what they keep until the cluster changes."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from dradriver.control.claims.pod_claims import consumer_of
from dradriver.control.scheduler.cluster_state import ClusterState, NodesByPods
from dradriver.control.scheduler.node_choice.refusals import NodeRefusals
from dradriver.model.core.meta import Condition, ObjectMeta
from dradriver.model.core.workload import NodeSpec, NodeStatus, PodStatus
from dradriver.model.resource.device import Taint
from dradriver.model.resource.taint_rule import DeviceTaintRule, DeviceTaintRuleSpec, DeviceTaintSelector
from dradriver.testing import builders
from tests.unit.control.running_pods import budget

NODE, SLICE, CLASS = builders.node(), builders.slice_(builders.device()), builders.device_class()
CLAIM = builders.allocated(builders.claim(), "device-0")
RULE = DeviceTaintRule(
    metadata=ObjectMeta(name="rule"),
    spec=DeviceTaintRuleSpec(
        taint=Taint(key="example.com/broken", effect="NoSchedule"), device_selector=DeviceTaintSelector()
    ),
)
HEARTBEAT = NodeStatus(conditions=[Condition(type="Ready", status="True", message="again")])


def state() -> ClusterState:
    """Return a state with a node with one device, which a claim holds."""
    made = ClusterState()
    made.put_node(NODE)
    made.put_slice(SLICE)
    made.put_class(CLASS)
    made.put_claim(CLAIM)
    return made


def taints(made: ClusterState) -> list[str]:
    ((pool, _),) = made.placer.pools_on("node-1")
    return [taint.key for device in pool.devices for taint in device.device.taints]


def test_rules_taint_devices_of_earlier_and_later_slices() -> None:
    made = state()
    made.put_rule(RULE)
    assert taints(made) == ["example.com/broken"]
    made.put_slice(builders.slice_(builders.device(), builders.device("device-1")))
    assert taints(made) == ["example.com/broken"] * 2
    made.remove_rule("rule")
    assert taints(made) == []


def test_nodes_are_ordered_by_pods_and_then_by_name() -> None:
    nodes = NodesByPods()
    for name, pods in (("b", 0), ("a", 0), ("c", 2), ("b", 1)):
        nodes.put(name, pods)
    assert list(nodes) == ["a", "b", "c"]
    nodes.put("a", 3)
    nodes.remove("c")
    nodes.remove("unknown")
    assert list(nodes) == ["b", "a"]


@pytest.mark.parametrize(
    ("change", "is_kept"),
    [
        (lambda made: made.put_node(replace(NODE, status=HEARTBEAT)), True),
        (lambda made: made.put_node(replace(NODE, spec=NodeSpec(unschedulable=True))), False),
        (lambda made: made.put_node(builders.node("node-2")), False),
        (lambda made: made.put_claim(builders.claim(name="waiting")), True),
        (lambda made: made.put_claim(CLAIM), True),
        (lambda made: made.put_claim(builders.claim()), False),
        (lambda made: made.remove_claim(CLAIM.ref), False),
        (lambda made: made.remove_claim("default/waiting"), True),
        (lambda made: made.put_pod(builders.pod(), "node-1"), True),
        (lambda made: made.put_slice(SLICE), True),
        (lambda made: made.put_slice(builders.slice_(builders.device(), node_name="node-2")), False),
        (lambda made: made.put_rule(RULE), False),
        (lambda made: made.set_unserved({}), False),
        (lambda made: made.put_class(builders.device_class("other")), False),
    ],
)
def test_refusals_are_kept_until_they_may_change(change: Callable[[ClusterState], None], is_kept: bool) -> None:
    made = state()
    made.refusals.add("kind", refusals := NodeRefusals((), {}, [], is_undecided=False))
    change(made)
    assert made.refusals.find("kind") == (refusals if is_kept else None)


USED = replace(builders.pod("claim-1"), spec=replace(builders.pod("claim-1").spec, node_name="node-1"))


@pytest.mark.parametrize(
    ("change", "is_known"),
    [
        (lambda made: made.put_pod(USED, "node-1"), True),
        (lambda made: made.put_pod(builders.pod(name="plain"), "node-1"), True),
        (lambda made: made.put_claim(builders.claim(name="waiting")), True),
        (lambda made: made.put_pod(builders.pod("claim-1", name="pod-2"), ""), True),
        (lambda made: made.put_pod(builders.pod("claim-1", name="pod-2"), "node-1"), False),
        (lambda made: made.put_pod(replace(USED, spec=replace(USED.spec, priority=1)), "node-1"), False),
        (lambda made: made.remove_pod(USED.ref), False),
        (lambda made: made.put_node(builders.node("node-2")), False),
        (
            lambda made: made.put_claim(
                replace(CLAIM, status=replace(CLAIM.status, reserved_for=[consumer_of(USED)]))
            ),
            False,
        ),
    ],
)
def test_it_is_known_that_no_eviction_helps_until_a_user_of_a_claim_changes(
    change: Callable[[ClusterState], None], is_known: bool
) -> None:
    made = state()
    made.put_pod(USED, "node-1")
    made.refusals.add_hopeless("kind")
    change(made)
    assert made.refusals.is_hopeless("kind") == is_known


def test_the_lowest_priority_is_that_of_pods_on_nodes() -> None:
    made = state()
    low = replace(USED, spec=replace(USED.spec, priority=-5))
    made.put_pod(USED, "")
    assert made.lowest_priority > 1_000_000_000
    made.put_pod(USED, "node-1")
    assert made.lowest_priority == 0
    made.put_pod(low, "node-1")
    assert made.lowest_priority == -5
    assert (made.find_pod(USED.ref), made.node_of(USED.ref)) == (low, "node-1")
    assert list(made.users_of(CLAIM.ref)) == [USED.ref]
    made.remove_pod(USED.ref)
    assert (made.find_pod(USED.ref), made.node_of(USED.ref)) == (None, "")
    assert list(made.users_of(CLAIM.ref)) == []


def test_the_users_of_a_claim_are_the_pods_with_and_without_a_node() -> None:
    made = state()
    waiting = builders.pod("claim-1", name="waiting")
    made.put_pod(USED, "node-1")
    made.put_pod(waiting)
    assert list(made.users_of(CLAIM.ref)) == [USED.ref, waiting.ref]
    made.put_pod(waiting, "node-1")
    made.put_pod(USED)
    assert sorted(made.users_of(CLAIM.ref)) == sorted([USED.ref, waiting.ref])
    made.remove_pod(USED.ref)
    assert list(made.users_of(CLAIM.ref)) == [waiting.ref]
    made.remove_pod(waiting.ref)
    assert not made.users_of(CLAIM.ref)


def test_budgets_and_nominated_pods_are_known_until_they_are_removed() -> None:
    made = state()
    made.put_budget(protecting := budget("web", "web", 1))
    waiting = replace(builders.pod(name="waiting"), status=PodStatus(nominated_node_name="node-1"))
    made.put_pod(waiting)
    assert (list(made.budgets.values()), list(made.nominated.values())) == ([protecting], [waiting])
    made.remove_budget(protecting.ref)
    made.remove_budget("default/unknown")
    made.put_pod(waiting, "node-1")
    assert not made.budgets
    assert not made.nominated
