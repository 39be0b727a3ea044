"""`dradriver validate` proposes corrections for the KEPs' examples that Kubernetes 1.37 rejects."""

from pathlib import Path

import pytest

from dradriver.cli.files import read_files
from dradriver.cli.validation.command import findings

SLICE = "apiVersion: resource.k8s.io/v1\nkind: ResourceSlice\nmetadata: {name: slice}\nspec:\n"
SPEC = "  driver: tpu.example.com\n  pool: {name: p, generation: 1, resourceSliceCount: 1}\n"
CLAIM = "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: claim}\nspec:\n"


def hints(tmp_path: Path, text: str) -> list[str]:
    path = tmp_path / "kep.yaml"
    path.write_text(text)
    return [finding.hint for finding in findings(read_files([str(path)])) if finding.hint]


@pytest.mark.parametrize(
    ("spec", "hint"),
    [
        ("  sharedCounters: [{name: a, counters: {b: {value: 1}}}]\n", "a slice with only counter sets"),
        (
            "  nodeName: n\n  sharedCounters: [{name: a, counters: {memorySlice0: {value: 1}}}]\n",
            "write memory-slice-0",
        ),
        ("  nodeName: n\n  devices: [{name: gpu-0-mig-1g.5gb-0}]\n", "write gpu-0-mig-1g-5gb-0"),
        (
            '  nodeName: n\n  devices: [{name: a, capacity: {tpus: "16"}}]\n',
            "write the amount in the field value: tpus: {value: ...}",
        ),
        (
            "  nodeSelector: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: IN}]}]}\n",
            "write In",
        ),
        ("  nodeName: n\n  devices: [{name: a, basic: {}}]\n", "only v1beta1 has it"),
        ("  nodeName: n\n  devices: [{name: a, atributes: {}}]\n", "did you mean attributes?"),
    ],
)
def test_slices_have_hints(tmp_path: Path, spec: str, hint: str) -> None:
    assert any(text.startswith(hint) for text in hints(tmp_path, SLICE + SPEC + spec))


@pytest.mark.parametrize(
    ("consumes", "hint"),
    [
        ("{counterSet: tpu-couner-set, counters: {tpus: {value: 1}}}", "write tpu-counter-set"),
        ("{counterSet: tpu-counter-set, counters: {tpu: {value: 1}}}", "write tpus"),
    ],
)
def test_misspelt_counter_sets_and_counters_have_hints(tmp_path: Path, consumes: str, hint: str) -> None:
    spec = SPEC.replace("resourceSliceCount: 1", "resourceSliceCount: 2") + "  nodeName: n\n"
    counters = (
        f"{SLICE}{spec}  sharedCounters: [{{name: tpu-counter-set, counters: {{tpus: {{value: 16}}}}}}]\n"
    )
    devices = f"{SLICE.replace('name: slice', 'name: devices')}{spec}  devices:\n  - name: tpu\n"
    assert hints(tmp_path, f"{counters}---\n{devices}    consumesCounters: [{consumes}]\n") == [hint]


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (
            f"{CLAIM}  devices: {{requests: [{{name: a, deviceClassName: gpu}}]}}\n",
            "since v1beta2 the field is one",
        ),
        (f"{CLAIM}  spec: {{devices: {{}}}}\n", "only a ResourceClaimTemplate has spec.spec"),
        (
            f"{CLAIM.replace('Claim', 'ClaimTemplate')}  devices: {{}}\n",
            "the requests of a ResourceClaimTemplate are",
        ),
    ],
)
def test_claims_have_hints(tmp_path: Path, text: str, hint: str) -> None:
    assert [text[: len(hint)] for text in hints(tmp_path, text)] == [hint]


def test_a_type_in_the_path_of_an_attribute_is_a_warning(tmp_path: Path) -> None:
    """KEP-5963 writes it so; the server accepts it, and it is never true."""
    cel = "selectors: [{cel: {expression: \"device.attributes['type'].string == 'vgpu'\"}}]"
    text = f"{CLAIM}  devices: {{requests: [{{name: a, exactly: {{deviceClassName: gpu, {cel}}}}}]}}\n"
    path = tmp_path / "claim.yaml"
    path.write_text(text)
    (finding,) = findings(read_files([str(path)]))
    assert finding.severity == "warning"
    assert finding.problem.path == "spec.devices.requests[0].exactly.selectors[0].cel.expression"
    assert "is the attribute 'string' of the domain 'type'" in finding.problem.rule
