"""`examples/keps`: the KEPs' own examples, through the commands of the documentation."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from dradriver.cli import main
from tests.conformance.allocator.a100 import a100_slices

FOLDER = Path(__file__).parents[2] / "examples/keps"
GROUPS = ("--feature-gates", "DRADeviceCompatibilityGroups=true")


def dradriver(*words: str) -> Result:
    return CliRunner().invoke(main, words)


def simulated(name: str, *words: str) -> dict[str, Any]:
    result = dradriver("simulate", "-f", str(FOLDER / name), "-o", "json", *words)
    document: dict[str, Any] = json.loads(result.stdout)
    return document


def devices(document: dict[str, Any]) -> dict[str, list[str]]:
    return {
        pod: [result["device"] for claim in found["claims"].values() for result in claim["devices"]["results"]]
        for pod, found in document["placements"].items()
    }


def test_all_of_them_are_valid() -> None:
    result = dradriver("validate", "-f", str(FOLDER))
    assert (result.exit_code, result.stdout) == (0, "")


@pytest.mark.parametrize("order", ["ordered", "packed"])
def test_four_partitions_fill_a_gpu(order: str) -> None:
    found = simulated("4815-gpu-partitions.yaml", "--order", order)
    assert devices(found) == {f"partition-{n}": [f"gpu-0-partition-{n}"] for n in range(4)}
    (reason,) = found["unschedulable"]["whole"]
    assert "counter memory of counter set gpu-0-counter-set: 40Gi needed, 0 left" in reason


def test_the_slices_of_the_mig_example_are_those_of_the_table() -> None:
    documents = yaml.safe_load_all((FOLDER / "4815-mig-claim.yaml").read_text())
    slices = [each for each in documents if each["kind"] == "ResourceSlice"]
    assert [{"metadata": each["metadata"], "spec": each["spec"]} for each in slices] == a100_slices("node-1", 2)


def test_the_mig_devices_of_one_claim_are_adjacent() -> None:
    """As in the drawing of the KEP: 1g.5gb, 1g.5gb, 2g.10gb, 3g.20gb."""
    found = devices(simulated("4815-mig-claim.yaml"))
    assert found == {
        "mig": ["gpu-0-mig-1g-5gb-0", "gpu-0-mig-1g-5gb-1", "gpu-0-mig-2g-10gb-2", "gpu-0-mig-3g-20gb-4"]
    }


@pytest.mark.parametrize("order", ["ordered", "packed"])
def test_pods_share_a_device_of_several_nodes_and_a_third_finds_none(order: str) -> None:
    found = simulated("4815-tpu-4x4.yaml", "--order", order)
    placed = found["placements"]
    nodes = {placed[f"tpu-consumer-{number}"]["node"] for number in (1, 2)}
    assert nodes in ({"node-1", "node-2"}, {"node-5", "node-6"})
    assert placed["tpu-consumer-1"]["claims"] == placed["tpu-consumer-2"]["claims"]
    assert set(found["unschedulable"]) == {"tpu-consumer-3", "large"}
    assert "node(s) didn't match pod anti-affinity rules" in " ".join(found["unschedulable"]["tpu-consumer-3"])
    assert "in use by claim default/tpu-2x4" in " ".join(found["unschedulable"]["large"])


def test_a_vgpu_is_not_allocated_beside_mig_instances() -> None:
    found = simulated("5963-mig-and-vgpu.yaml", *GROUPS)
    assert devices(found) == {"pod-a": ["gpu-0-mig-1g-0"], "pod-b": ["gpu-0-mig-1g-1"]}
    (reason,) = found["unschedulable"]["pod-c"]
    assert "counter set gpu-0-counters is used with compatibility groups mig, not vgpu" in reason


def test_foo_and_bar_share_foobar_and_baz_shares_nothing() -> None:
    found = simulated("5963-foo-bar-baz.yaml", *GROUPS)
    assert devices(found) == {"pod-a": ["device-0-foo-0"], "pod-b": ["device-0-bar-0"]}
    assert "compatibility groups foobar, not baz" in " ".join(found["unschedulable"]["pod-c"])


PAGE = (FOLDER.parents[1] / "docs/placing.md").read_text()
SHOWN = re.findall(r"^\$ dradriver ([^\n]*examples/[^\n]*)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(("words", "answer"), SHOWN)
def test_the_page_on_placing_has_the_real_output(
    words: str, answer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(FOLDER.parents[1])
    assert dradriver(*words.split()).stdout == answer


def test_with_the_gate_off_kubernetes_ignores_the_slice_and_packed_the_devices() -> None:
    ordered = simulated("5963-mig-and-vgpu.yaml")
    assert devices(ordered) == {}
    assert "is unusable: devices have compatibility groups" in " ".join(ordered["unschedulable"]["pod-a"])
    assert ordered["hints"] == [
        "if DRADeviceCompatibilityGroups is on in the cluster, add "
        "--feature-gates DRADeviceCompatibilityGroups=true"
    ]
    packed = simulated("5963-mig-and-vgpu.yaml", "--order", "packed")
    assert "DRADeviceCompatibilityGroups is off" in " ".join(packed["unschedulable"]["pod-a"])
