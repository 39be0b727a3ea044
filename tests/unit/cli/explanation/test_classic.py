"""`dradriver explain` shows the negotiation of KEP-3063: who answered what, and what the pod waits for."""

import asyncio
import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import Result
from msgspec.structs import replace

from dradriver.cluster.apiserver import ApiServer
from dradriver.kube import (
    CLAIMS,
    CLASSES,
    CONTROLLER_ALLOCATIONS,
    LEASES,
    PODS,
    SCHEDULING_CONTEXTS,
    Client,
)
from dradriver.kube.definitions import install_definitions
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import ConsumerReference, ResourceClaim
from dradriver.testing.builders import DRIVER, allocated, claim, device, device_class, node, pod, slice_
from tests.unit.cli.classic_objects import (
    CONTROLLER,
    OTHER,
    answer,
    classic_claim,
    classic_class,
    context,
    lease,
    nodes_with,
    record,
    requested,
)
from tests.unit.cli.worlds import listed

Command = Callable[..., Result]
POD = pod("claim-1")
BOTH = pod("claim-1", "claim-2")
TWO = [classic_class(), classic_class(OTHER), classic_claim(), classic_claim("claim-2", OTHER), BOTH]
NODES = [node("node-1"), node("node-2"), node("node-3")]


def explain(dradriver: Command, *objects: object, what: Sequence[str] = ("pod", "pod-1")) -> list[str]:
    result = dradriver("explain", *what, "-f", "-", stdin=listed(*objects))
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


def test_the_whole_negotiation_of_two_controllers(dradriver: Command) -> None:
    asked = context(BOTH, answer("claim-0", "node-1"), potential=["node-1", "node-2", "node-3"], generation=3)
    assert explain(dradriver, *TWO, *NODES, asked) == [
        "pod default/pod-1 has no node",
        "  claim-0: claim default/claim-1 is not allocated",
        f"    controller {CONTROLLER} allocates it, for the node that the scheduler selects "
        "(WaitForFirstConsumer)",
        "  claim-1: claim default/claim-2 is not allocated",
        f"    controller {OTHER} allocates it, for the node that the scheduler selects (WaitForFirstConsumer)",
        "  negotiation: round 3 (PodSchedulingContext default/pod-1), 3 potential nodes, no node is selected",
        f"    claim-0: controller {CONTROLLER} called 1 node unsuitable: node-1",
        f"    claim-1: controller {OTHER} has not answered yet",
        f"    waiting for resource driver to provide information: {OTHER} (claim default/claim-2)",
        f"  controller {OTHER} has never answered on this cluster: check that it runs",
        f"node-1: controller {CONTROLLER} called it unsuitable for claim default/claim-1",
        f"node-2, node-3: possible, if controller {CONTROLLER} allocates claim default/claim-1, "
        f"if controller {OTHER} allocates claim default/claim-2",
    ]


def negotiation(dradriver: Command, *objects: object) -> list[str]:
    lines = [line.strip() for line in explain(dradriver, *objects)]
    begin = next(index for index, line in enumerate(lines) if line.startswith("negotiation:"))
    return lines[begin:]


def test_an_answer_without_unsuitable_nodes_is_an_answer(dradriver: Command) -> None:
    asked = context(
        BOTH, answer("claim-0"), answer("claim-1", controller=OTHER), potential=["node-1"], generation=1
    )
    assert negotiation(dradriver, *TWO, *NODES, asked)[1:4] == [
        f"claim-0: controller {CONTROLLER} called no node unsuitable",
        f"claim-1: controller {OTHER} called no node unsuitable",
        "waiting for the scheduler to select a node: the drivers of all claims have answered",
    ]


def test_the_answer_of_another_controller_does_not_count(dradriver: Command) -> None:
    asked = context(POD, answer("claim-0", "node-1", controller=OTHER), potential=["node-1"])
    lines = negotiation(dradriver, classic_class(), classic_claim(), POD, *NODES, asked)
    assert lines[1] == f"claim-0: controller {CONTROLLER} has not answered yet"


def test_the_selected_node_and_the_claim_that_is_waited_for(dradriver: Command) -> None:
    asked = context(POD, answer("claim-0"), potential=["node-1", "node-2"], selected="node-2", generation=2)
    lines = negotiation(dradriver, classic_class(), classic_claim(), POD, *NODES, asked)
    assert lines[0].endswith("2 potential nodes, node node-2 is selected")
    assert lines[2] == f"waiting for resource driver to allocate resource: {CONTROLLER} (claim default/claim-1)"


def test_a_selected_node_that_a_controller_called_unsuitable(dradriver: Command) -> None:
    asked = context(POD, answer("claim-0", "node-2"), potential=["node-2"], selected="node-2")
    lines = negotiation(dradriver, classic_class(), classic_claim(), POD, *NODES, asked)
    assert lines[2] == (
        f"waiting for the scheduler to select another node: {CONTROLLER} (claim default/claim-1) cannot use "
        "node-2"
    )


def test_a_node_of_a_bound_pod_stays_selected_whatever_a_controller_answered(dradriver: Command) -> None:
    bound = pod("claim-1", node_name="node-1")
    asked = context(bound, answer("claim-0", "node-1"), selected="node-1")
    lines = explain(dradriver, classic_class(), classic_claim(), bound, *NODES, asked)
    assert lines[-1].strip().startswith("waiting for resource driver to allocate resource")


def test_many_unsuitable_nodes_are_counted(dradriver: Command) -> None:
    names = [f"node-{number}" for number in range(1, 12)]
    asked = context(POD, answer("claim-0", *names), potential=names)
    lines = negotiation(dradriver, classic_class(), classic_claim(), POD, *NODES, asked)
    assert lines[1].startswith(f"claim-0: controller {CONTROLLER} called 11 nodes unsuitable: node-1, ")
    assert lines[1].endswith("node-8 and 3 more")


def test_a_negotiation_that_has_not_begun(dradriver: Command) -> None:
    lines = negotiation(dradriver, classic_class(), classic_claim(), POD, *NODES)
    assert lines[0] == (
        "negotiation: not begun, there is no PodSchedulingContext default/pod-1: "
        "only the scheduler of dradriver creates it"
    )


def test_the_context_of_a_replaced_pod_does_not_count(dradriver: Command) -> None:
    """Drivers must ignore a PodSchedulingContext whose owning pod is deleted."""
    old = context(POD, answer("claim-0", "node-1"), potential=["node-1"], uid="an-earlier-pod")
    lines = negotiation(dradriver, classic_class(), classic_claim(), POD, *NODES, old)
    assert "belongs to an earlier pod of this name" in lines[0]
    assert not any("unsuitable" in line for line in lines)


def test_a_bound_pod_without_an_allocation_has_only_a_selected_node(dradriver: Command) -> None:
    bound = pod("claim-1", node_name="node-1")
    asked = context(bound, selected="node-1")
    lines = explain(dradriver, classic_class(), classic_claim(), bound, *NODES, asked)
    assert lines[0] == "pod default/pod-1 is on node node-1"
    assert "0 potential nodes, node node-1 is selected" in lines[3]
    assert lines[-1].strip().startswith("waiting for resource driver to allocate resource")


def test_an_immediate_claim_takes_no_part(dradriver: Command) -> None:
    lines = explain(dradriver, classic_class(), classic_claim(mode="Immediate"), POD, *NODES)
    assert not any("negotiation" in line for line in lines)
    assert (
        f"    unallocated immediate resourceclaim: controller {CONTROLLER} allocates it without a pod "
        "(Immediate)"
    ) in lines


def test_a_requested_deallocation(dradriver: Command) -> None:
    made = requested(allocated(classic_claim(begun=True), "gpu-0"))
    lines = explain(dradriver, classic_class(), made, POD, *NODES)
    assert lines[1:3] == [
        f"  claim-0: claim default/claim-1 is being deallocated: {DRIVER}/node-1/gpu-0",
        f"    its deallocation is requested: controller {CONTROLLER} must deallocate it (resourceclaim must be "
        "reallocated)",
    ]


def test_an_allocation_that_has_begun_names_its_node(dradriver: Command) -> None:
    made = classic_claim(begun=True)
    lines = explain(dradriver, classic_class(), made, record(made, "node-2"), what=("claim", "claim-1"))
    assert lines[0] == "claim default/claim-1 is being allocated"
    assert (
        lines[1] == f"    controller {CONTROLLER} has begun to allocate it for node node-2, or is releasing it"
    )


def test_a_deleted_claim_waits_for_its_consumers(dradriver: Command) -> None:
    made = allocated(classic_claim(begun=True), "gpu-0")
    used = replace(
        made,
        metadata=replace(made.metadata, deletion_timestamp=datetime(2026, 1, 1, tzinfo=UTC)),
        status=replace(
            made.status, reserved_for=[ConsumerReference(resource="pods", name="pod-1", uid=POD.metadata.uid)]
        ),
    )
    lines = explain(dradriver, classic_class(), used, what=("claim", "claim-1"))
    deallocates = f"controller {CONTROLLER} deallocates it, after its consumers have left it"
    assert f"    the claim is deleted: {deallocates}" in lines


def test_nodes_that_a_class_excludes(dradriver: Command) -> None:
    """The ResourceClass.SuitableNodes node selector can be used to filter out nodes based on labels."""
    limited = classic_class(suitable_nodes=nodes_with("fabric", "a"))
    lines = explain(dradriver, limited, classic_claim(), POD, node("node-1", fabric="a"), node("node-2"))
    assert lines[-2:] == [
        f"node-1: possible, if controller {CONTROLLER} allocates claim default/claim-1",
        "node-2: suitableNodes of a class of claim default/claim-1 excludes the node",
    ]


def test_structured_claims_of_the_pod_are_checked_on_each_node(dradriver: Command) -> None:
    objects = [classic_class(), device_class(), classic_claim(), claim(name="claim-2"), BOTH]
    lines = explain(dradriver, *objects, slice_(device("gpu-0")), node("node-1"), node("node-2"))
    assert f"node-1: fits, if controller {CONTROLLER} allocates claim default/claim-1" in lines
    assert "node-2: cannot allocate all claims" in lines
    assert f"  claim default/claim-2, request device: {DRIVER}/node-1/gpu-0" in lines


def test_a_claim_that_breaks_a_rule_has_the_rule(dradriver: Command) -> None:
    wrong = replace(classic_class(), spec=replace(classic_class().spec, selectors=[]))
    lines = explain(dradriver, wrong, classic_claim(), POD, *NODES)
    assert any("must be exactly one CEL expression `false`" in line for line in lines)
    assert not any(line.startswith("node-") for line in lines), "no node can be found"


def test_the_last_failure_that_the_controller_reported_about_a_pending_claim_is_shown(
    dradriver: Command,
) -> None:
    made = classic_claim()

    def event(second: int, message: str, reason: str = "AllocationFailed") -> dict[str, object]:
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"event-{second}", "namespace": "default"},
            "involvedObject": {"kind": "ResourceClaim", "name": "claim-1", "uid": made.metadata.uid},
            "type": "Warning",
            "reason": reason,
            "message": message,
            "lastTimestamp": f"2026-01-01T00:00:0{second}Z",
        }

    events = [event(2, "modus: LicenseClaim has no such field"), event(1, "earlier"), event(3, "x", "Other")]
    lines = explain(dradriver, classic_class(), made, POD, *NODES, *events)
    assert (
        "  Event AllocationFailed of claim default/claim-1 at 2026-01-01T00:00:02Z: "
        "modus: LicenseClaim has no such field"
    ) in lines


def test_without_potential_nodes_the_pod_waits_for_the_controllers(dradriver: Command) -> None:
    asked = context(POD, answer("claim-0", "node-1", "node-2", "node-3"), potential=[], generation=2)
    lines = explain(dradriver, classic_class(), classic_claim(), POD, *NODES, asked)
    assert "    waiting until a controller calls fewer nodes unsuitable: no other node suits the pod" in lines


@pytest.mark.parametrize("sign", [lease(), allocated(classic_claim("other", begun=True), "gpu-0")])
def test_a_controller_with_a_lease_or_an_allocation_has_answered(dradriver: Command, sign: object) -> None:
    lines = explain(dradriver, classic_class(), classic_claim(), POD, *NODES, sign)
    assert not any("never answered" in line for line in lines)


def test_a_controller_without_a_lease_is_named(dradriver: Command) -> None:
    lines = explain(dradriver, classic_class(), classic_claim(), POD, *NODES, lease(OTHER))
    assert (
        f"  controller {CONTROLLER} has never answered on this cluster, and no Lease has its name: "
        "check that it runs"
    ) in lines


def test_programs_get_the_negotiation_as_data(dradriver: Command) -> None:
    asked = context(POD, answer("claim-0", "node-1"), potential=["node-1", "node-2"], generation=2)
    objects = listed(classic_class(), classic_claim(), POD, *NODES, asked)
    result = dradriver("explain", "pod", "pod-1", "-o", "json", "-f", "-", stdin=objects)
    answered = json.loads(result.stdout)
    assert answered["negotiation"] == {
        "round": 2,
        "potentialNodes": ["node-1", "node-2"],
        "selectedNode": None,
        "replaced": False,
        "claims": [
            {
                "name": "claim-0",
                "claim": "default/claim-1",
                "controller": CONTROLLER,
                "answered": True,
                "unsuitableNodes": ["node-1"],
            }
        ],
        "waitsFor": "waiting for the scheduler to select a node: the drivers of all claims have answered",
    }
    (stage,) = answered["claims"]
    assert (stage["controller"], stage["mode"]) == (CONTROLLER, "WaitForFirstConsumer")


@pytest.mark.parametrize("has_lease", [False, True])
async def test_a_cluster_is_asked_for_leases_and_may_lack_the_resources(
    dradriver: Command, tmp_path: Path, has_lease: bool
) -> None:
    server = ApiServer(tmp_path / "server")
    await server.start()
    path = tmp_path / "kubeconfig"
    await asyncio.to_thread(server.write_kubeconfig, path)
    try:
        async with await Client.connect(str(path)) as client:
            await client.create(CLASSES, classic_class(), into=dict)
            await client.create(CLAIMS, classic_claim(), "default", into=dict)
            await client.create(PODS, POD, "default", into=dict)
            await client.create(LEASES, lease(CONTROLLER if has_lease else OTHER), "default", into=dict)
        shown = await asyncio.to_thread(dradriver, "explain", "pod", "pod-1", "--kubeconfig", str(path))
    finally:
        await server.stop()
    assert (shown.exit_code, shown.stderr) == (0, "")
    assert ("and no Lease has its name" in shown.stdout) is not has_lease
    assert "negotiation: not begun" in shown.stdout


async def test_the_negotiation_of_a_cluster(dradriver: Command, tmp_path: Path) -> None:
    server = ApiServer(tmp_path / "server")
    await server.start()
    path = tmp_path / "kubeconfig"
    await asyncio.to_thread(server.write_kubeconfig, path)
    try:
        async with await Client.connect(str(path)) as client:
            await install_definitions(client)
            await client.create(CLASSES, classic_class(), into=dict)
            made = await client.create(CLAIMS, classic_claim(), "default", into=ResourceClaim)
            await client.create(CONTROLLER_ALLOCATIONS, record(made, "node-1"), "default", into=dict)
            stored = await client.create(PODS, POD, "default", into=Pod)
            asked = context(stored, potential=["node-1", "node-2"], selected="node-1")
            await client.create(SCHEDULING_CONTEXTS, asked, "default", into=dict)
        shown = await asyncio.to_thread(dradriver, "explain", "pod", "pod-1", "--kubeconfig", str(path))
    finally:
        await server.stop()
    assert (shown.exit_code, shown.stderr) == (0, "")
    assert [line.strip() for line in shown.stdout.splitlines()[3:6]] == [
        "negotiation: round 1 (PodSchedulingContext default/pod-1), 2 potential nodes, node node-1 is selected",
        f"claim-0: controller {CONTROLLER} has not answered yet",
        f"waiting for resource driver to allocate resource: {CONTROLLER} (claim default/claim-1)",
    ]
    assert "never answered" not in shown.stdout, "the record shows that the controller works"
