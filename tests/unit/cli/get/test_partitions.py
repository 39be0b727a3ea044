"""`dradriver get partitions` draws which claim has which part of a device, only from counters."""

import json
from collections.abc import Callable, Sequence

import pytest
from click.testing import Result
from msgspec.structs import replace

from dradriver.model.resource.claim import ConsumerReference, DeviceResult, ResourceClaim
from dradriver.model.resource.counters import CounterConsumption, CounterSet
from dradriver.model.resource.device import Device
from dradriver.testing.builders import allocated, claim, node, slice_
from tests.unit.cli.worlds import GPU_DRIVER, a100, listed

Command = Callable[..., Result]


def holding(name: str, *devices: str, pod: str = "", pool: str = "node-1") -> ResourceClaim:
    """A claim that was allocated these devices, reserved for a pod."""
    results = [DeviceResult(request="device", driver=GPU_DRIVER, pool=pool, device=each) for each in devices]
    held = allocated(claim(name=name), *results)
    users = [ConsumerReference(resource="pods", name=pod, uid="1")] if pod else []
    return replace(held, status=replace(held.status, reserved_for=users))


def drawn(dradriver: Command, *objects: object, options: Sequence[str] = ()) -> list[str]:
    result = dradriver("get", "partitions", "-f", "-", *options, stdin=listed(*objects))
    assert result.exit_code == 0, result.output
    return [line.strip() for line in result.stdout.splitlines()]


def test_the_memory_slices_of_a_device_are_its_cells(dradriver: Command) -> None:
    claims = (
        holding("train", "gpu-0-mig-3g-20gb-0", pod="train-0"),
        holding("infer", "gpu-0-mig-1g-5gb-4"),
    )
    lines = drawn(dradriver, *a100(), *claims)
    assert lines[:3] == [
        "gpu.nvidia.com/node-1, counter set gpu-0-counter-set",
        "memory-slice     0 1 2 3 4 5 6 7",
        "A A A A B . . .",
    ]
    assert "A  gpu-0-mig-3g-20gb-0  claim default/train  pod default/train-0" in lines
    assert "B  gpu-0-mig-1g-5gb-4   claim default/infer" in lines


def test_other_counters_are_bars_in_which_each_device_has_its_part(dradriver: Command) -> None:
    lines = drawn(dradriver, *a100(), holding("train", "gpu-0-mig-4g-20gb-0"))
    assert "multiprocessors  AAAAAAAAAAAAA...........  56 of 98" in lines


def test_devices_that_still_fit_are_listed(dradriver: Command) -> None:
    assert drawn(dradriver, *a100(), holding("all", "gpu-0"))[-1] == "0 of 25 devices still fit"
    one = holding("most", "gpu-0-mig-4g-20gb-0", "gpu-0-mig-2g-10gb-4")
    assert drawn(dradriver, *a100(), one)[-1] == (
        "3 of 25 devices still fit: gpu-0-mig-1g-5gb-6, gpu-0-mig-1g-5gb-me-6, gpu-0-mig-1g-10gb-6"
    )


def partitioned(groups: Sequence[str], *, total: int = 10, each: int = 4) -> Sequence[object]:
    """A pool of three devices that share one counter, the last one of other groups than the first two."""
    devices = [
        Device(f"part-{number}", consumes_counters=[CounterConsumption("set", {"memory": each}, [group])])
        for number, group in enumerate(groups)
    ]
    counters = slice_(counter_sets=[CounterSet("set", {"memory": total})], count=2, name="slice-0")
    return counters, slice_(*devices, count=2, name="slice-1")


def test_a_device_of_other_compatibility_groups_does_not_fit(dradriver: Command) -> None:
    lines = drawn(dradriver, *partitioned(["mig", "mig", "vgpu"]), allocated(claim(), "part-0"))
    assert lines[-1] == "1 of 3 devices still fit: part-1"


def test_a_counter_that_a_driver_reduced_is_overdrawn(dradriver: Command) -> None:
    lines = drawn(dradriver, *partitioned(["mig"] * 3, total=3), allocated(claim(), "part-0"))
    assert "memory  AAAAAAAAAAAAAAAAAAAAAAAA  4 of 3, overdrawn" in lines


def test_two_devices_in_one_cell_are_marked(dradriver: Command) -> None:
    lying = holding("one", "gpu-0-mig-1g-5gb-0"), holding("two", "gpu-0-mig-1g-5gb-me-0")
    assert drawn(dradriver, *a100(), *lying)[2] == "! . . . . . . ."


def test_one_node_can_be_selected(dradriver: Command) -> None:
    objects = (*a100("node-1"), *a100("node-2"), node("node-1"), node("node-2"))
    lines = drawn(dradriver, *objects, options=["--node", "node-2"])
    assert [line for line in lines if "counter set" in line] == [
        "gpu.nvidia.com/node-2, counter set gpu-0-counter-set"
    ]
    result = dradriver("get", "partitions", "--node", "node-9", "-f", "-", stdin=listed(*objects))
    assert (result.exit_code, result.stderr) == (1, "Error: there is no node node-9\n")


def test_programs_get_the_numbers(dradriver: Command) -> None:
    objects = listed(*a100(), holding("train", "gpu-0-mig-3g-20gb-0", pod="train-0"))
    result = dradriver("get", "partitions", "-o", "json", "-f", "-", stdin=objects)
    (use,) = json.loads(result.stdout)["items"]
    assert (use["driver"], use["pool"], use["counterSet"]) == (GPU_DRIVER, "node-1", "gpu-0-counter-set")
    assert {"name": "memory", "total": "40192Mi", "used": "19968Mi"} in use["counters"]
    (held,) = use["inUse"]
    assert (held["device"], held["claims"], held["pods"]) == (
        "gpu-0-mig-3g-20gb-0",
        ["default/train"],
        ["default/train-0"],
    )
    assert held["consumes"]["memory-slice-3"] == "1"


def test_pools_without_counters_are_reported(dradriver: Command) -> None:
    result = dradriver("get", "partitions", "-f", "-", stdin=listed(slice_(Device("gpu-0"))))
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.startswith("No counter sets")


@pytest.mark.parametrize(("form", "begin"), [("svg", "<svg "), ("html", "<!DOCTYPE html>")])
def test_drawings_are_files_with_the_devices_in_use_and_the_taints_of_rules(
    dradriver: Command, form: str, begin: str
) -> None:
    drain = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceTaintRule",
        "metadata": {"name": "drain"},
        "spec": {"deviceSelector": {"device": "gpu-1"}, "taint": {"key": "repair", "effect": "NoSchedule"}},
    }
    objects = listed(*a100(gpus=2), holding("train", "gpu-0-mig-3g-20gb-0", pod="train-0"), drain)
    result = dradriver("get", "partitions", "-f", "-", "-o", form, stdin=objects)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith(begin)
    for part in ("gpu-0-mig-3g-20gb-0", "default/train-0", "repair:NoSchedule"):
        assert part in result.stdout


def test_a_drawing_of_a_node_has_only_its_devices(dradriver: Command) -> None:
    objects = listed(*a100("node-1"), *a100("node-2"))
    drawn = dradriver("get", "partitions", "-f", "-", "-o", "svg", "--node", "node-2", stdin=objects).stdout
    assert "node node-2" in drawn
    assert "node-1" not in drawn
    missing = dradriver("get", "partitions", "-f", "-", "-o", "svg", "--node", "node-3", stdin=objects)
    assert (missing.exit_code, missing.stdout) == (1, "")
    assert "there is no node node-3" in missing.stderr
