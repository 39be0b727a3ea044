"""The answer to an AdmissionReview: only new errors in a spec are denied."""

import json
from copy import deepcopy
from typing import Any

import pytest

from dradriver.admission.review import MalformedReviewError, review
from tests.nesting import TOO_DEEP
from tests.unit.admission.leds import GOOD, KNOWN, WRONG, claim, device_class, led, paths, review_of


def answer(body: bytes) -> Any:
    reply = json.loads(review(body, KNOWN).answer)
    assert (reply["apiVersion"], reply["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    assert reply["response"]["uid"] == "4711"
    return reply["response"]


def test_a_valid_claim_is_allowed_without_a_message() -> None:
    assert answer(review_of(claim(GOOD))) == {"uid": "4711", "allowed": True}


def test_an_invalid_claim_is_denied_with_all_errors() -> None:
    refusal = answer(review_of(claim(WRONG, led(colour="red"))))
    assert refusal["allowed"] is False
    status = refusal["status"]
    assert (status["code"], status["reason"], status["details"]["name"]) == (422, "Invalid", "desk")
    assert status["message"] == (
        "ResourceClaim default/desk: "
        "spec.devices.config[0].opaque.parameters: brightness must be between 0 and 100; "
        "spec.devices.config[1].opaque.parameters.colour: LedConfig has no such field"
    )
    assert paths(status["details"]["causes"]) == [
        "spec.devices.config[0].opaque.parameters",
        "spec.devices.config[1].opaque.parameters.colour",
    ]


def test_a_claim_without_a_name_is_named_by_its_prefix() -> None:
    body = claim(WRONG) | {"metadata": {"generateName": "desk-"}}
    assert answer(review_of(body, name=""))["status"]["message"].startswith("ResourceClaim default/desk-*: ")


def test_a_stored_claim_stays_writable_after_rules_became_stricter() -> None:
    old = claim(WRONG)
    new = deepcopy(old) | {"metadata": {"name": "desk", "labels": {"a": "b"}}}
    assert answer(review_of(new, old))["allowed"] is True


def test_a_stored_error_does_not_block_another_change() -> None:
    assert answer(review_of(device_class(WRONG, GOOD), device_class(WRONG)))["allowed"] is True


def test_a_new_error_in_a_stored_object_is_denied() -> None:
    refusal = answer(review_of(device_class(WRONG, led(brightness=-1)), device_class(WRONG)))
    assert paths(refusal["status"]["details"]["causes"]) == ["spec.config[1].opaque.parameters"]


@pytest.mark.parametrize(("old", "new"), [(1, True), (0, False), (1, "1")])
def test_values_of_different_types_are_a_change(old: object, new: object) -> None:
    assert answer(review_of(device_class(led(x=new)), device_class(led(x=old))))["allowed"] is False


def test_another_order_of_keys_is_not_a_change() -> None:
    old, new = device_class(led(x=1, y=2)), device_class(led(y=2, x=1))
    assert answer(review_of(new, old))["allowed"] is True


def test_deletion_is_never_blocked() -> None:
    assert answer(review_of(None, claim(WRONG)))["allowed"] is True


def test_writes_of_the_status_are_never_blocked() -> None:
    assert answer(review_of(claim(WRONG), claim(GOOD), subResource="status"))["allowed"] is True


@pytest.mark.parametrize("version", ["v1alpha3", "v2"])
def test_an_unknown_version_is_allowed_with_a_warning(version: str) -> None:
    allowed = answer(review_of(claim(WRONG, version=version)))
    assert allowed["allowed"] is True
    assert allowed["warnings"] == [
        f"resource.k8s.io/{version} ResourceClaim is not checked by the webhook for opaque configuration, "
        "which checks DeviceClass, ResourceClaim, ResourceClaimTemplate of resource.k8s.io v1, v1beta2, v1beta1"
    ]


_HEAD = '"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"'


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "not an AdmissionReview"),
        (b"[]", "not an AdmissionReview"),
        (b'{"request":{"uid":"1"}}', r"not \(no apiVersion\) \(no kind\)"),
        (
            b'{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview"}',
            "not admission.k8s.io/v1beta1",
        ),
        (f"{{{_HEAD}}}".encode(), "request.uid: is required"),
        (f'{{{_HEAD},"request":{{"uid":1}}}}'.encode(), "request.uid: Expected `str`"),
        (review_of(claim(GOOD), object=None), "request.object: is required"),
        (review_of(claim(GOOD), object={"spec": []}), "spec: Expected `object`"),
        (review_of(claim(GOOD)).replace(b'"desk"', b'"\xff"'), "not an AdmissionReview"),
        (review_of(claim(GOOD)).replace(b'"led"', b"[" * TOO_DEEP + b"]" * TOO_DEEP), "nested too deeply"),
    ],
)
def test_an_invalid_review_is_rejected_with_a_message(body: bytes, message: str) -> None:
    with pytest.raises(MalformedReviewError, match=message):
        review(body, KNOWN)
