"""The opaque configuration of classic classes and claims (KEP-3063)."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from dradriver.errors import InvalidObjectError
from dradriver.model.classic.names import API_VERSION, GROUP
from dradriver.model.classic.parameters import read_claim_parameters, read_class_parameters
from dradriver.model.encoding.codec import canonical
from dradriver.model.resource.claim import CelSelector, DeviceSelector, OpaqueConfig
from dradriver.model.resource.deviceclass import ClassConfig, DeviceClass
from dradriver.testing import builders


def with_spec(made: DeviceClass, **changes: Any) -> DeviceClass:
    return replace(made, spec=replace(made.spec, **changes))


def entry(kind: str, **fields: object) -> OpaqueConfig:
    return OpaqueConfig(GROUP, msgspec.Raw(canonical({"apiVersion": API_VERSION, "kind": kind, **fields})))


def test_a_class_names_its_controller_and_its_parameters() -> None:
    found = read_class_parameters(builders.controller_class(parameters={"tier": "gold"}))

    assert found is not None
    assert found.controller_name == builders.CONTROLLER
    assert bytes(found.parameters) == b'{"tier":"gold"}'


def test_a_class_without_an_entry_is_allocated_from_slices() -> None:
    assert read_class_parameters(builders.device_class()) is None


def test_configuration_of_other_drivers_is_not_read() -> None:
    other = ClassConfig(OpaqueConfig("gpu.example.com", msgspec.Raw(b'{"kind":"ControllerClass"}')))

    assert read_class_parameters(with_spec(builders.device_class(), config=[other])) is None


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        (
            {"selectors": []},
            "spec.selectors: must be exactly one CEL expression `false`, "
            "or schedulers allocate any device for this class",
        ),
        (
            {"selectors": [DeviceSelector(CelSelector("true"))]},
            "spec.selectors: must be exactly one CEL expression `false`, "
            "or schedulers allocate any device for this class",
        ),
        (
            {"extended_resource_name": "example.com/memory"},
            "spec.extendedResourceName: must not be set: extended resources are allocated from slices",
        ),
        (
            {
                "config": [
                    ClassConfig(entry("ControllerClass", controllerName=f"{n}.example.com")) for n in "ab"
                ]
            },
            "spec.config: must have exactly one ControllerClass",
        ),
        (
            {"config": [ClassConfig(entry("ControllerClass", controllerName="Not A Name"))]},
            "spec.config[0].opaque.parameters.controllerName: ",
        ),
        (
            {"config": [ClassConfig(entry("ControllerClass", controllerName="a.example.com", sutable=1))]},
            "spec.config[0].opaque.parameters.sutable: ControllerClass has no such field",
        ),
        (
            {"config": [ClassConfig(entry("ControllerClaim"))]},
            "spec.config[0].opaque.parameters: must be a ControllerClass of classic.dradriver.dev/v1alpha1, "
            "not ControllerClaim of classic.dradriver.dev/v1alpha1",
        ),
    ],
)
def test_a_wrong_class_is_an_error_that_names_the_field(changes: Mapping[str, Any], problem: str) -> None:
    with pytest.raises(InvalidObjectError) as raised:
        read_class_parameters(with_spec(builders.controller_class(), **changes))

    assert str(raised.value).startswith(f"DeviceClass {builders.CONTROLLED_CLASS}: {problem}")


def test_the_entries_of_a_claim_are_found_by_their_requests() -> None:
    claim = builders.claim(configs=[builders.controller_claim("Immediate", {"size": 1})])

    ((requests, found),) = read_claim_parameters(claim).items()

    assert requests == ()
    assert found.allocation_mode == "Immediate"
    assert bytes(found.parameters) == b'{"size":1}'


def test_delayed_allocation_is_the_default() -> None:
    ((_, found),) = read_claim_parameters(builders.claim(configs=[entry("ControllerClaim")])).items()

    assert found.allocation_mode == "WaitForFirstConsumer"


def test_the_mode_applies_to_the_whole_claim() -> None:
    claim = builders.claim(configs=[builders.controller_claim(), builders.controller_claim("Immediate")])
    config = claim.spec.devices.config
    config[0] = replace(config[0], requests=["device"])

    with pytest.raises(InvalidObjectError, match="allocationMode must be the same in all entries"):
        read_claim_parameters(claim)


def test_two_entries_for_the_same_requests_are_an_error() -> None:
    claim = builders.claim(configs=[builders.controller_claim(), builders.controller_claim()])

    with pytest.raises(
        InvalidObjectError,
        match=r"spec\.devices\.config\[1\]\.opaque\.parameters: has the same requests as an earlier entry",
    ):
        read_claim_parameters(claim)


def test_a_claim_refers_to_parameters_of_its_own_namespace() -> None:
    reference = {"kind": "ConfigMap", "name": "size", "namespace": "other"}
    claim = builders.claim(configs=[entry("ControllerClaim", parametersRef=reference)])

    with pytest.raises(InvalidObjectError, match=r"parametersRef\.namespace must not be set"):
        read_claim_parameters(claim)
