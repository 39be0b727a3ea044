"""Findings of `dradriver explain` and `validate` about extended resources (KEP-5004)."""

from datetime import timedelta

from dradriver.control.extended import ClassesByResource
from dradriver.control.extended.findings import class_findings, pod_findings, serving_nodes
from dradriver.testing import builders
from tests.unit.control.extended_pods import GPU, NIC, gpu_class, plugin_node, pod
from tests.unit.control.world import NOW

CLASSES = ClassesByResource.of([gpu_class("gpu"), gpu_class("nic", NIC)])


def test_a_class_name_that_is_too_long_for_an_implicit_name_is_reported() -> None:
    ((name, problem),) = class_findings([gpu_class("x" * 64, None), gpu_class("y" * 63, None)])
    assert name == "x" * 64
    assert "must be at most 63 characters, has 64" in str(problem)
    assert "set spec.extendedResourceName" in str(problem)


def test_a_class_with_an_extended_resource_name_needs_no_implicit_name() -> None:
    assert not list(class_findings([gpu_class("x" * 64)]))


def test_a_class_that_does_not_serve_its_extended_resource_name_is_reported() -> None:
    newer = gpu_class("newer", created=NOW + timedelta(days=1))
    ((name, problem),) = class_findings([newer, gpu_class("older")])
    assert name == "older"
    assert str(problem).startswith(f"spec.extendedResourceName: {GPU} is served by class newer")


def test_a_pod_that_needs_too_many_devices_is_reported() -> None:
    (problem,) = pod_findings(pod(gpu=33), CLASSES)
    assert "33 devices: a claim must have at most 32: only a node with a device plugin" in str(problem)


def test_a_container_with_several_resources_that_classes_serve_is_reported() -> None:
    (problem,) = pod_findings(pod(gpu=1, nic=1), CLASSES)
    assert problem.path == "spec.containers[0].resources"
    assert f"requests 2 resources that classes serve ({GPU}, {NIC})" in problem.rule


def test_an_ordinary_pod_has_no_findings() -> None:
    assert not list(pod_findings(pod(gpu=2, cpu=1), CLASSES))


def test_the_sources_of_a_resource_are_listed_by_node() -> None:
    nodes = [plugin_node("plugin", 1), builders.node("dra"), plugin_node("both", 1)]
    reached = {("gpu", "dra"): 2, ("gpu", "both"): 1}
    assert list(serving_nodes(pod(gpu=1), CLASSES, nodes, reached)) == [
        f"{GPU}: 1, from device plugins on plugin, both or devices of class gpu on dra",
        f"both: has a device plugin for {GPU} and devices of class gpu: only the plugin's devices count",
    ]


def test_a_resource_without_a_source_is_reported() -> None:
    assert list(serving_nodes(pod(nic=1), ClassesByResource(), [builders.node("a")], {})) == [
        f"{NIC}: 1: no node has it, and no class serves it"
    ]
