"""Required anti-affinity between pods, in both directions, as in kube-scheduler."""

from typing import Any

import pytest

from dradriver.control.scheduler.node_choice.node_filters import check_pod_anti_affinity
from dradriver.control.scheduler.pipeline import schedule
from dradriver.control.scheduler.snapshot import Plan
from dradriver.model.core.workload import Pod
from dradriver.model.encoding.codec import from_builtins
from dradriver.testing import builders
from tests.unit.control.world import World

HOST = "kubernetes.io/hostname"
OWN = "node(s) didn't match pod anti-affinity rules"
EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"
NODES = [
    builders.node("a-1", **{HOST: "a-1", "zone": "a"}),
    builders.node("a-2", **{HOST: "a-2", "zone": "a"}),
    builders.node("b-1", **{HOST: "b-1", "zone": "b"}),
    builders.node("bare"),
]


def pod(app: str, avoids: str = "", namespace: str = "default", **term: Any) -> Pod:
    body: dict[str, Any] = {"metadata": {"name": app, "namespace": namespace, "labels": {"app": app}}}
    if avoids:
        selector = {"labelSelector": {"matchLabels": {"app": avoids}}, "topologyKey": HOST}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": [selector | term]}
        body["spec"] = {"affinity": {"podAntiAffinity": required}}
    return from_builtins(Pod, body, "pod")


def refusals(wanted: Pod, **placed: Pod) -> list[str | None]:
    pods = {name.replace("_", "-"): [each] for name, each in placed.items()}
    return [check_pod_anti_affinity(wanted, node, NODES, lambda name: pods.get(name, [])) for node in NODES]


def test_the_anti_affinity_of_the_pod_excludes_a_node() -> None:
    assert refusals(pod("x", avoids="x"), a_1=pod("x")) == [OWN, None, None, None]


def test_the_anti_affinity_of_a_running_pod_excludes_its_node() -> None:
    assert refusals(pod("x"), a_1=pod("y", avoids="x")) == [EXISTING, None, None, None]


def test_nodes_with_the_same_topology_value_are_excluded() -> None:
    assert refusals(pod("x", avoids="x", topologyKey="zone"), a_1=pod("x")) == [OWN, OWN, None, None]


def test_a_node_without_the_topology_key_is_not_excluded() -> None:
    assert refusals(pod("x", avoids="x"), bare=pod("x")) == [None] * 4


def test_pods_with_other_labels_do_not_count() -> None:
    assert refusals(pod("x", avoids="x"), a_1=pod("y"), a_2=pod("z", avoids="y")) == [None] * 4


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        ({}, None),
        ({"namespaces": ["other"]}, OWN),
        ({"namespaceSelector": {}}, OWN),
        ({"labelSelector": None}, None),
    ],
)
def test_by_default_a_term_selects_the_namespace_of_the_pod(term: dict[str, Any], expected: str | None) -> None:
    assert refusals(pod("x", avoids="x", **term), a_1=pod("x", namespace="other"))[0] == expected


def test_two_pods_with_anti_affinity_get_two_nodes() -> None:
    world = World(nodes=NODES[:2])
    world.add(pod("x", avoids="x"))
    first = schedule(world.pod("x"), world.snapshot())
    assert isinstance(first, Plan)
    world.plans["default/x"] = first
    second = schedule(pod("x", avoids="x"), world.snapshot())
    assert isinstance(second, Plan)
    assert {first.node, second.node} == {"a-1", "a-2"}
