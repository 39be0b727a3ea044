"""Every finding of `dradriver validate` names the line of its field, in YAML and in JSON."""

import json
from pathlib import Path

import pytest

from dradriver.cli.files import read_files
from dradriver.cli.validation.command import findings

SLICE = """\
# A slice with three errors.
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata:
  name: slice-1
spec:
  driver: gpu.example.com
  nodeName: node-1
  pool: {name: node-1, generation: 1, resourceSliceCount: 1}
  devices:
  - name: gpu-0
    attributes:
      model: {sting: a}
  - name: gpu.1
  - name: gpu-2
    consumesCounters:
    - counterSet: gone
      counters:
        memory: {value: "1"}
"""
CLAIM = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: claim-1}
spec:
  devices:
    requests:
    - name: a
"""


def lines(tmp_path: Path, text: str) -> list[tuple[int | None, str]]:
    path = tmp_path / "objects"
    path.write_text(text)
    return [(finding.line, finding.problem.path) for finding in findings(read_files([str(path)]))]


def test_lines_in_yaml(tmp_path: Path) -> None:
    assert lines(tmp_path, SLICE) == [
        (13, "spec.devices[0].attributes.model.sting"),
        (13, "spec.devices[0].attributes[model]"),
        (14, "spec.devices[1].name"),
        (17, "spec.devices[2].consumesCounters[0].counterSet"),
    ]


def test_lines_in_later_documents(tmp_path: Path) -> None:
    text = f"---\n---\n{CLAIM}---\n{CLAIM.replace('claim-1', 'claim-2')}"
    assert [line for line, _ in lines(tmp_path, text)] == [9, 17]


@pytest.mark.parametrize("indent", [1, 2, 4])
def test_lines_in_formatted_json(tmp_path: Path, indent: int) -> None:
    devices = [{"name": "ok"}, {"name": "gpu.1", "attributes": {"x": {"string": 'a "}, {" b'}}}]
    body = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "slice-1"},
        "spec": {
            "driver": "gpu.example.com",
            "nodeName": "node-1",
            "pool": {"name": "node-1", "generation": 1, "resourceSliceCount": 1},
            "devices": devices,
        },
    }
    text = json.dumps(body, indent=indent)
    expected = 1 + next(n for n, line in enumerate(text.splitlines()) if "gpu.1" in line)
    assert lines(tmp_path, text) == [(expected, "spec.devices[1].name")]


def test_lines_in_items_of_a_list(tmp_path: Path) -> None:
    both = (CLAIM, CLAIM.replace("claim-1", "claim-2"))
    items = "".join(f"- {text.replace(chr(10), chr(10) + '  ').removesuffix('  ')}" for text in both)
    numbers = lines(tmp_path, f"apiVersion: v1\nkind: List\nitems:\n{items}")
    assert numbers == [(10, "spec.devices.requests[0]"), (17, "spec.devices.requests[0]")]


def test_a_missing_field_has_the_line_of_its_object(tmp_path: Path) -> None:
    text = SLICE.replace("  nodeName: node-1\n", "").partition("  devices:")[0]
    assert lines(tmp_path, text) == [(6, "spec")]


def test_v1beta1_devices_have_the_lines_of_their_own_version(tmp_path: Path) -> None:
    text = SLICE.partition("  - name: gpu.1")[0].replace("/v1", "/v1beta1").replace("sting", "string: 1")
    old = text.replace("    attributes:\n      model", "    basic:\n      attributes:\n        model")
    assert [line for line, _ in lines(tmp_path, old)] == [14]
