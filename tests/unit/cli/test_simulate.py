"""`dradriver simulate` shows what would be allocated, or why not."""

import json
from collections.abc import Callable, Sequence

from click.testing import Result

from dradriver.model.codec import builtins
from dradriver.model.counters import CounterConsumption, CounterSet
from dradriver.model.device import Device
from dradriver.testing.builders import allocated, claim, device, device_class, device_request, node, pod, slice_

Command = Callable[..., Result]

POOL = slice_(device("gpu-0"), device("gpu-1"))
CLASS = device_class()


def listed(*objects: object) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": [builtins(each) for each in objects]})


def lines(result: Result) -> Sequence[str]:
    return result.stdout.splitlines()


def test_pods_get_their_devices_in_order_and_an_allocation_holds_for_those_that_follow(
    dradriver: Command,
) -> None:
    claims = [claim(name=f"claim-{i}") for i in range(3)]
    pods = [pod(f"claim-{i}", name=f"pod-{i}") for i in range(3)]
    result = dradriver("simulate", "-f", "-", stdin=listed(POOL, CLASS, *claims, *pods))
    assert result.exit_code == 1
    assert lines(result)[:4] == [
        "pod default/pod-0: fits on node node-1",
        "  claim default/claim-0, request device: driver.example.com/node-1/gpu-0",
        "pod default/pod-1: fits on node node-1",
        "  claim default/claim-1, request device: driver.example.com/node-1/gpu-1",
    ]
    assert lines(result)[4] == "pod default/pod-2: fits nowhere"
    assert "claim default/claim-0" in result.stdout


def test_a_claim_without_a_pod_is_tried_by_itself(dradriver: Command) -> None:
    result = dradriver("simulate", "-f", "-", stdin=listed(POOL, CLASS, claim(device_request(count=2))))
    assert result.exit_code == 0
    assert lines(result)[0] == "claim default/claim-1: fits on node node-1"
    assert len(lines(result)) == 3


def test_the_first_node_that_fits_is_taken(dradriver: Command) -> None:
    other = slice_(device("gpu-0"), node_name="node-2")
    result = dradriver(
        "simulate",
        "-f",
        "-",
        stdin=listed(node("node-1"), node("node-2"), other, CLASS, claim(), pod("claim-1")),
    )
    assert lines(result)[0] == "pod default/pod-1: fits on node node-2"


def test_a_pod_that_chose_its_node_is_tried_nowhere_else(dradriver: Command) -> None:
    bound = pod("claim-1", node_name="node-2")
    result = dradriver(
        "simulate", "-f", "-", stdin=listed(node("node-1"), node("node-2"), POOL, CLASS, claim(), bound)
    )
    assert result.exit_code == 1
    assert "node node-1: the pod's nodeName or nodeSelector excludes it" in result.stdout


def test_devices_of_allocated_claims_are_not_given_again(dradriver: Command) -> None:
    held = allocated(claim(name="held"), "gpu-0")
    result = dradriver("simulate", "-f", "-", stdin=listed(POOL, CLASS, held, claim(name="new"), pod("new")))
    assert "  claim default/new, request device: driver.example.com/node-1/gpu-1" in lines(result)


def test_a_template_that_is_missing_is_said(dradriver: Command) -> None:
    result = dradriver("simulate", "-f", "-", stdin=listed(POOL, CLASS, pod(templates=["one-gpu"])))
    assert result.exit_code == 1
    assert "claim template default/one-gpu does not exist" in result.stdout


def test_programs_get_the_allocations(dradriver: Command) -> None:
    result = dradriver("simulate", "-o", "json", "-f", "-", stdin=listed(POOL, CLASS, claim()))
    (item,) = json.loads(result.stdout)["items"]
    assert item["node"] == "node-1"
    assert item["claims"][0]["allocation"]["devices"]["results"][0]["device"] == "gpu-0"


def test_files_with_nothing_to_allocate_are_used_wrongly(dradriver: Command) -> None:
    result = dradriver("simulate", "-f", "-", stdin=listed(POOL, CLASS))
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: the files hold no Pod")


def test_feature_gates_decide_what_may_be_used(dradriver: Command) -> None:
    grouped = Device("gpu-0", consumes_counters=[CounterConsumption("set", {"memory": 1}, ["mig"])])
    counters = slice_(counter_sets=[CounterSet("set", {"memory": 1})], count=2, name="slice-0")
    objects = listed(counters, slice_(grouped, count=2, name="slice-1"), CLASS, claim())
    assert dradriver("simulate", "-f", "-", stdin=objects).exit_code == 1
    gates = ("--feature-gates", "DRADeviceCompatibilityGroups=true")
    assert dradriver("simulate", *gates, "-f", "-", stdin=objects).exit_code == 0
    assert dradriver("simulate", "--feature-gates", "Typo=true", "-f", "-", stdin=objects).exit_code == 2
