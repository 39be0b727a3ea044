"""`dradriver explain`: why a pod or a claim waits, from a cluster or from files."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from msgspec.structs import replace

from dradriver.cli import cluster_access
from dradriver.cluster.apiserver import ApiServer
from dradriver.control.extended import new_special_claim
from dradriver.control.extended.requests import build_requests
from dradriver.kube import CLAIMS, CLASSES, PODS, SLICES, Client, PatchKind
from dradriver.model.core.workload import Container, ContainerResources, PodSpec, PodStatus
from dradriver.model.quantity import Quantity
from dradriver.model.resource.claim import DeviceConstraint, DeviceResult
from dradriver.model.resource.counters import CounterConsumption, CounterSet
from dradriver.model.resource.device import Device, Taint
from dradriver.testing.builders import (
    CLASS,
    DRIVER,
    allocated,
    claim,
    device,
    device_class,
    device_request,
    node,
    pod,
    slice_,
)
from tests.unit.cli.worlds import listed
from tests.unit.control.extended_pods import GPU, gpu_class, plugin_node
from tests.unit.control.extended_pods import pod as extended_pod
from tests.unit.control.world import NOW

Command = Callable[..., Result]


@pytest.fixture
async def kubeconfig(tmp_path: Path) -> AsyncIterator[Path]:
    server = ApiServer(tmp_path / "server")
    await server.start()
    path = tmp_path / "kubeconfig"
    await asyncio.to_thread(server.write_kubeconfig, path)
    yield path
    await server.stop()


async def explain(dradriver: Command, kubeconfig: Path, *arguments: str) -> Result:
    # Commands bring their own event loop, the server runs on the test's.
    return await asyncio.to_thread(dradriver, "explain", *arguments, "--kubeconfig", str(kubeconfig))


async def waiting(kubeconfig: Path, *conditions: dict[str, str]) -> None:
    """A pod whose claim is allocated a device with a binding condition."""
    result = DeviceResult(
        request="device",
        driver=DRIVER,
        pool="fabric",
        device="gpu-0",
        binding_conditions=["attached"],
        binding_failure_conditions=["attach-failed"],
    )
    wanted = allocated(claim(name="mine"), result)
    assert wanted.allocation is not None
    async with await Client.connect(str(kubeconfig)) as client:
        await client.create(CLAIMS, wanted, "default", into=dict)
        entry = {"driver": DRIVER, "pool": "fabric", "device": "gpu-0", "conditions": list(conditions)}
        status = {
            "allocation": replace(wanted.allocation, allocation_timestamp=NOW),
            "devices": [entry] if conditions else None,
        }
        await client.patch(
            *(CLAIMS, "mine", "default", {"status": status}, PatchKind.MERGE), into=dict, subresource="status"
        )
        await client.create(PODS, pod("mine"), "default", into=dict)


async def test_pending_conditions_have_their_start_and_deadline(dradriver: Command, kubeconfig: Path) -> None:
    await waiting(kubeconfig)
    forever = str(10**9)
    result = await explain(dradriver, kubeconfig, "pod", "pod-1", "--binding-timeout", forever)
    assert result.exit_code == 0, result.output
    assert "claim default/mine waits for conditions, since 2026-01-01T00:00:00Z" in result.stdout
    assert ", until 20" in result.stdout
    assert f"device {DRIVER}/fabric/gpu-0: attached" in result.stdout
    assert (
        f"attached is set on no claim of this cluster: check that the controller of driver {DRIVER} runs"
        in result.stdout
    )


async def test_programs_get_the_same(dradriver: Command, kubeconfig: Path) -> None:
    await waiting(kubeconfig)
    result = await explain(dradriver, kubeconfig, "pod", "pod-1", "--binding-timeout", str(10**9), "-o", "json")
    (answer,) = json.loads(result.stdout)["claims"]
    assert (answer["name"], answer["claim"], answer["state"]) == ("claim-0", "default/mine", "waiting")
    assert answer["since"] == "2026-01-01T00:00:00Z"
    assert answer["devices"] == [
        {
            "device": f"{DRIVER}/fabric/gpu-0",
            "pending": ["attached"],
            "failed": [],
            "unserved": ["attached"],
        }
    ]


async def test_failed_conditions_are_listed(dradriver: Command, kubeconfig: Path) -> None:
    failed = {
        "type": "attach-failed",
        "status": "True",
        "reason": "NoLink",
        "message": "port 3 is dark",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    await waiting(kubeconfig, failed)
    result = await explain(dradriver, kubeconfig, "pod", "pod-1")
    assert "attach-failed (NoLink): port 3 is dark" in result.stdout
    assert "claim default/mine failed" in result.stdout


async def test_the_nodes_of_a_cluster_are_checked(dradriver: Command, kubeconfig: Path) -> None:
    async with await Client.connect(str(kubeconfig)) as client:
        await client.create(CLASSES, device_class(), into=dict)
        await client.create(SLICES, slice_(device("gpu-0")), into=dict)
        await client.create(CLAIMS, claim(device_request(count=2)), "default", into=dict)
        await client.create(PODS, pod("claim-1"), "default", into=dict)
    result = await explain(dradriver, kubeconfig, "pod", "pod-1")
    assert result.stdout.splitlines() == [
        "pod default/pod-1 has no node",
        "  claim-0: claim default/claim-1 is not allocated",
        "node-1: cannot allocate all claims",
        "  claim default/claim-1, request device: 2 needed, 1 could serve it alone",
        "    2 devices are needed, 1 can be used",
    ]


async def test_a_missing_pod_is_one_line(dradriver: Command, kubeconfig: Path) -> None:
    result = await explain(dradriver, kubeconfig, "pod", "nobody")
    assert result.exit_code == 1
    assert result.stderr == "Error: there is no pod nobody in the namespace default\n"


def explain_offline(dradriver: Command, *arguments: str, objects: Sequence[object]) -> list[str]:
    result = dradriver("explain", *arguments, "-f", "-", stdin=listed(*objects))
    assert result.exit_code == 0, result.output
    return [line.strip() for line in result.stdout.splitlines()]


def test_each_group_of_devices_has_a_reason(dradriver: Command) -> None:
    held = allocated(claim(name="held"), "gpu-0")
    devices = (
        device("gpu-0"),
        replace(device("gpu-1"), taints=[Taint(key="broken", effect="NoSchedule")]),
        device("gpu-2"),
    )
    wanted = claim(device_request(CLASS, "device.driver != 'x' && false"))
    lines = explain_offline(
        dradriver, "pod", "pod-1", objects=[slice_(*devices), device_class(), held, wanted, pod("claim-1")]
    )
    assert f"1 device: in use by claim default/held ({DRIVER}/node-1/gpu-0)" in lines
    assert (
        f"2 devices: selector 1 of the request is false ({DRIVER}/node-1/gpu-1, {DRIVER}/node-1/gpu-2)" in lines
    )
    anything = claim(device_request(count=2))
    lines = explain_offline(
        dradriver, "claim", "claim-1", objects=[slice_(*devices), device_class(), held, anything]
    )
    assert f"1 device: taint broken:NoSchedule is not tolerated ({DRIVER}/node-1/gpu-1)" in lines


def counting(*devices: tuple[str, int, str], total: int = 10) -> list[object]:
    """A pool whose devices (name, memory, group) share one counter set."""
    made = [
        Device(
            name, consumes_counters=[CounterConsumption("gpu-0", {"memory": amount}, [group] if group else [])]
        )
        for name, amount, group in devices
    ]
    counters = slice_(counter_sets=[CounterSet("gpu-0", {"memory": total})], count=2, name="slice-0")
    return [counters, slice_(*made, count=2, name="slice-1"), device_class(), claim(), pod("claim-1")]


def test_a_counter_that_is_exhausted_with_its_numbers(dradriver: Command) -> None:
    held = allocated(claim(name="held"), "small")
    objects = [*counting(("small", 4, ""), ("large", 8, "")), held]
    lines = explain_offline(dradriver, "pod", "pod-1", objects=objects)
    assert f"1 device: counter memory of counter set gpu-0: 8 needed, 6 left ({DRIVER}/node-1/large)" in lines


def test_groups_that_are_disjoint_with_their_names(dradriver: Command) -> None:
    held = allocated(claim(name="held"), "mig-0")
    objects = [*counting(("mig-0", 2, "mig"), ("vgpu-0", 2, "vgpu")), held]
    gates = ("--feature-gates", "DRADeviceCompatibilityGroups=true")
    lines = explain_offline(dradriver, "pod", "pod-1", *gates, objects=objects)
    assert (
        f"1 device: counter set gpu-0 is used with compatibility groups mig, not vgpu ({DRIVER}/node-1/vgpu-0)"
    ) in lines


def test_the_device_that_breaks_a_constraint(dradriver: Command) -> None:
    devices = [device(f"gpu-{number}", {"numa": number}) for number in range(2)]
    requests = [
        device_request(CLASS, f'device.attributes["{DRIVER}"].numa == {number}', name=f"request-{number}")
        for number in range(2)
    ]
    wanted = claim(*requests, constraints=[DeviceConstraint(match_attribute=f"{DRIVER}/numa")])
    lines = explain_offline(dradriver, "claim", "claim-1", objects=[slice_(*devices), device_class(), wanted])
    assert (
        f"1 device: matchAttribute {DRIVER}/numa: the devices chosen before differ: {DRIVER}/node-1/gpu-0 "
        f"({DRIVER}/node-1/gpu-1)"
    ) in lines


def test_a_pool_that_cannot_be_used(dradriver: Command) -> None:
    objects = [slice_(device("gpu-0"), count=2), device_class(), claim(), pod("claim-1")]
    lines = explain_offline(dradriver, "pod", "pod-1", objects=objects)
    assert f"resource pool {DRIVER}/node-1 is incomplete: 1 of 2 slices" in lines


def test_nodes_with_the_same_result_form_a_group_whatever_their_pools_are_called(dradriver: Command) -> None:
    nodes = [node(f"node-{number}") for number in range(1, 4)]
    slices = [slice_(device("gpu-0"), node_name=each.metadata.name) for each in nodes[:2]]
    lines = explain_offline(
        dradriver, "claim", "claim-1", objects=[*nodes, *slices, device_class(), claim(device_request())]
    )
    assert [line for line in lines if line.startswith("node-")] == [
        "node-1, node-2: fits",
        "node-3: cannot allocate all claims",
    ]
    assert f"claim default/claim-1, request device: {DRIVER}/<node>/gpu-0" in lines


def test_one_node_can_be_selected(dradriver: Command) -> None:
    objects = [node("node-1"), node("node-2"), slice_(device("gpu-0")), device_class(), claim()]
    lines = explain_offline(dradriver, "claim", "claim-1", "--node", "node-2", objects=objects)
    assert [line for line in lines if line.startswith("node-")] == ["node-2: cannot allocate all claims"]
    result = dradriver("explain", "claim", "claim-1", "--node", "node-9", "-f", "-", stdin=listed(*objects))
    assert (result.exit_code, result.stderr) == (1, "Error: there is no node node-9\n")


def test_nodes_on_which_the_pod_cannot_run_are_excluded(dradriver: Command) -> None:
    picky = replace(pod("claim-1"), spec=replace(pod("claim-1").spec, node_selector={"zone": "a"}))
    objects = [node("node-1"), slice_(device("gpu-0")), device_class(), claim(), picky]
    lines = explain_offline(dradriver, "pod", "pod-1", objects=objects)
    assert lines[-1] == "node-1: node(s) didn't match Pod's node affinity/selector"


def test_nodes_are_checked_for_extended_resources(dradriver: Command) -> None:
    resource = "example.com/gpu"
    served = replace(device_class(), spec=replace(device_class().spec, extended_resource_name=resource))
    asking = Container(name="main", resources=ContainerResources(requests={resource: Quantity("2")}))
    objects = [slice_(device("gpu-0")), served, replace(pod(), spec=PodSpec(containers=[asking]))]
    lines = explain_offline(dradriver, "pod", "pod-1", objects=objects)
    assert "node-1: cannot allocate all claims" in lines
    assert "2 devices are needed, 1 can be used" in lines


def test_an_error_in_a_claim_is_reported_once(dradriver: Command) -> None:
    objects = [node("node-1"), node("node-2"), slice_(device("gpu-0")), claim(), pod("claim-1")]
    lines = explain_offline(dradriver, "pod", "pod-1", objects=objects)
    assert lines[-1] == (
        "node-1, node-2: claim default/claim-1, request device: device class driver.example.com does not exist"
    )


def test_missing_claims_are_named(dradriver: Command) -> None:
    objects = [slice_(device("gpu-0")), device_class(), pod("gone", templates=["gone"])]
    assert explain_offline(dradriver, "pod", "pod-1", objects=objects)[1:] == [
        "claim-0: claim default/gone does not exist",
        "template-0: the claim is not created from its template yet",
    ]


@pytest.mark.parametrize(
    ("world_object", "line"),
    [
        (pod(node_name="node-1"), "pod default/pod-1 is on node node-1"),
        (replace(pod(), status=PodStatus(phase="Failed", message="no")), "pod default/pod-1 is finished: no"),
        (
            replace(pod(), spec=PodSpec(), status=PodStatus(nominated_node_name="node-2")),
            "pod default/pod-1 waits to be bound to node node-2",
        ),
    ],
)
def test_the_first_line_has_the_state_of_the_pod(dradriver: Command, world_object: object, line: str) -> None:
    assert explain_offline(dradriver, "pod", "pod-1", objects=[world_object])[0].startswith(line)


def test_a_claim_has_its_users(dradriver: Command) -> None:
    held = allocated(claim(), "gpu-0")
    lines = explain_offline(
        dradriver, "claim", "claim-1", objects=[slice_(device("gpu-0")), held, pod("claim-1")]
    )
    assert lines == [
        f"claim default/claim-1 is ready: {DRIVER}/node-1/gpu-0",
        "used by pod default/pod-1: `dradriver explain pod` checks all claims of a pod together",
    ]


def test_programs_get_the_reasons_as_data(dradriver: Command) -> None:
    held = allocated(claim(name="held"), "gpu-0")
    objects = [slice_(device("gpu-0"), device("gpu-1")), device_class(), held, claim(device_request(count=2))]
    result = dradriver("explain", "claim", "claim-1", "-o", "json", "-f", "-", stdin=listed(*objects))
    answer: dict[str, Any] = json.loads(result.stdout)
    assert answer["subject"] == {"kind": "ResourceClaim", "namespace": "default", "name": "claim-1"}
    (group,) = answer["nodes"]
    assert (group["nodes"], group["verdict"]) == (["node-1"], "refused")
    (request,) = group["requests"]
    assert (request["request"], request["needed"], request["candidates"]) == ("device", 2, 1)
    assert {
        "code": "in-use",
        "text": "in use by claim default/held",
        "devices": [f"{DRIVER}/node-1/gpu-0"],
        "chosen": [],
    } in request["reasons"]


def test_an_unreachable_api_server_is_one_line(
    dradriver: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_access, "_TIMEOUT_SECONDS", 0.2)
    path = tmp_path / "kubeconfig"
    path.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, context: {cluster: a}}]\n"
        "clusters: [{name: a, cluster: {server: 'http://127.0.0.1:9'}}]\n"
    )
    result = dradriver("explain", "pod", "pod-1", "--kubeconfig", str(path))
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1


def test_remarks_have_what_can_serve_extended_resources_and_what_prevents_it(dradriver: Command) -> None:
    """KEP-5004: a node with a device plugin and devices, and more devices than a claim holds."""
    many = [device(f"gpu-{number}") for number in range(40)]
    slices = [slice_(*many), slice_(device(), node_name="node-2")]
    nodes = [plugin_node("node-1", 0), plugin_node("node-2", 1)]
    lines = explain_offline(
        dradriver, "pod", "pod-1", objects=[gpu_class(), *nodes, *slices, extended_pod(gpu=33)]
    )
    assert lines[1:] == [
        f"{GPU}: 33, from device plugins on node-2 or devices of class {DRIVER} on node-1",
        f"node-2: has a device plugin for {GPU} and devices of class {DRIVER}: only the plugin's devices count",
        "spec: extended resources: 33 devices: a claim must have at most 32: "
        "only a node with a device plugin can serve it",
        "node-1: extended resources: 33 devices: a claim must have at most 32",
        f"node-2: Insufficient {GPU}",
    ]


def test_the_special_claim_has_a_state(dradriver: Command) -> None:
    asking = extended_pod(gpu=1)
    made = new_special_claim(asking, build_requests(asking, {GPU: DRIVER}), ())
    special = replace(made, api_version="resource.k8s.io/v1", kind="ResourceClaim")
    lines = explain_offline(dradriver, "pod", "pod-1", objects=[gpu_class(), special, asking])
    assert f"extended resources: claim {special.ref} is not allocated" in lines


def test_a_remark_reports_that_the_gate_for_extended_resources_is_off(dradriver: Command) -> None:
    """KEP-5004: the scheduler looks neither at classes nor at special claims then."""
    asking = extended_pod(gpu=1)
    made = new_special_claim(asking, build_requests(asking, {GPU: DRIVER}), ())
    special = replace(made, api_version="resource.k8s.io/v1", kind="ResourceClaim")
    objects = [gpu_class(), slice_(device()), node("node-1"), special, asking]
    gates = ("--feature-gates", "DRAExtendedResource=false")
    lines = explain_offline(dradriver, "pod", "pod-1", *gates, objects=objects)
    assert lines[1:] == [
        f"{GPU}: 1: no node has it, and no class serves it",
        "DRAExtendedResource is off: device classes serve no extended resource",
        "hint: if DRAExtendedResource is on in the cluster, add --feature-gates DRAExtendedResource=true",
        f"node-1: Insufficient {GPU}",
    ]


@pytest.mark.parametrize("gate", ["DRADeviceBindingConditions", "DRAResourceClaimDeviceStatus"])
def test_binding_conditions_do_not_count_while_a_gate_is_off(dradriver: Command, gate: str) -> None:
    """KEP-5007: what is allocated is bound at once, however long ago that was."""
    result = DeviceResult(
        request="device", driver=DRIVER, pool="node-1", device="gpu-0", binding_conditions=["attached"]
    )
    mine = allocated(claim(name="mine"), result)
    assert mine.allocation is not None
    stamped = replace(mine.allocation, allocation_timestamp=datetime(2026, 1, 1, tzinfo=UTC))
    mine = replace(mine, status=replace(mine.status, allocation=stamped))
    objects = [device_class(), mine, pod("mine")]
    first = explain_offline(dradriver, "pod", "pod-1", objects=objects)
    assert any("claim default/mine timed out" in line for line in first)
    lines = explain_offline(dradriver, "pod", "pod-1", "--feature-gates", f"{gate}=false", objects=objects)
    assert f"claim-0: claim default/mine is ready: {DRIVER}/node-1/gpu-0" in lines
