"""`dradriver simulate` reports that a controller decides about a classic claim, and goes on (KEP-3063)."""

import json
from collections.abc import Callable

from click.testing import Result

from dradriver.testing.builders import DRIVER, allocated, claim, device, device_class, node, pod, slice_
from tests.unit.cli.classic_objects import CONTROLLER, classic_claim, classic_class, nodes_with
from tests.unit.cli.worlds import listed

Command = Callable[..., Result]
BOTH = [device_class(), classic_class(), classic_claim(), claim(name="claim-2"), pod("claim-1", "claim-2")]


def test_the_structured_claims_of_a_pod_are_simulated(dradriver: Command) -> None:
    result = dradriver("simulate", "-f", "-", stdin=listed(*BOTH, slice_(device("gpu-0"))))
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "pod pod-1: node node-1",
        f"  claim claim-1: controller {CONTROLLER} decides whether it can be allocated for the node: "
        "not simulated",
        f"  claim claim-2, request device: {DRIVER}/node-1/gpu-0",
    ]


def test_a_pod_whose_structured_claims_do_not_fit_is_unschedulable(dradriver: Command) -> None:
    result = dradriver("simulate", "-f", "-", stdin=listed(*BOTH))
    assert result.exit_code == 1
    assert result.stdout.splitlines()[0] == "pod pod-1: unschedulable"


def test_a_claim_alone_is_reported(dradriver: Command) -> None:
    result = dradriver("simulate", "-f", "-", stdin=listed(classic_class(), classic_claim()))
    assert result.exit_code == 0
    assert result.stdout == f"claim claim-1: controller {CONTROLLER} decides about it: not simulated\n"


def test_nodes_that_a_class_excludes_get_no_pod(dradriver: Command) -> None:
    limited = classic_class(suitable_nodes=nodes_with("fabric", "a"))
    objects = [limited, classic_claim(), pod("claim-1"), node("node-1"), node("node-2", fabric="a")]
    assert dradriver("simulate", "-f", "-", stdin=listed(*objects)).stdout.startswith("pod pod-1: node node-2")
    result = dradriver("simulate", "-f", "-", stdin=listed(*objects[:-1]))
    assert result.stdout.splitlines() == [
        "pod pod-1: unschedulable",
        "  node-1: suitableNodes of a class of claim default/claim-1 excludes the node",
    ]


def test_an_allocated_claim_keeps_the_pod_on_its_node(dradriver: Command) -> None:
    held = allocated(classic_claim(begun=True), "gpu-0", driver="gpu.example.com", node_name="node-2")
    objects = [classic_class(), held, pod("claim-1"), node("node-1"), node("node-2")]
    result = dradriver("simulate", "-f", "-", stdin=listed(*objects))
    assert result.stdout.splitlines()[0] == "pod pod-1: node node-2"
    assert "not simulated" not in result.stdout


def test_a_claim_that_breaks_a_rule_is_unschedulable_with_the_rule(dradriver: Command) -> None:
    mixed = claim(*classic_claim().spec.devices.requests, *claim().spec.devices.requests)
    result = dradriver(
        "simulate", "-f", "-", stdin=listed(classic_class(), device_class(), mixed, pod("claim-1"))
    )
    assert result.exit_code == 1
    assert "must be a class of the controller" in result.stdout


def test_programs_get_the_controllers(dradriver: Command) -> None:
    text = listed(*BOTH, slice_(device("gpu-0")), classic_claim("alone", mode="Immediate"))
    document = json.loads(dradriver("simulate", "-o", "json", "-f", "-", stdin=text).stdout)
    assert document["controller_claims"] == {
        "claim-1": {"controller": CONTROLLER, "mode": "WaitForFirstConsumer"},
        "alone": {"controller": CONTROLLER, "mode": "Immediate"},
    }
    assert document["unallocated"] == {}
