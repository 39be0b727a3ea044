"""`dradriver validate` lists all errors with file, document and field."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from click.testing import Result

from dradriver.cli.files import read_files
from dradriver.cli.validation.command import findings

Command = Callable[..., Result]


def slice_body(**spec: object) -> dict[str, object]:
    pool = {"name": "node-1", "generation": 1, "resourceSliceCount": 1}
    defaults: dict[str, object] = {
        "driver": "gpu.example.com",
        "nodeName": "node-1",
        "pool": pool,
        "devices": [],
    }
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "slice-1"},
        "spec": defaults | spec,
    }


def class_body(**spec: object) -> dict[str, object]:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "gpu.example.com"},
        "spec": spec,
    }


def claim_body(devices: object) -> dict[str, object]:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "claim-1"},
        "spec": {"devices": devices},
    }


def rule_body(**spec: object) -> dict[str, object]:
    taint = {"key": "example.com/broken", "effect": "NoExecute"}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceTaintRule",
        "metadata": {"name": "rule-1"},
        "spec": {"deviceSelector": {"driver": "gpu.example.com"}, "taint": taint} | spec,
    }


def pod_body(resources: object) -> dict[str, object]:
    container = {"name": "main", "image": "busybox", "resources": resources}
    metadata, spec = {"name": "pod"}, {"containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def check(tmp_path: Path, *bodies: object, as_json: bool = False) -> list[str]:
    path = tmp_path / ("objects.json" if as_json else "objects.yaml")
    if as_json:
        path.write_text(json.dumps(bodies[0], separators=(",", ":")))
    else:
        path.write_text(yaml.safe_dump_all(bodies, sort_keys=False))
    return [str(finding).removeprefix(f"{path}:") for finding in findings(read_files([str(path)]))]


def test_valid_objects_have_no_findings(tmp_path: Path) -> None:
    config = [{"opaque": {"driver": "gpu.example.com", "parameters": {"a": 1, "b": {"c": "x"}}}}]
    selectors = [{"cel": {"expression": 'device.driver == "gpu.example.com"'}}]
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}
    assert (
        check(
            tmp_path,
            slice_body(devices=[{"name": "gpu-0", "attributes": {"model": {"string": "x"}}}]),
            class_body(selectors=selectors, config=config),
            claim_body({"requests": [request]}),
            rule_body(),
            {**rule_body(), "apiVersion": "resource.k8s.io/v1alpha3", "metadata": {"name": "rule-2"}},
            pod_body({"requests": {"cpu": "100m"}, "limits": {"example.com/gpu": 1}}),
        )
        == []
    )


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (slice_body(devices=[{"name": "a", "atributes": {}}]), "spec.devices[0].atributes: ResourceSlice"),
        (slice_body(devices=[{"name": "gpu.0"}]), "spec.devices[0].name: Invalid value"),
        (slice_body(devices="none"), "cannot unmarshal string"),
        (slice_body(nodeName=None), "spec: Required value: exactly one of `nodeName`"),
        (
            class_body(selectors=[{"cel": {"expression": "device.drivr == 'x'"}}]),
            "spec.selectors[0].cel.expression",
        ),
        (class_body(selectors=[{"cel": {"expression": "device."}}]), "does not compile"),
        (claim_body({"requests": [{"name": "a"}]}), "spec.devices.requests[0]: Required value"),
        (
            {**class_body(), "apiVersion": "resource.k8s.io/v2"},
            "apiVersion: 'resource.k8s.io/v2' is not one of",
        ),
        ({**class_body(), "metadata": {"name": "Upper"}}, "metadata.name: Invalid value"),
        (rule_body(selector={"driver": "gpu.example.com"}), "spec.selector: DeviceTaintRule"),
        (rule_body(taint={"key": "broken", "effect": "NoSched"}), "spec.taint.effect: Unsupported value"),
        ({**rule_body(), "apiVersion": "resource.k8s.io/v1beta1"}, "is not one of resource.k8s.io/v1, "),
        (
            pod_body({"requests": {"example.com/gpu": 1}}),
            "spec.containers[0].resources.limits: Required value: Limit must be set",
        ),
        (
            pod_body({"requests": {"example.com/gpu": 1}, "limits": {"example.com/gpu": 2}}),
            "spec.containers[0].resources.requests: Invalid value",
        ),
        ({"apiVersion": "v1", "metadata": {}}, "kind: is missing, and the object is not a CDI spec"),
        (
            {
                "cdiVersion": "0.3.0",
                "kind": "v.io/cc",
                "devices": [
                    {"name": "d", "containerEdits": {"mounts": [{"hostPath": "/a", "containerPath": "/b"}]}}
                ],
            },
            "devices[0].containerEdits.mounts[0].options: must have a type, or option bind",
        ),
        ({"cdiVersion": "0.3.0", "kind": "v.io/c", "devices": []}, "devices: at least one device is required"),
        (
            {"cdiVersion": "0.2.9", "kind": "v.io/cc", "devices": [{"name": "d", "containerEdits": {}}]},
            "cdiVersion: '0.2.9' is not one of",
        ),
        (
            {
                "cdiVersion": "0.3.0",
                "kind": "v.io/cc",
                "devices": [{"name": "d", "containerEdits": {"additionalGids": [1]}}],
            },
            "too old: the fields of the spec need 0.7.0",
        ),
    ],
)
def test_each_broken_rule_names_its_field(tmp_path: Path, body: object, expected: str) -> None:
    assert any(expected in finding for finding in check(tmp_path, body)), check(tmp_path, body)


def test_an_unknown_counter_set_is_an_error_although_the_server_accepts_it(
    tmp_path: Path,
) -> None:
    consumes = [{"counterSet": "gpu-1", "counters": {"memory": {"value": "1"}}}]
    (finding,) = check(tmp_path, slice_body(devices=[{"name": "d", "consumesCounters": consumes}]))
    field = "ResourceSlice slice-1: spec.devices[0].consumesCounters[0].counterSet: pool gpu.example.com/node-1"
    assert field in finding


def test_missing_slices_of_a_pool_are_a_warning(tmp_path: Path) -> None:
    (finding,) = check(tmp_path, slice_body(pool={"name": "p", "generation": 3, "resourceSliceCount": 2}))
    assert "warning: spec.pool.resourceSliceCount" in finding
    assert "generation 3 has 1 of 2 slices" in finding


def test_only_the_newest_generation_of_a_pool_is_checked(tmp_path: Path) -> None:
    old = slice_body(pool={"name": "p", "generation": 1, "resourceSliceCount": 5})
    new = slice_body(pool={"name": "p", "generation": 2, "resourceSliceCount": 1})
    (finding,) = check(tmp_path, old, {**new, "metadata": {"name": "slice-2"}})
    assert "warning: spec.pool.generation: pool gpu.example.com/p: generation 1 is obsolete" in finding


def test_more_than_2048_consumed_counters_in_a_slice_is_a_warning(tmp_path: Path) -> None:
    counters = {f"c{i}": {"value": "1"} for i in range(32)}
    consuming = [
        {
            "name": f"d{i}",
            "consumesCounters": [{"counterSet": name, "counters": counters} for name in ("a", "b")],
        }
        for i in range(33)
    ]
    warnings = [f for f in check(tmp_path, slice_body(devices=consuming)) if "warning" in f]
    assert any("2112 consumed counters" in warning for warning in warnings)


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        ({"b": 1, "a": 2}, "keys are not sorted"),
        ({"a": 1.0}, "numbers such as 1.0"),
        ({"a": "<b>"}, "not escaped"),
    ],
)
def test_opaque_parameters_that_are_not_canonical_are_a_warning(
    tmp_path: Path, parameters: object, reason: str
) -> None:
    body = class_body(config=[{"opaque": {"driver": "d.example.com", "parameters": parameters}}])
    (finding,) = check(tmp_path, body, as_json=True)
    assert "warning: spec.config[0].opaque.parameters" in finding
    assert reason in finding


def test_the_form_of_parameters_that_kubectl_rewrites_does_not_matter(tmp_path: Path) -> None:
    parameters = {"b": 1.0, "a": "<b>"}
    body = class_body(config=[{"opaque": {"driver": "d.example.com", "parameters": parameters}}])
    assert check(tmp_path, body) == []
    path = tmp_path / "laid-out.json"
    path.write_text(json.dumps(body, indent=2))
    assert list(findings(read_files([str(path)]))) == []


def test_a_missing_version_is_an_error(tmp_path: Path) -> None:
    body = class_body()
    del body["apiVersion"]
    (finding,) = check(tmp_path, body)
    assert "apiVersion: is missing" in finding


def test_a_document_that_is_not_an_object_is_an_error_and_the_others_are_read(tmp_path: Path) -> None:
    listed = check(tmp_path, class_body(), "words", slice_body(devices=[{"name": "A"}]), [1])
    assert listed[0].endswith('must be an object, not "words"')
    assert listed[1].endswith("must be an object, not [1]")
    assert "ResourceSlice slice-1: spec.devices[0].name" in listed[2]


def test_documents_after_one_that_is_not_yaml_are_read(tmp_path: Path) -> None:
    path = tmp_path / "objects.yaml"
    path.write_text("kind: A\n---\na: [1\n---\nb: {c\n---\n" + yaml.safe_dump(class_body(selectors=1)))
    listed = list(findings(read_files([str(path)])))
    assert [finding.document for finding in listed] == [2, 3, 4]
    assert str(listed[0]).startswith(f"{path}:4: not YAML: ")


@pytest.mark.parametrize("content", ["", "# nothing\n---\n"])
def test_an_empty_file_or_folder_is_an_error(dradriver: Command, tmp_path: Path, content: str) -> None:
    file, folder = tmp_path / "empty.yaml", tmp_path / "folder"
    file.write_text(content)
    folder.mkdir()
    for name in (file, folder):
        result = dradriver("validate", "-f", str(name))
        assert result.exit_code == 1
        assert result.stdout.startswith(f"{name}: no objects")


def test_v1beta1_devices_are_checked_by_the_rules_of_v1(tmp_path: Path) -> None:
    body = slice_body(devices=[{"name": "gpu.0", "basic": {"attributes": {}}}])
    (finding,) = check(tmp_path, {**body, "apiVersion": "resource.k8s.io/v1beta1"})
    assert "spec.devices[0].name" in finding


def test_items_of_a_list_are_checked_one_by_one(tmp_path: Path) -> None:
    listed = {"apiVersion": "v1", "kind": "List", "items": [class_body(), slice_body(devices=[{"name": "A"}])]}
    (finding,) = check(tmp_path, listed)
    assert "ResourceSlice slice-1: spec.devices[0].name" in finding


def test_a_duplicate_key_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "twice.yaml"
    path.write_text("kind: A\nspec: {a: 1, a: 2}\n")
    (finding,) = findings(read_files([str(path)]))
    assert "duplicate key 'a'" in str(finding)
    assert finding.line == 2


def test_the_exit_code_is_1_and_all_problems_are_listed(dradriver: Command) -> None:
    result = dradriver(
        "validate",
        "-f",
        "-",
        stdin=yaml.safe_dump_all([class_body(), slice_body(devices=[{"name": "A"}, {"name": "B"}])]),
    )
    assert result.exit_code == 1
    assert "<stdin>:13: ResourceSlice slice-1: spec.devices[0].name" in result.stdout
    assert "<stdin>:14: ResourceSlice slice-1: spec.devices[1].name" in result.stdout
    assert "2 object(s) checked, 2 error(s)" in result.stderr


def test_a_duplicate_object_is_an_error(tmp_path: Path) -> None:
    (finding,) = check(tmp_path, class_body(), class_body())
    assert "metadata.name: duplicate DeviceClass gpu.example.com, first defined in" in finding


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ((2, 3), "spec.pool.resourceSliceCount: pool gpu.example.com/p: 3 differs from 2 in slice-0"),
        (
            (1, 1),
            "spec.pool.resourceSliceCount: pool gpu.example.com/p: generation 1 has 2 slices, more than 1",
        ),
    ],
)
def test_slices_that_disagree_on_their_number_are_an_error(
    tmp_path: Path, counts: tuple[int, int], expected: str
) -> None:
    bodies = [
        slice_body(pool={"name": "p", "generation": 1, "resourceSliceCount": count})
        | {"metadata": {"name": f"slice-{number}"}}
        for number, count in enumerate(counts)
    ]
    (finding,) = check(tmp_path, *bodies)
    assert expected in finding
    assert "warning" not in finding


def pool_of(*devices: object, sets: object) -> list[dict[str, object]]:
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 2}
    counters = slice_body(pool=pool, sharedCounters=sets) | {"metadata": {"name": "counters"}}
    counters["spec"].pop("devices")  # type: ignore[attr-defined]
    return [counters, slice_body(pool=pool, devices=devices) | {"metadata": {"name": "devices"}}]


def consuming(name: str, amount: str, *groups: str) -> dict[str, object]:
    taken = {"counterSet": "set", "counters": {"memory": {"value": amount}}}
    return {"name": name, "consumesCounters": [taken | ({"compatibilityGroups": groups} if groups else {})]}


SET = {"name": "set", "counters": {"memory": {"value": "10"}}}


@pytest.mark.parametrize(
    ("devices", "sets", "expected"),
    [
        ([], [SET, SET], "spec.sharedCounters[1]"),
        ([consuming("a", "1"), consuming("a", "2")], [SET], "spec.devices[1]"),
        ([consuming("a", "11")], [SET], "warning: spec.devices[0].consumesCounters[0].counters[memory]: pool"),
        (
            [consuming("a", "1", "mig"), consuming("b", "1")],
            [SET],
            "warning: spec.devices[1].consumesCounters[0].compatibilityGroups: pool",
        ),
    ],
)
def test_rules_across_the_slices_of_a_pool(
    tmp_path: Path, devices: list[object], sets: list[object], expected: str
) -> None:
    listed = check(tmp_path, *pool_of(*devices, sets=sets))
    assert any(expected in finding for finding in listed), listed


def test_findings_are_a_document_for_programs(dradriver: Command) -> None:
    result = dradriver(
        "validate", "-o", "json", "-f", "-", stdin=json.dumps(slice_body(devices=[{"name": "A"}]))
    )
    answer = json.loads(result.stdout)
    assert (answer["apiVersion"], answer["kind"]) == ("dradriver/v1", "Validation")
    assert answer["valid"] is False
    (finding,) = answer["findings"]
    assert (finding["line"], finding["problem"]["path"]) == (1, "spec.devices[0].name")
    assert finding["hint"] == "write a"


def test_warnings_alone_are_valid(dradriver: Command) -> None:
    body = slice_body(pool={"name": "p", "generation": 1, "resourceSliceCount": 2})
    assert dradriver("validate", "-f", "-", stdin=json.dumps(body)).exit_code == 0


def test_a_missing_file_is_one_line(dradriver: Command) -> None:
    result = dradriver("validate", "-f", "/no/such/file")
    assert (result.exit_code, result.stderr) == (1, "Error: /no/such/file: No such file or directory\n")


def test_the_manifests_of_the_example_are_valid(dradriver: Command) -> None:
    folder = Path(__file__).parents[4] / "examples/loop/manifests"
    result = dradriver("validate", "-f", str(folder))
    assert result.exit_code == 0, result.output


def test_extended_resources_are_checked_across_the_files(tmp_path: Path) -> None:
    """KEP-5004: a class that can't be asked for, two that name one resource, and a pod that can't be served."""
    long = {**class_body(), "metadata": {"name": "x" * 64}}
    first = class_body(extendedResourceName="example.com/gpu")
    second = {**first, "metadata": {"name": "second.example.com"}}
    pod = pod_body({"limits": {"example.com/gpu": 33}})
    listed = "\n".join(check(tmp_path, long, first, second, pod))
    assert "must be at most 63 characters, has 64" in listed
    assert "warning: spec.extendedResourceName: example.com/gpu is served by class gpu.example.com" in listed
    assert "Pod pod: warning: spec: extended resources: 33 devices: a claim must have at most 32" in listed
