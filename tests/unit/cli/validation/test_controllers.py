"""`dradriver validate` checks classes of controllers, their claims, and both together (KEP-3063)."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from dradriver.model.classic.names import API_VERSION, GROUP
from dradriver.model.encoding.codec import canonical
from dradriver.model.resource.claim import OpaqueConfig, ResourceClaimTemplate, ResourceClaimTemplateSpec
from dradriver.model.resource.deviceclass import ClassConfig
from dradriver.testing import builders
from dradriver.testing.builders import CONTROLLED_CLASS, CONTROLLER
from tests.unit.cli.validation.test_command import check

Json = dict[str, Any]
CLASS = builders.controller_class()
CLAIM = builders.claim(
    builders.device_request(CONTROLLED_CLASS), configs=[builders.controller_claim("Immediate")]
)


def body(value: object) -> Json:
    document: Json = json.loads(canonical(value))
    document["metadata"].pop("uid", None)
    return document


def find(tmp_path: Path, *values: object) -> list[str]:
    """Return the findings without their lines."""
    bodies = [each if isinstance(each, dict) else body(each) for each in values]
    return [finding.partition(": ")[2] for finding in check(tmp_path, *bodies)]


def with_parameters(value: OpaqueConfig | None, **fields: object) -> OpaqueConfig:
    assert value is not None
    return replace(value, parameters=msgspec.Raw(canonical(json.loads(bytes(value.parameters)) | fields)))


def test_a_class_of_a_controller_and_its_claims_have_no_findings(tmp_path: Path) -> None:
    template = ResourceClaimTemplate(
        api_version="resource.k8s.io/v1",
        kind="ResourceClaimTemplate",
        metadata=replace(CLAIM.metadata, name="template"),
        spec=ResourceClaimTemplateSpec(spec=CLAIM.spec),
    )
    assert find(tmp_path, CLASS, CLAIM, template) == []


def test_an_allocation_may_have_pools_that_are_in_no_slice(tmp_path: Path) -> None:
    document = body(CLAIM)
    result = {"request": "device", "driver": "card.example.com", "pool": f"{CONTROLLER}/a", "device": "card-1"}
    document["status"] = {
        "allocation": {"devices": {"results": [result]}, "allocationTimestamp": "2026-01-01T00:00:00Z"}
    }
    assert find(tmp_path, CLASS, document) == []


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"selectors": builders.device_class("c").spec.selectors},
            "spec.selectors: must be exactly one CEL expression `false`",
        ),
        ({"selectors": []}, "spec.selectors: must be exactly one CEL expression `false`"),
        ({"extended_resource_name": "example.com/card"}, "spec.extendedResourceName: must not be set"),
        ({"config": CLASS.spec.config * 2}, "spec.config: must have exactly one ControllerClass"),
        (
            {"config": [ClassConfig(builders.controller_claim())]},
            "spec.config[0].opaque.parameters: must be a ControllerClass of",
        ),
        (
            {"config": [ClassConfig(with_parameters(CLASS.spec.config[0].opaque, controllerNam="x"))]},
            "spec.config[0].opaque.parameters.controllerNam: ControllerClass has no such field",
        ),
        (
            {"config": [ClassConfig(with_parameters(CLASS.spec.config[0].opaque, controllerName="A b"))]},
            "spec.config[0].opaque.parameters.controllerName: ",
        ),
    ],
    ids=["selector", "no selector", "extended resource", "two", "kind", "unknown field", "name"],
)
def test_an_error_of_a_class_names_object_field_and_rule(tmp_path: Path, changes: Json, expected: str) -> None:
    (finding,) = find(tmp_path, replace(CLASS, spec=replace(CLASS.spec, **changes)))
    assert finding.startswith(f"DeviceClass {CONTROLLED_CLASS}: {expected}")


def test_a_wrong_entry_of_a_template_has_its_path_in_the_template(tmp_path: Path) -> None:
    wrong = with_parameters(builders.controller_claim(), allocationMode="Later")
    claim = builders.claim(builders.device_request(CONTROLLED_CLASS), configs=[wrong])
    template = ResourceClaimTemplate(
        api_version="resource.k8s.io/v1",
        kind="ResourceClaimTemplate",
        metadata=replace(claim.metadata, name="template"),
        spec=ResourceClaimTemplateSpec(spec=claim.spec),
    )
    (finding,) = find(tmp_path, template)
    path = "spec.spec.devices.config[0].opaque.parameters.allocationMode"
    assert finding.startswith(f"ResourceClaimTemplate template: {path}: ")


def test_two_allocation_modes_in_one_claim_are_an_error(tmp_path: Path) -> None:
    config = [builders.controller_claim("Immediate"), builders.controller_claim()]
    requests = [builders.device_request(CONTROLLED_CLASS, name=name) for name in ("a", "b")]
    claim = builders.claim(*requests, configs=config)
    for entry, name in zip(claim.spec.devices.config, ("a", "b"), strict=True):
        entry.requests.append(name)
    (finding,) = find(tmp_path, claim)
    assert "spec.devices.config: allocationMode must be the same in all entries" in finding


def test_a_claim_cannot_mix_classes_of_controllers_and_of_slices(tmp_path: Path) -> None:
    requests = [builders.device_request(CONTROLLED_CLASS, name="a"), builders.device_request("gpu", name="b")]
    findings = find(tmp_path, CLASS, builders.device_class("gpu"), builders.claim(*requests))
    assert findings == [
        "ResourceClaim claim-1: spec.devices.requests[1].exactly.deviceClassName: must be a class of the "
        "controller, because another request of the claim has one"
    ]


def test_a_claim_cannot_have_two_controllers(tmp_path: Path) -> None:
    other = builders.controller_class("other", controller="other.example.com")
    requests = [builders.device_request(CONTROLLED_CLASS, name="a"), builders.device_request("other", name="b")]
    (finding,) = find(tmp_path, CLASS, other, builders.claim(*requests))
    assert "spec.devices.requests: classes of one claim must have one controller" in finding


def test_an_entry_without_a_class_of_a_controller_has_no_effect(tmp_path: Path) -> None:
    claim = builders.claim(builders.device_request("gpu"), configs=[builders.controller_claim()])
    (warning,) = find(tmp_path, builders.device_class("gpu"), claim)
    assert warning == (
        "ResourceClaim claim-1: warning: spec.devices.config: has a ControllerClaim, but gpu is not a class "
        "of a controller: the entry has no effect"
    )
    assert find(tmp_path, claim) == [], "the class may exist in the cluster"


@pytest.mark.parametrize("kind", ["PodSchedulingContext", "ControllerAllocation"])
def test_objects_of_the_negotiation_are_not_for_manifests(tmp_path: Path, kind: str) -> None:
    document = {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": "pod-1"}, "spec": {}}
    (warning,) = find(tmp_path, document)
    assert "warning: kind: must not be in a manifest" in warning
    assert find(tmp_path, {**document, "apiVersion": f"x{GROUP}/v1"}) == []
