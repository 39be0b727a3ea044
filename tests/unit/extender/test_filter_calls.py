"""The records of `filter` are complete, small, and removed with the pod."""

from msgspec.structs import replace

from dradriver.extender.filter_calls import FilterCalls
from dradriver.model.core.workload import PodStatus
from dradriver.testing import builders

NOMINATED = replace(builders.pod(name="a"), status=PodStatus(nominated_node_name="node-1"))


def test_a_call_about_the_nominated_node_alone_is_followed_by_one_about_all_nodes() -> None:
    calls = FilterCalls()
    assert calls.begin("default/a", NOMINATED, ["node-1"])
    calls.expect_all_nodes("default/a")
    assert not calls.begin("default/a", NOMINATED, ["node-1"]), "no other node passed kube-scheduler's filters"
    assert calls.begin("default/a", NOMINATED, ["node-1"]), "the next attempt"
    assert not calls.begin("default/a", NOMINATED, ["node-1", "node-2"])
    assert not calls.begin("default/b", builders.pod(name="b"), ["node-1"])


def test_no_second_call_follows_if_the_nominated_node_suits() -> None:
    calls = FilterCalls()
    assert calls.begin("default/a", NOMINATED, ["node-1"])
    assert calls.begin("default/a", NOMINATED, ["node-1"])


def test_pods_that_exclude_the_same_nodes_share_one_set() -> None:
    calls = FilterCalls()
    for key in ("default/a", "default/b"):
        calls.exclude(key, {"node-1", "node-2"})
    assert calls.excluded("default/a") is calls.excluded("default/b")
    calls.exclude("default/a", {"node-1"})
    assert (calls.excluded("default/a"), calls.excluded("default/b")) == ({"node-1"}, {"node-1", "node-2"})


def test_nothing_is_left_of_a_forgotten_pod() -> None:
    calls = FilterCalls()
    calls.expect_all_nodes("default/a")
    calls.refuse("default/a", "0/1 nodes are available")
    calls.exclude("default/a", {"node-1"})
    calls.forget("default/a")
    assert (calls.refusal("default/a"), calls.excluded("default/a")) == ("", None)
    assert not any(vars(calls).values())
