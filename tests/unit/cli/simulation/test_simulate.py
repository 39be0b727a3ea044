"""`dradriver simulate` shows where pods would go and with which devices, or why not."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from click.testing import Result
from msgspec.structs import replace

from dradriver.allocator import Features
from dradriver.cli.attempt import AttemptSettings
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


def simulated(dradriver: Command, *objects: object, words: Sequence[str] = ()) -> dict[str, Any]:
    result = dradriver("simulate", "-o", "json", "-f", "-", *words, stdin=listed(*objects))
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


def test_pods_get_their_devices_in_order_and_an_allocation_holds_for_those_that_follow(
    dradriver: Command,
) -> None:
    found = simulated(dradriver, POOL, CLASS, *pairs(3))
    assert devices(found) == {"pod-0": ["gpu-0"], "pod-1": ["gpu-1"]}
    (reason,) = found["unschedulable"]["pod-2"]
    assert reason.startswith("node-1: cannot allocate all claims: claim default/claim-2, request device: ")
    assert "2 devices: in use by other claims" in reason
    assert found["undecided"] == []


def test_the_allocation_is_the_one_that_would_stand_in_the_status(dradriver: Command) -> None:
    found = simulated(dradriver, POOL, CLASS, *pairs(1))
    (result,) = found["placements"]["pod-0"]["claims"]["claim-0"]["devices"]["results"]
    assert result == {
        "request": "device",
        "driver": "driver.example.com",
        "pool": "node-1",
        "device": "gpu-0",
    }
    (term,) = found["placements"]["pod-0"]["claims"]["claim-0"]["nodeSelector"]["nodeSelectorTerms"]
    assert term == {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]}


def test_it_says_how_long_allocation_alone_took(dradriver: Command) -> None:
    found = simulated(dradriver, POOL, CLASS, *pairs(3))
    assert found["seconds"] > 0
    assert found["pods_per_second"] == pytest.approx(3 / found["seconds"], rel=0.1)
    assert 0 < found["p50_ms"] <= found["p99_ms"] <= found["seconds"] * 1000 + 0.01


def test_ordered_takes_the_first_node_by_name_that_fits(dradriver: Command) -> None:
    slices = [slice_(device("gpu-0"), node_name=name) for name in ("node-b", "node-a")]
    nodes = [node(name) for name in ("node-b", "node-a", "node-0")]
    found = simulated(dradriver, *nodes, *slices, CLASS, *pairs(2))
    assert [each["node"] for each in found["placements"].values()] == ["node-a", "node-b"]


def test_packed_takes_the_smallest_device(dradriver: Command) -> None:
    objects = (*reversed(a100()), MIG, claim(device_request("gpu.nvidia.com")), pod("claim-1"))
    (chosen,) = devices(simulated(dradriver, *objects, words=["--order", "packed"]))["pod-1"]
    assert chosen.startswith("gpu-0-mig-1g-5gb-")


def test_names_of_other_namespaces_carry_it(dradriver: Command) -> None:
    there = (claim(name="mine", namespace="team"), pod("mine", name="pod", namespace="team"))
    found = simulated(dradriver, POOL, CLASS, *there, claim(name="mine"), pod("mine", name="pod"))
    assert set(found["placements"]) == {"team/pod", "pod"}
    assert set(found["placements"]["team/pod"]["claims"]) == {"mine"}


def test_objects_without_a_namespace_are_in_the_default_one(dradriver: Command) -> None:
    bare = [replace(each, metadata=replace(each.metadata, namespace="")) for each in (claim(), pod("claim-1"))]
    assert devices(simulated(dradriver, POOL, CLASS, *bare)) == {"pod-1": ["gpu-0"]}


def test_devices_of_allocated_claims_are_in_use(dradriver: Command) -> None:
    held = allocated(claim(name="held"), "gpu-0")
    found = simulated(dradriver, POOL, CLASS, held, claim(name="new"), pod("new"))
    assert devices(found) == {"pod-1": ["gpu-1"]}


def test_a_pod_whose_claim_is_allocated_goes_where_it_can_be_used(dradriver: Command) -> None:
    held = allocated(claim(name="held"), "gpu-0")
    nodes = (node("node-0"), node("node-1"))
    found = simulated(dradriver, *nodes, POOL, CLASS, held, pod("held"))
    assert found["placements"]["pod-1"]["node"] == "node-1"


def test_pods_share_a_claim(dradriver: Command) -> None:
    found = simulated(dradriver, POOL, CLASS, claim(), pod("claim-1", name="a"), pod("claim-1", name="b"))
    assert devices(found) == {"a": ["gpu-0"], "b": ["gpu-0"]}


def test_claims_are_made_from_templates(dradriver: Command) -> None:
    spec = ClaimSpec(DeviceRequests(requests=[device_request()]))
    template = ResourceClaimTemplate(
        api_version="resource.k8s.io/v1",
        kind="ResourceClaimTemplate",
        metadata=ObjectMeta(name="one-gpu"),
        spec=ResourceClaimTemplateSpec(spec=spec),
    )
    pods = [pod(templates=["one-gpu"], name=name) for name in ("a", "b")]
    found = simulated(dradriver, POOL, CLASS, template, *pods)
    assert devices(found) == {"a": ["gpu-0"], "b": ["gpu-1"]}
    assert set(found["placements"]["a"]["claims"]) == {"a-template-0"}


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (pod("gone"), "claim default/gone does not exist"),
        (pod(templates=["gone"]), "claim template default/gone does not exist"),
        (
            replace(pod(), spec=PodSpec(scheduling_gates=[{"name": "wait"}])),
            "it has scheduling gates",
        ),
        (pod("claim-1", node_name="node-2"), "node-1: the pod's nodeName is node-2"),
        (
            replace(pod(), spec=PodSpec(node_selector={"zone": "a"})),
            "node-1, node-2: node(s) didn't match Pod's node affinity/selector",
        ),
    ],
)
def test_why_a_pod_goes_nowhere(dradriver: Command, broken: object, reason: str) -> None:
    found = simulated(dradriver, node("node-1"), node("node-2"), POOL, CLASS, claim(), broken)
    assert reason in found["unschedulable"]["pod-1"]


def test_taints_of_nodes_keep_pods_away(dradriver: Command) -> None:
    tainted = replace(node("node-1"), spec=NodeSpec(taints=[NodeTaint(key="a", effect="NoSchedule")]))
    found = simulated(dradriver, tainted, POOL, CLASS, *pairs(1))
    assert found["unschedulable"]["pod-0"] == ["node-1: node(s) had untolerated taint(s)"]


def test_taint_rules_keep_claims_from_devices(dradriver: Command) -> None:
    assert devices(simulated(dradriver, POOL, CLASS, TAINTED, *pairs(1))) == {"pod-0": ["gpu-1"]}


def test_extended_resources_are_served_by_device_plugins_and_by_devices(dradriver: Command) -> None:
    plugin = replace(node("node-2"), status=NodeStatus(allocatable={RESOURCE: Quantity("1")}))
    found = simulated(dradriver, node("node-1"), plugin, POOL, SERVING, *map(asking, "abcd"))
    assert {name: each["node"] for name, each in found["placements"].items()} == {
        "a": "node-1",
        "b": "node-1",
        "c": "node-2",
    }
    assert devices(found) == {"a": ["gpu-0"], "b": ["gpu-1"], "c": []}
    assert f"node-2: Insufficient {RESOURCE}" in found["unschedulable"]["d"]


@pytest.mark.parametrize("order", ["ordered", "packed"])
@pytest.mark.parametrize("plugin", [True, False])
def test_a_node_that_serves_a_pod_at_once_comes_before_those_where_devices_are_attached(
    dradriver: Command, order: str, *, plugin: bool
) -> None:
    slow = Device("slow", binding_conditions=["attached"], binding_failure_conditions=["failed"])
    nodes, slices = [node("node-1"), node("node-2")], [slice_(slow, node_name="node-1")]
    if plugin:
        nodes[1] = replace(nodes[1], status=NodeStatus(allocatable={RESOURCE: Quantity("1")}))
    else:
        slices.append(slice_(device("quick"), node_name="node-2"))
    objects = (*nodes, *slices, SERVING, asking("a"), asking("b"))
    found = simulated(dradriver, *objects, words=["--order", order])
    assert {name: each["node"] for name, each in found["placements"].items()} == {"a": "node-2", "b": "node-1"}


@pytest.mark.parametrize("command", ["simulate", "explain"])
def test_what_a_node_can_allocate_is_its_capacity_unless_it_says_otherwise(
    dradriver: Command, command: str
) -> None:
    """The API server copies it there too (`SetDefaults_NodeStatus`)."""
    amounts = {RESOURCE: "1"}
    raw = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-2"}}
    words = ("simulate",) if command == "simulate" else ("explain", "pod", "a")
    for status, fits in (
        ({"capacity": amounts}, True),
        ({"capacity": amounts, "allocatable": amounts}, True),
        ({"capacity": amounts, "allocatable": {RESOURCE: "0"}}, False),
    ):
        found = dradriver(*words, "-f", "-", stdin=listed({**raw, "status": status}, asking("a")))
        assert (f"Insufficient {RESOURCE}" not in found.output) is fits, found.output


def test_nodes_that_answer_alike_are_told_together(dradriver: Command) -> None:
    nodes = [node(f"node-{number}") for number in range(1, 10)]
    slices = [slice_(device("gpu-0"), node_name=each.metadata.name) for each in nodes]
    wanted = claim(device_request(count=2))
    (reason,) = simulated(dradriver, *nodes, *slices, CLASS, wanted, pod("claim-1"))["unschedulable"]["pod-1"]
    assert reason.startswith("9 nodes (node-1, node-2, node-3, node-4 and 5 more): cannot allocate all claims")


def test_a_claim_that_no_pod_uses_is_tried_by_itself(dradriver: Command) -> None:
    found = simulated(dradriver, POOL, CLASS, claim(device_request(count=2)), claim(name="late"))
    assert (found["placements"], found["claims"]["claim-1"]["node"]) == ({}, "node-1")
    assert list(found["unallocated"]) == ["late"]


def test_feature_gates_decide_what_may_be_used(dradriver: Command) -> None:
    grouped = Device("gpu-0", consumes_counters=[CounterConsumption("set", {"memory": 1}, ["mig"])])
    counters = slice_(counter_sets=[CounterSet("set", {"memory": 1})], count=2, name="slice-0")
    objects = (counters, slice_(grouped, count=2, name="slice-1"), CLASS, *pairs(1))
    assert devices(simulated(dradriver, *objects)) == {}
    gates = ("--feature-gates", "DRADeviceCompatibilityGroups=true")
    assert devices(simulated(dradriver, *objects, words=gates)) == {"pod-0": ["gpu-0"]}


def test_a_gate_that_is_off_takes_those_that_need_it_with_it(dradriver: Command) -> None:
    """As for the API server and the scheduler of `dradriver up`."""
    waits = Device("gpu-0", binding_conditions=["attached"], binding_failure_conditions=["failed"])
    objects = (slice_(waits), CLASS, *pairs(1))
    assert devices(simulated(dradriver, *objects)) == {"pod-0": ["gpu-0"]}
    gates = ("--feature-gates", "DRAResourceClaimDeviceStatus=false")
    assert devices(simulated(dradriver, *objects, words=gates)) == {}


@pytest.mark.parametrize("gate", sorted({*DEFAULTS} - {"DynamicResourceAllocation"}))
def test_a_gate_switches_the_same_as_in_the_scheduler_of_up(gate: str) -> None:
    gates = FeatureGates({gate: False})
    chosen = AttemptSettings.of("ordered", f"{gate}=false", 1)
    assert chosen.features == Features.of_gates({each: gates.enabled(each) for each in DEFAULTS})
    assert chosen.taint_rules is gates.enabled("DRADeviceTaintRules")


@pytest.mark.parametrize("gates", ["DRADeviceTaintRules=false", "DRADeviceTaints=false"])
def test_taint_rules_that_are_switched_off_keep_nothing_away(dradriver: Command, gates: str) -> None:
    words = ("--feature-gates", gates)
    assert devices(simulated(dradriver, POOL, CLASS, TAINTED, *pairs(1), words=words)) == {"pod-0": ["gpu-0"]}


def test_devices_serve_no_extended_resource_while_the_gate_is_off(dradriver: Command) -> None:
    """KEP-5004: node-2 has a device plugin, whose resource is not a matter of the gate."""
    plugin = replace(node("node-2"), status=NodeStatus(allocatable={RESOURCE: Quantity("1")}))
    objects = (node("node-1"), plugin, POOL, SERVING, asking("a"), asking("b"))
    found = simulated(dradriver, *objects, words=("--feature-gates", "DRAExtendedResource=false"))
    assert {name: each["node"] for name, each in found["placements"].items()} == {"a": "node-2"}
    assert found["unschedulable"] == {"b": [f"node-1, node-2: Insufficient {RESOURCE}"]}


def test_after_its_last_step_the_search_is_undecided(dradriver: Command) -> None:
    alike = [DeviceConstraint(match_attribute="driver.example.com/numa")]
    pool = slice_(device("gpu-0", {"numa": 0}), device("gpu-1", {"numa": 0}))
    wanted = claim(device_request(count=2), constraints=alike)
    found = simulated(dradriver, pool, CLASS, wanted, pod("claim-1"), words=["--max-steps", "1"])
    (reason,) = found["unschedulable"]["pod-1"]
    assert "cannot decide within 1 steps" in reason
    assert found["undecided"] == ["pod-1"]


def test_people_get_lines_and_a_drawing(dradriver: Command) -> None:
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
    ("objects", "words", "code", "error"),
    [
        ((POOL, CLASS), [], 2, "Error: the files hold no Pod and no ResourceClaim"),
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
def test_mistakes_are_one_line(
    dradriver: Command, objects: Sequence[object], words: Sequence[str], code: int, error: str
) -> None:
    result = dradriver("simulate", "-f", "-", *words, stdin=listed(*objects))
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
def test_two_objects_of_one_kind_and_name_are_refused(dradriver: Command, given: object) -> None:
    """The second would silently replace the first: a slice the devices, a rule the taint."""
    result = dradriver("simulate", "-f", "-", stdin=listed(given, *pairs(1)[1:], given))
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.endswith(" is there twice\n")


@pytest.mark.parametrize("given", [POOL, CLASS])
def test_an_object_without_a_name_is_refused(dradriver: Command, given: Any) -> None:
    nameless = replace(given, metadata=ObjectMeta())
    result = dradriver("simulate", "-f", "-", stdin=listed(nameless, *pairs(1)))
    assert result.exit_code == 1
    assert result.stderr.endswith(": metadata.name: is missing\n")


def test_a_file_that_is_not_there_is_one_line(dradriver: Command) -> None:
    result = dradriver("simulate", "-f", "/no/such/file")
    assert (result.exit_code, result.stderr) == (1, "Error: /no/such/file: No such file or directory\n")
