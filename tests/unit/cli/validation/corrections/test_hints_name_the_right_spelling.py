"""`dradriver validate` names the nearest right spelling of what it rejects, with its line."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Command = Callable[..., Result]

# A comment after a wrong line is the hint that its finding must have.
FILE = """\
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: Node_1}                          # write node-1
spec:
  driver: gpu.example.com
  nodename: node-1                                # did you mean nodeName?
  allNodes: true
  pool:
    name: node-1
    generation: "1"                               # write 1 without quotation marks
    resourceSliceCount: 1
  devices:
  - name: gpu.0                                   # write gpu-0
    capacity:
      memory: {value: 40GB}                       # write 40G or 40Gi
      cores: {valeu: 4}                           # did you mean value?
    attributes:
      healthy: {bool: "True"}                     # write true without quotation marks
      model: {string: 5}                          # write "5" with quotation marks
    taints:
    - {key: example.com/broken, effect: noexecute} # write NoExecute
---
apiVersion: resource.k8s.io/v2                    # write apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: claim}
spec:
  devices:
    requests:
    - name: gpu
      exactly:
        deviceClassName: gpu.example.com
        allocationMode: exactcount                # write ExactCount
        capacity: {requests: {memory: 10GiB}}     # write 10Gi
        selectors:
        - cel:
            expression: device.capacity["gpu.example.com"].memory == quantity("1GB") # write 1G or 1Gi
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTempalte                       # write kind: ResourceClaimTemplate
metadata: {name: template}
---
kind: Pod                                         # write apiVersion: v1
metadata: {name: pod}
spec:
  containers:
  - name: main
    resources:
      claims: [{name: gpu}]
      limits:
        memory: 4GB                               # write 4G or 4Gi
  resourceClaims:
  - name: gpu
    resourceClaimName: gpu
    resourceClaimTemplatename: gpu                # did you mean resourceClaimTemplateName?
---
apiVersion: v1
kind: pod                                         # write kind: Pod
metadata: {name: small}
"""


def findings(dradriver: Command, path: Path) -> list[dict[str, object]]:
    result = dradriver("validate", "-o", "json", "-f", str(path))
    assert result.exit_code == 1
    listed: list[dict[str, object]] = json.loads(result.stdout)["findings"]
    return listed


def test_each_mistake_of_a_file_is_found_on_its_line_with_its_hint(dradriver: Command, tmp_path: Path) -> None:
    path = tmp_path / "file.yaml"
    path.write_text(FILE)
    wanted = {
        (number, match[1])
        for number, line in enumerate(FILE.splitlines(), 1)
        if (match := re.search(r" # (.*)", line))
    }
    found = findings(dradriver, path)
    assert {(each["line"], each["hint"]) for each in found if each["hint"]} == wanted
    assert {each["document"] for each in found} == {1, 2, 3, 4, 5}


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1"])
def test_the_corrected_values_are_accepted(dradriver: Command, version: str) -> None:
    text = (
        f"apiVersion: resource.k8s.io/{version}\n"
        + """\
kind: ResourceClaim
metadata: {name: claim}
spec:
  devices:
    requests:
    - name: gpu
      exactly:
        deviceClassName: gpu.example.com
        capacity: {requests: {memory: 10Gi}}
"""
    )
    if version == "v1beta1":
        text = text.replace("      exactly:\n", "").replace("        ", "      ")
    assert dradriver("validate", "-f", "-", stdin=text).exit_code == 0


def test_errors_of_the_oldest_version_have_their_own_lines(dradriver: Command, tmp_path: Path) -> None:
    """In v1beta1, the fields of a request and of a device are on other levels."""
    path = tmp_path / "file.yaml"
    path.write_text(
        """\
apiVersion: resource.k8s.io/v1beta1
kind: ResourceClaim
metadata: {name: claim}
spec:
  devices:
    requests:
    - name: gpu
      deviceClassName: gpu.example.com
      count: "2"
---
apiVersion: resource.k8s.io/v1beta1
kind: ResourceSlice
metadata: {name: slice}
spec:
  driver: gpu.example.com
  nodeName: node-1
  pool: {name: node-1, generation: 1, resourceSliceCount: 1}
  devices:
  - name: gpu-0
    basic:
      capacity:
        memory: {value: 40GB}
  - name: gpu-1
    basik: {}
"""
    )
    assert [(each["line"], each["hint"]) for each in findings(dradriver, path)] == [
        (9, "write 2 without quotation marks"),
        (22, "write 40G or 40Gi"),
        (24, "did you mean basic?"),
    ]


@pytest.mark.parametrize(
    ("version", "kind"),
    [
        ("resource.k8s.io/v1alpha2", "ResourceClass"),
        ("resource.k8s.io/v1", "ResourceClaimList"),
        ("apps/v1", "DeviceClas"),
        ("v1", "PodList"),
        ("v1", "ConfigMap"),
    ],
)
def test_kinds_that_only_resemble_ours_are_skipped(dradriver: Command, version: str, kind: str) -> None:
    result = dradriver(
        "validate", "-f", "-", stdin=f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: a}}\n"
    )
    assert result.exit_code == 0, result.output


def test_a_container_must_name_a_claim_of_its_pod(dradriver: Command) -> None:
    text = """\
apiVersion: v1
kind: Pod
metadata: {name: pod}
spec:
  containers: [{name: main, resources: {claims: [{name: gpus}]}}]
  resourceClaims: [{name: gpu, resourceClaimName: a, resourceClaimTemplateName: b}]
"""
    output = dradriver("validate", "-f", "-", stdin=text).stdout
    assert "spec.resourceClaims[0]" in output
    assert "must specify at most one of: `resourceClaimName`, `resourceClaimTemplateName`" in output
    assert "spec.containers[0].resources.claims[0]" in output
    assert "must be one of the names in pod.spec.resourceClaims" in output
