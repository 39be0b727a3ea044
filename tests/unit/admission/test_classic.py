"""The webhook rejects errors in the entries for controllers that allocate claims (KEP-3063)."""

import json
from typing import Any

import pytest

from dradriver.admission.review import review
from dradriver.model.classic.names import API_VERSION, GROUP
from tests.unit.admission.leds import KNOWN, claim, device_class, paths, review_of, template

Json = dict[str, Any]
NEVER = [{"cel": {"expression": "false"}}]


def entry(kind: str, **fields: object) -> Json:
    parameters = {"apiVersion": API_VERSION, "kind": kind, **fields}
    return {"opaque": {"driver": GROUP, "parameters": parameters}}


CLASS = entry("ControllerClass", controllerName="fabric.example.com")
CLAIM = entry("ControllerClaim", allocationMode="Immediate")


def of_controller(**spec: object) -> Json:
    body: Json = device_class(CLASS)
    body["spec"] |= {"selectors": NEVER, **spec}
    return body


def errors(body: Json, old: Json | None = None) -> list[str]:
    """Return the fields of the errors with which a create or update is rejected."""
    response = json.loads(review(review_of(body, old), KNOWN).answer)["response"]
    return [] if response["allowed"] else paths(response["status"]["details"]["causes"])


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1"])
def test_entries_are_checked_in_each_version_of_the_api(version: str) -> None:
    wrong = entry("ControllerClaim", allocationMode="Later")
    path = "devices.config[0].opaque.parameters.allocationMode"
    assert errors(claim(CLAIM, version=version)) == []
    assert errors(claim(wrong, version=version)) == [f"spec.{path}"]
    assert errors(template(CLAIM, version=version)) == []
    assert errors(template(wrong, version=version)) == [f"spec.spec.{path}"]
    assert errors(device_class(CLASS, version=version)) == ["spec.selectors"]


def test_a_class_of_a_controller_has_only_the_selector_false() -> None:
    assert errors(of_controller()) == []
    assert errors(of_controller(selectors=[{"cel": {"expression": "true"}}])) == ["spec.selectors"]
    assert errors(of_controller(extendedResourceName="a.com/b")) == ["spec.extendedResourceName"]


def test_an_update_is_rejected_only_for_new_errors() -> None:
    old = of_controller(selectors=[])
    assert errors(of_controller(selectors=[]), old) == []
    assert errors(of_controller(selectors=[], extendedResourceName="a.com/b"), old) == [
        "spec.extendedResourceName"
    ]
