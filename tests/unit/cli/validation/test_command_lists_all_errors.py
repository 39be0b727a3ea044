"""`dradriver validate` lists all errors of a file, from each stage of reading.

A line with an error ends with `# FIELD`, the text that a finding of this line must contain.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Command = Callable[..., Result]

CLAIM = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata:
  name: desk
  nmespace: default              # metadata.nmespace
  labels: none                   # metadata.labels
spec:
  devices:
    requests:
    - name: GPU 0                # spec.devices.requests[0].name
      exactly:
        deviceClassName: 5       # spec.devices.requests[0].exactly.deviceClassName
        count: two               # spec.devices.requests[0].exactly.count
        alocationMode: All       # spec.devices.requests[0].exactly.alocationMode
    - name: gpu
      exactly:
        deviceClassName: Gpu_Cls # spec.devices.requests[1].exactly.deviceClassName
        count: -1                # spec.devices.requests[1].exactly.count
        selectors:
        - cel:
            expression: device.( # spec.devices.requests[1].exactly.selectors[0].cel.expression
    - gpu                        # spec.devices.requests[2]
    constraints:
    - matchAttribute: x          # spec.devices.constraints[0].matchAttribute
"""
SLICE = """\
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: leds}
spec:
  driver: LED 1                  # spec.driver
  nodeName: [node-1]             # spec.nodeName
  pool:
    name: leds
    generation: "1"              # spec.pool.generation
    resourceSliceCount: 0        # spec.pool.resourceSliceCount
  devices:
  - name: led 0                  # spec.devices[0].name
    attributes:
      color: {sting: red}        # spec.devices[0].attributes.color.sting
      watts: {int: "5"}          # spec.devices[0].attributes.watts.int
    taints:
    - key: ""                    # spec.devices[0].taints[0].key
      effect: Never              # spec.devices[0].taints[0].effect
"""
OTHERS = """\
apiVersion: v1
kind: Pod
metadata: {name: pod}
spec:
  containers:
  - name: a
    resources:
      requests:
        example.com/gpu: 1
        cpu: many                # spec.containers[0].resources.requests.cpu
  - name: b
    resources: 5                 # spec.containers[1].resources
---
apiVersion: resource.k8s.io/v2   # apiVersion
kind: ResourceClaim
metadata: {name: v2}
spec:
  devices:
    requests: 5                  # spec.devices.requests
---
cdiVersion: "9.9"                # cdiVersion
kind: nvidia                     # kind
devices:
- name: gpu0
  containerEdits:
    env: [5]                     # devices[0].containerEdits.env[0]
    deviceNodes:
    - path: dev/gpu              # devices[0].containerEdits.deviceNodes[0].path
    mouts: []                    # devices[0].containerEdits.mouts
"""
BROKEN = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: open
spec: {}                         # not YAML
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: twice}
metadata: {name: Twice}          # duplicate key 'metadata'
spec:
  selectors:
  - cel: {expression: "true"}
    cel: {expression: "tru"}     # duplicate key 'cel'
    sel: 1                       # spec.selectors[0].sel
---
- 5                              # must be an object
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: last}
spec: {selector: []}             # spec.selector
"""
FILES = {"claim": CLAIM, "slice": SLICE, "others": OTHERS, "broken": BROKEN}


@pytest.mark.parametrize("text", FILES.values(), ids=FILES)
def test_all_errors_are_listed_with_line_and_field(text: str, dradriver: Command, tmp_path: Path) -> None:
    path = tmp_path / "objects.yaml"
    path.write_text(text)
    answer = dradriver("validate", "-f", str(path))
    assert answer.exit_code == 1
    lines = answer.stdout.splitlines()
    marked = [
        (number, match.group(1))
        for number, line in enumerate(text.splitlines(), 1)
        if (match := re.search(r" # (.+)$", line))
    ]
    for number, error in marked:
        here = [line for line in lines if line.startswith(f"{path}:{number}: ")]
        assert any(error in line for line in here), f"{number}: {error}\n{answer.stdout}"
    named = {int(match.group(1)) for line in lines if (match := re.match(rf"{path}:(\d+): ", line))}
    beside = {7} if text is OTHERS else set()  # of the limit that is missing
    assert named - {number for number, _ in marked} <= beside, answer.stdout


def test_all_files_of_a_folder_are_checked(dradriver: Command, tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    answer = json.loads(dradriver("validate", "-f", str(tmp_path), "-o", "json").stdout)
    places = [(Path(each["file"]).stem, each["line"]) for each in answer["findings"]]
    assert {name for name, _ in places} == set(FILES)
    assert all(line for _, line in places)


def test_valid_fields_beside_a_wrong_type_are_not_reported(dradriver: Command, tmp_path: Path) -> None:
    path = tmp_path / "slice.yaml"
    path.write_text(
        "apiVersion: resource.k8s.io/v1\nkind: ResourceSlice\nmetadata: {name: leds}\n"
        "spec:\n  driver: led.example.com\n  nodeName: node-1\n"
        "  pool: {name: leds, generation: one, resourceSliceCount: 1}\n"
        "  devices: [{name: led-0, attributes: {watts: {int: five}}, capacity: {light: {value: [1]}}}]\n"
    )
    findings = json.loads(dradriver("validate", "-f", str(path), "-o", "json").stdout)["findings"]
    assert [each["problem"]["path"] for each in findings] == [
        "spec.pool.generation",
        "spec.devices[0].attributes.watts.int",
        "spec.devices[0].capacity.light.value",
    ]


def test_a_limit_with_a_wrong_amount_is_not_reported_as_missing(dradriver: Command, tmp_path: Path) -> None:
    path = tmp_path / "pod.yaml"
    path.write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: led}\nspec:\n  containers:\n"
        "  - name: c\n    image: i\n    resources:\n"
        "      {limits: {led.example.com/x: two}, requests: {led.example.com/x: 1}}\n"
    )
    findings = json.loads(dradriver("validate", "-f", str(path), "-o", "json").stdout)["findings"]
    (found,) = [each["problem"]["path"] for each in findings]
    assert found == "spec.containers[0].resources.limits.led.example.com/x"
