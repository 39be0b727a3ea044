"""`dradriver simulate` shows on which nodes and with which devices pods would be placed."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from msgspec.structs import replace

from dradriver.allocator import Features
from dradriver.cli.attempt import AttemptSettings, gate_hints
from dradriver.cluster.apiserver.kinds.gates import DEFAULTS, FeatureGates
from dradriver.model.core.meta import ObjectMeta
from dradriver.model.core.workload import (
    Container,
    ContainerResources,
    NodeSpec,
    NodeStatus,
    NodeTaint,
    Pod,
    PodSpec,
)
from dradriver.model.quantity import Quantity
from dradriver.model.resource.claim import (
    ClaimSpec,
    DeviceConstraint,
    DeviceRequests,
    ResourceClaimTemplate,
    ResourceClaimTemplateSpec,
)
from dradriver.model.resource.counters import CounterConsumption, CounterSet
from dradriver.model.resource.device import Device
from dradriver.testing.builders import (
    allocated,
    claim,
    device,
    device_class,
    device_request,
    node,
    pod,
    slice_,
)
from tests.unit.cli.worlds import a100, listed

Command = Callable[..., Result]

POOL = slice_(device("gpu-0"), device("gpu-1"))
CLASS = device_class()
MIG = device_class("gpu.nvidia.com")
RESOURCE = "example.com/gpu"
SERVING = replace(CLASS, spec=replace(CLASS.spec, extended_resource_name=RESOURCE))
TAINTED = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceTaintRule",
    "metadata": {"name": "rule"},
    "spec": {
        "deviceSelector": {"device": "gpu-0"},
        "taint": {"key": "broken", "effect": "NoSchedule"},
    },
}


def simulate(dradriver: Command, *objects: object, options: Sequence[str] = ()) -> dict[str, Any]:
    result = dradriver("simulate", "-o", "json", "-f", "-", *options, stdin=listed(*objects))
    assert result.exit_code in {0, 1}, result.output
    document: dict[str, Any] = json.loads(result.stdout)
    assert result.exit_code == bool(document["unschedulable"] or document["unallocated"])
    return document


def devices(document: dict[str, Any]) -> dict[str, list[str]]:
    """By pod the devices that its claims get."""
    return {
        name: [result["device"] for claim in each["claims"].values() for result in claim["devices"]["results"]]
        for name, each in document["placements"].items()
    }


def asking(name: str) -> Pod:
    """A pod that asks for one of the extended resource."""
    resources = ContainerResources(requests={RESOURCE: Quantity("1")})
    return replace(pod(name=name), spec=PodSpec(containers=[Container(name="main", resources=resources)]))


def pairs(count: int) -> list[object]:
    """Pods of one claim each, pod-0 with claim-0 and so on."""
    return [
        each for i in range(count) for each in (claim(name=f"claim-{i}"), pod(f"claim-{i}", name=f"pod-{i}"))
    ]


def test_pods_get_devices_in_order_and_an_allocation_counts_for_later_pods(
    dradriver: Command,
) -> None:
    report = simulate(dradriver, POOL, CLASS, *pairs(3))
    assert devices(report) == {"pod-0": ["gpu-0"], "pod-1": ["gpu-1"]}
    (reason,) = report["unschedulable"]["pod-2"]
    assert reason.startswith("node-1: cannot allocate all claims: claim default/claim-2, request device: ")
    assert "2 devices: in use by other claims" in reason
    assert report["undecided"] == []


def test_the_allocation_has_the_form_of_the_status(dradriver: Command) -> None:
    report = simulate(dradriver, POOL, CLASS, *pairs(1))
    (result,) = report["placements"]["pod-0"]["claims"]["claim-0"]["devices"]["results"]
    assert result == {
        "request": "device",
        "driver": "driver.example.com",
        "pool": "node-1",
        "device": "gpu-0",
    }
    (term,) = report["placements"]["pod-0"]["claims"]["claim-0"]["nodeSelector"]["nodeSelectorTerms"]
    assert term == {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]}


def test_the_time_of_allocation_is_reported_without_loading(dradriver: Command) -> None:
    report = simulate(dradriver, POOL, CLASS, *pairs(3))
    assert report["seconds"] > 0
    assert report["pods_per_second"] == pytest.approx(3 / report["seconds"], rel=0.1)
    assert 0 < report["p50_ms"] <= report["p99_ms"] <= report["seconds"] * 1000 + 0.01


def test_ordered_takes_the_first_node_by_name_that_fits(dradriver: Command) -> None:
    slices = [slice_(device("gpu-0"), node_name=name) for name in ("node-b", "node-a")]
    nodes = [node(name) for name in ("node-b", "node-a", "node-0")]
    report = simulate(dradriver, *nodes, *slices, CLASS, *pairs(2))
    assert [each["node"] for each in report["placements"].values()] == ["node-a", "node-b"]


def test_packed_takes_the_smallest_device(dradriver: Command) -> None:
    objects = (*reversed(a100()), MIG, claim(device_request("gpu.nvidia.com")), pod("claim-1"))
    (chosen,) = devices(simulate(dradriver, *objects, options=["--order", "packed"]))["pod-1"]
    assert chosen.startswith("gpu-0-mig-1g-5gb-")


def test_the_report_has_the_largest_devices_that_still_fit(dradriver: Command) -> None:
    """One of two GPUs without partitions is in use."""
    (pool,) = simulate(dradriver, POOL, CLASS, *pairs(1))["largest_devices"]
    assert pool == {
        "driver": "driver.example.com",
        "pool": "node-1",
        "node": "node-1",
        "size": 100,
        "devices": ["gpu-1"],
    }


def test_names_in_other_namespaces_have_their_namespace(dradriver: Command) -> None:
    there = (claim(name="mine", namespace="team"), pod("mine", name="pod", namespace="team"))
    report = simulate(dradriver, POOL, CLASS, *there, claim(name="mine"), pod("mine", name="pod"))
    assert set(report["placements"]) == {"team/pod", "pod"}
    assert set(report["placements"]["team/pod"]["claims"]) == {"mine"}


def test_objects_without_a_namespace_are_in_the_default_one(dradriver: Command) -> None:
    bare = [replace(each, metadata=replace(each.metadata, namespace="")) for each in (claim(), pod("claim-1"))]
    assert devices(simulate(dradriver, POOL, CLASS, *bare)) == {"pod-1": ["gpu-0"]}


def test_devices_of_allocated_claims_are_in_use(dradriver: Command) -> None:
    held = allocated(claim(name="held"), "gpu-0")
    report = simulate(dradriver, POOL, CLASS, held, claim(name="new"), pod("new"))
    assert devices(report) == {"pod-1": ["gpu-1"]}


def test_a_pod_with_an_allocated_claim_is_placed_where_the_claim_is_usable(dradriver: Command) -> None:
    held = allocated(claim(name="held"), "gpu-0")
    nodes = (node("node-0"), node("node-1"))
    report = simulate(dradriver, *nodes, POOL, CLASS, held, pod("held"))
    assert report["placements"]["pod-1"]["node"] == "node-1"


def test_pods_share_a_claim(dradriver: Command) -> None:
    report = simulate(dradriver, POOL, CLASS, claim(), pod("claim-1", name="a"), pod("claim-1", name="b"))
    assert devices(report) == {"a": ["gpu-0"], "b": ["gpu-0"]}


def test_claims_are_created_from_templates(dradriver: Command) -> None:
    spec = ClaimSpec(DeviceRequests(requests=[device_request()]))
    template = ResourceClaimTemplate(
        api_version="resource.k8s.io/v1",
        kind="ResourceClaimTemplate",
        metadata=ObjectMeta(name="one-gpu"),
        spec=ResourceClaimTemplateSpec(spec=spec),
    )
    pods = [pod(templates=["one-gpu"], name=name) for name in ("a", "b")]
    report = simulate(dradriver, POOL, CLASS, template, *pods)
    assert devices(report) == {"a": ["gpu-0"], "b": ["gpu-1"]}
    assert set(report["placements"]["a"]["claims"]) == {"a-template-0"}


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (pod("gone"), "claim default/gone does not exist"),
        (pod(templates=["gone"]), "claim template default/gone does not exist"),
        (
            replace(pod(), spec=PodSpec(scheduling_gates=[{"name": "wait"}])),
            "the pod has scheduling gates",
        ),
        (pod("claim-1", node_name="node-2"), "node-1: the pod has spec.nodeName node-2"),
        (
            replace(pod(), spec=PodSpec(node_selector={"zone": "a"})),
            "node-1, node-2: node(s) didn't match Pod's node affinity/selector",
        ),
    ],
)
def test_a_pod_that_is_not_placed_has_a_reason(dradriver: Command, broken: object, reason: str) -> None:
    report = simulate(dradriver, node("node-1"), node("node-2"), POOL, CLASS, claim(), broken)
    assert reason in report["unschedulable"]["pod-1"]


def test_taints_of_nodes_keep_pods_away(dradriver: Command) -> None:
    tainted = replace(node("node-1"), spec=NodeSpec(taints=[NodeTaint(key="a", effect="NoSchedule")]))
    report = simulate(dradriver, tainted, POOL, CLASS, *pairs(1))
    assert report["unschedulable"]["pod-0"] == ["node-1: node(s) had untolerated taint(s)"]


def test_taint_rules_keep_claims_from_devices(dradriver: Command) -> None:
    assert devices(simulate(dradriver, POOL, CLASS, TAINTED, *pairs(1))) == {"pod-0": ["gpu-1"]}


def test_extended_resources_are_served_by_device_plugins_and_by_devices(dradriver: Command) -> None:
    plugin = replace(node("node-2"), status=NodeStatus(allocatable={RESOURCE: Quantity("1")}))
    report = simulate(dradriver, node("node-1"), plugin, POOL, SERVING, *map(asking, "abcd"))
    assert {name: each["node"] for name, each in report["placements"].items()} == {
        "a": "node-1",
        "b": "node-1",
        "c": "node-2",
    }
    assert devices(report) == {"a": ["gpu-0"], "b": ["gpu-1"], "c": []}
    assert f"node-2: Insufficient {RESOURCE}" in report["unschedulable"]["d"]


@pytest.mark.parametrize("order", ["ordered", "packed"])
@pytest.mark.parametrize("plugin", [True, False])
def test_a_node_without_binding_conditions_is_preferred(
    dradriver: Command, order: str, *, plugin: bool
) -> None:
    slow = Device("slow", binding_conditions=["attached"], binding_failure_conditions=["failed"])
    nodes, slices = [node("node-1"), node("node-2")], [slice_(slow, node_name="node-1")]
    if plugin:
        nodes[1] = replace(nodes[1], status=NodeStatus(allocatable={RESOURCE: Quantity("1")}))
    else:
        slices.append(slice_(device("quick"), node_name="node-2"))
    objects = (*nodes, *slices, SERVING, asking("a"), asking("b"))
    report = simulate(dradriver, *objects, options=["--order", order])
    assert {name: each["node"] for name, each in report["placements"].items()} == {"a": "node-2", "b": "node-1"}


@pytest.mark.parametrize("command", ["simulate", "explain"])
def test_allocatable_is_capacity_by_default(dradriver: Command, command: str) -> None:
    """The API server copies it there too (`SetDefaults_NodeStatus`)."""
    amounts = {RESOURCE: "1"}
    raw = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-2"}}
    options = ("simulate",) if command == "simulate" else ("explain", "pod", "a")
    for status, fits in (
        ({"capacity": amounts}, True),
        ({"capacity": amounts, "allocatable": amounts}, True),
        ({"capacity": amounts, "allocatable": {RESOURCE: "0"}}, False),
    ):
        report = dradriver(*options, "-f", "-", stdin=listed({**raw, "status": status}, asking("a")))
        assert (f"Insufficient {RESOURCE}" not in report.output) is fits, report.output


def test_nodes_with_the_same_result_form_a_group(dradriver: Command) -> None:
    nodes = [node(f"node-{number}") for number in range(1, 10)]
    slices = [slice_(device("gpu-0"), node_name=each.metadata.name) for each in nodes]
    wanted = claim(device_request(count=2))
    (reason,) = simulate(dradriver, *nodes, *slices, CLASS, wanted, pod("claim-1"))["unschedulable"]["pod-1"]
    assert reason.startswith("9 nodes (node-1, node-2, node-3, node-4 and 5 more): cannot allocate all claims")


def test_a_claim_that_no_pod_uses_is_allocated_by_itself(dradriver: Command) -> None:
    report = simulate(dradriver, POOL, CLASS, claim(device_request(count=2)), claim(name="late"))
    assert (report["placements"], report["claims"]["claim-1"]["node"]) == ({}, "node-1")
    assert list(report["unallocated"]) == ["late"]


def test_feature_gates_decide_which_features_apply(dradriver: Command) -> None:
    grouped = Device("gpu-0", consumes_counters=[CounterConsumption("set", {"memory": 1}, ["mig"])])
    counters = slice_(counter_sets=[CounterSet("set", {"memory": 1})], count=2, name="slice-0")
    objects = (counters, slice_(grouped, count=2, name="slice-1"), CLASS, *pairs(1))
    assert devices(simulate(dradriver, *objects)) == {}
    gates = ("--feature-gates", "DRADeviceCompatibilityGroups=true")
    assert devices(simulate(dradriver, *objects, options=gates)) == {"pod-0": ["gpu-0"]}


def test_a_gate_that_is_off_switches_off_the_gates_that_need_it(dradriver: Command) -> None:
    """As for the API server and the scheduler of `dradriver up`."""
    waits = Device("gpu-0", binding_conditions=["attached"], binding_failure_conditions=["failed"])
    objects = (slice_(waits), CLASS, *pairs(1))
    assert devices(simulate(dradriver, *objects)) == {"pod-0": ["gpu-0"]}
    gates = ("--feature-gates", "DRAResourceClaimDeviceStatus=false")
    assert devices(simulate(dradriver, *objects, options=gates)) == {}


@pytest.mark.parametrize("gate", sorted({*DEFAULTS} - {"DynamicResourceAllocation"}))
def test_a_gate_has_the_same_effect_as_in_the_scheduler_of_up(gate: str) -> None:
    gates = FeatureGates({gate: False})
    chosen = AttemptSettings.of("ordered", f"{gate}=false", 1)
    assert chosen.features == Features.of_gates({each: gates.enabled(each) for each in DEFAULTS})
    assert chosen.taint_rules is gates.enabled("DRADeviceTaintRules")


@pytest.mark.parametrize("gates", ["DRADeviceTaintRules=false", "DRADeviceTaints=false"])
def test_taint_rules_have_no_effect_while_their_gate_is_off(dradriver: Command, gates: str) -> None:
    options = ("--feature-gates", gates)
    assert devices(simulate(dradriver, POOL, CLASS, TAINTED, *pairs(1), options=options)) == {
        "pod-0": ["gpu-0"]
    }


def test_devices_serve_no_extended_resource_while_the_gate_is_off(dradriver: Command) -> None:
    """KEP-5004: node-2 has a device plugin, whose resource is not a matter of the gate."""
    plugin = replace(node("node-2"), status=NodeStatus(allocatable={RESOURCE: Quantity("1")}))
    objects = (node("node-1"), plugin, POOL, SERVING, asking("a"), asking("b"))
    report = simulate(dradriver, *objects, options=("--feature-gates", "DRAExtendedResource=false"))
    assert {name: each["node"] for name, each in report["placements"].items()} == {"a": "node-2"}
    assert report["unschedulable"] == {"b": [f"node-1, node-2: Insufficient {RESOURCE}"]}


def test_the_result_is_undecided_when_the_budget_is_spent(dradriver: Command) -> None:
    alike = [DeviceConstraint(match_attribute="driver.example.com/numa")]
    pool = slice_(device("gpu-0", {"numa": 0}), device("gpu-1", {"numa": 0}))
    wanted = claim(device_request(count=2), constraints=alike)
    report = simulate(dradriver, pool, CLASS, wanted, pod("claim-1"), options=["--budget", "0.01"])
    (reason,) = report["unschedulable"]["pod-1"]
    assert "cannot decide within 0.01 ms of work" in reason
    assert report["undecided"] == ["pod-1"]


def test_without_slices_the_hint_is_the_command_that_writes_them(dradriver: Command) -> None:
    (hint,) = simulate(dradriver, CLASS, *pairs(1))["hints"]
    assert "no ResourceSlice" in hint
    assert "kubectl get resourceslices -o yaml > slices.yaml" in hint
    assert simulate(dradriver, POOL, CLASS, *pairs(3))["hints"] == []


def test_the_table_has_lines_and_a_drawing(dradriver: Command) -> None:
    profile = "device.attributes['gpu.nvidia.com'].profile == '4g.20gb'"
    objects = listed(*a100(), MIG, claim(device_request("gpu.nvidia.com", profile)), pod("claim-1"))
    result = dradriver("simulate", "--draw", "-f", "-", stdin=objects)
    lines = result.stdout.splitlines()
    assert lines[:2] == [
        "pod pod-1: node node-1",
        "  claim claim-1, request device: gpu.nvidia.com/node-1/gpu-0-mig-4g-20gb-0",
    ]
    assert "  A  gpu-0-mig-4g-20gb-0  claim default/claim-1  pod default/pod-1" in lines
    assert result.stderr.startswith("1 pod(s): 1 placed, 0 unschedulable; loaded in ")


@pytest.mark.parametrize(
    ("objects", "options", "code", "error"),
    [
        ((POOL, CLASS), [], 2, "Error: the files have no Pod that is not finished and no ResourceClaim"),
        ((POOL, *pairs(1)), ["--feature-gates", "Typo=true"], 2, "Error: feature gate 'Typo' is unknown"),
        (
            (POOL, *pairs(1)),
            ["--feature-gates", "DynamicResourceAllocation=false"],
            2,
            "Error: feature gate DynamicResourceAllocation is always on",
        ),
        (
            (pod("a"), pod("b")),
            [],
            1,
            "Error: <stdin>: document 1 (Pod pod-1): metadata.name: ",
        ),
        (
            ({"kind": "Pod", "metadata": {}},),
            [],
            1,
            "Error: <stdin>: document 1 (Pod): metadata.name: is",
        ),
        (
            ({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": 1},),
            [],
            1,
            "Error: <stdin>: document 1 (Pod a): spec: Expected `object`, got `int`",
        ),
    ],
)
def test_errors_are_one_line(
    dradriver: Command, objects: Sequence[object], options: Sequence[str], code: int, error: str
) -> None:
    result = dradriver("simulate", "-f", "-", *options, stdin=listed(*objects))
    assert (result.exit_code, result.stdout) == (code, "")
    assert result.stderr.startswith(error)
    assert result.stderr.count("\n") == 1


RULE = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceTaintRule",
    "metadata": {"name": "node-1-gpu.example.com"},
    "spec": {"taint": {"key": "broken", "effect": "NoSchedule"}},
}


@pytest.mark.parametrize("given", [POOL, RULE, CLASS, node("node-1"), claim(name="claim-1")])
def test_two_objects_of_one_kind_and_name_are_rejected(dradriver: Command, given: object) -> None:
    """The second would silently replace the first: a slice the devices, a rule the taint."""
    result = dradriver("simulate", "-f", "-", stdin=listed(given, *pairs(1)[1:], given))
    assert (result.exit_code, result.stdout) == (1, "")
    assert "metadata.name: duplicate name " in result.stderr


@pytest.mark.parametrize("given", [POOL, CLASS])
def test_an_object_without_a_name_is_rejected(dradriver: Command, given: Any) -> None:
    nameless = replace(given, metadata=ObjectMeta())
    result = dradriver("simulate", "-f", "-", stdin=listed(nameless, *pairs(1)))
    assert result.exit_code == 1
    assert result.stderr.endswith(": metadata.name: is missing\n")


def test_a_missing_file_is_one_line(dradriver: Command) -> None:
    result = dradriver("simulate", "-f", "/no/such/file")
    assert (result.exit_code, result.stderr) == (1, "Error: /no/such/file: No such file or directory\n")


def test_the_option_that_is_missing_is_named_once(dradriver: Command) -> None:
    """A hint follows the pods, because the reasons of many pods have one cause."""
    file = str(Path(__file__).parents[4] / "examples/keps/5963-foo-bar-baz.yaml")
    result = dradriver("simulate", "-f", file)
    lines = result.stdout.splitlines()
    assert "incomplete" not in result.stdout
    assert "is unusable: devices have compatibility groups" in lines[1]
    option = "--feature-gates DRADeviceCompatibilityGroups=true"
    assert [line for line in lines if option in line] == lines[-1:]
    assert lines[-1] == f"hint: if DRADeviceCompatibilityGroups is on in the cluster, add {option}"
    with_option = dradriver("simulate", "-f", file, *option.split())
    assert "hint" not in with_option.stdout
    assert "pod pod-a: node node-1" in with_option.stdout


def test_several_gates_are_one_option(dradriver: Command) -> None:
    pool = slice_(replace(device("gpu-0"), binding_conditions=["ready"], binding_failure_conditions=["failed"]))
    gates = "DRADeviceBindingConditions=false,DRADeviceCompatibilityGroups=false"
    report = simulate(dradriver, pool, CLASS, *pairs(1), options=["--feature-gates", gates])
    assert report["hints"] == [
        "if DRADeviceBindingConditions is on in the cluster, add "
        "--feature-gates DRADeviceBindingConditions=true"
    ]
    assert list(gate_hints(["B", "A", "B"])) == [
        "if A and B are on in the cluster, add --feature-gates A=true,B=true"
    ]


def test_html_draws_the_devices_before_and_after_and_lists_the_results(dradriver: Command) -> None:
    path = Path(__file__).parents[4] / "examples/keps/4815-gpu-partitions.yaml"
    result = dradriver("simulate", "-o", "html", "-f", str(path))
    assert result.exit_code == 1
    assert result.stdout.startswith("<!DOCTYPE html>")
    assert result.stdout.count("<article>") == 2
    for part in ("pod whole", "unschedulable", "40Gi of 40Gi", "default/partition-0-gpu"):
        assert part in result.stdout
