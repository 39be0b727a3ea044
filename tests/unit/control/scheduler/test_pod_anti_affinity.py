"""Required anti-affinity between pods, as kube-scheduler has it: in both directions, by a node label."""

from typing import Any

import pytest

from dradriver.control.scheduler.pipeline import schedule
from dradriver.control.scheduler.pod_anti_affinity import refusal
from dradriver.control.scheduler.snapshot import Plan, Snapshot
from dradriver.model.core.workload import Pod
from dradriver.model.encoding.codec import from_builtins
from dradriver.testing import builders
from tests.unit.control.world import World

HOST = "kubernetes.io/hostname"
OWN = "node(s) didn't match pod anti-affinity rules"
THEIRS = "node(s) didn't satisfy existing pods anti-affinity rules"
NODES = [
    builders.node("a-1", **{HOST: "a-1", "zone": "a"}),
    builders.node("a-2", **{HOST: "a-2", "zone": "a"}),
    builders.node("b-1", **{HOST: "b-1", "zone": "b"}),
    builders.node("bare"),
]


def pod(app: str, away_from: str = "", namespace: str = "default", **term: Any) -> Pod:
    body: dict[str, Any] = {"metadata": {"name": app, "namespace": namespace, "labels": {"app": app}}}
    if away_from:
        selector = {"labelSelector": {"matchLabels": {"app": away_from}}, "topologyKey": HOST}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": [selector | term]}
        body["spec"] = {"affinity": {"podAntiAffinity": required}}
    return from_builtins(Pod, body, "pod")


def refusals(wanted: Pod, **placed: Pod) -> list[str | None]:
    pods = {name.replace("_", "-"): [each] for name, each in placed.items()}
    snapshot = Snapshot(NODES, {}, {}, World().snapshot().inventory, pods=pods)
    return [refusal(wanted, node, snapshot) for node in NODES]


def test_a_pod_stays_off_the_node_of_one_that_it_keeps_away_from() -> None:
    assert refusals(pod("x", away_from="x"), a_1=pod("x")) == [OWN, None, None, None]


def test_a_pod_stays_off_the_node_of_one_that_keeps_away_from_it() -> None:
    assert refusals(pod("x"), a_1=pod("y", away_from="x")) == [THEIRS, None, None, None]


def test_how_near_is_near_is_a_label_of_the_nodes() -> None:
    assert refusals(pod("x", away_from="x", topologyKey="zone"), a_1=pod("x")) == [OWN, OWN, None, None]


def test_a_node_without_the_label_is_near_no_other() -> None:
    assert refusals(pod("x", away_from="x"), bare=pod("x")) == [None] * 4


def test_pods_with_other_labels_do_not_count() -> None:
    assert refusals(pod("x", away_from="x"), a_1=pod("y"), a_2=pod("z", away_from="y")) == [None] * 4


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        ({}, None),
        ({"namespaces": ["other"]}, OWN),
        ({"namespaceSelector": {}}, OWN),
        ({"labelSelector": None}, None),
    ],
)
def test_without_namespaces_a_term_means_the_pods_own(term: dict[str, Any], expected: str | None) -> None:
    assert refusals(pod("x", away_from="x", **term), a_1=pod("x", namespace="other"))[0] == expected


def test_two_pods_that_keep_their_distance_are_planned_for_two_nodes() -> None:
    world = World(nodes=NODES[:2])
    first = schedule(pod("x", away_from="x"), world.snapshot())
    assert isinstance(first, Plan)
    second = schedule(pod("x", away_from="x"), world.snapshot(pods={first.node: [pod("x", away_from="x")]}))
    assert isinstance(second, Plan)
    assert {first.node, second.node} == {"a-1", "a-2"}
