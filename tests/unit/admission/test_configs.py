"""Every configuration of a known driver in an object is checked, by field, in each version of the API."""

import json

import pytest

import dradriver as dra
from dradriver.admission import find_config_errors, known_configs
from dradriver.errors import UsageError
from tests.unit.admission import leds
from tests.unit.admission.leds import GOOD, KNOWN, WRONG, LedDriver, PlainDriver, led

FOREIGN = {"opaque": {"driver": "gpu.example.com", "parameters": {"kind": "What"}}}
RULE = "brightness must be between 0 and 100"


def find(body: dict[str, object]) -> list[str]:
    return [str(problem) for problem in find_config_errors(str(body["kind"]), json.dumps(body).encode(), KNOWN)]


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1"])
def test_claims_templates_and_classes_name_the_field(version: str) -> None:
    assert find(leds.claim(GOOD, WRONG, version=version)) == [
        f"spec.devices.config[1].opaque.parameters: {RULE}"
    ]
    assert find(leds.template(WRONG, version=version)) == [
        f"spec.spec.devices.config[0].opaque.parameters: {RULE}"
    ]
    assert find(leds.device_class(WRONG, version=version)) == [f"spec.config[0].opaque.parameters: {RULE}"]


def test_all_errors_of_all_entries_are_named() -> None:
    assert find(leds.claim(led(brigthness=1, color="blue"), GOOD, WRONG)) == [
        "spec.devices.config[0].opaque.parameters.brigthness: LedConfig has no such field",
        "spec.devices.config[0].opaque.parameters.color: Invalid enum value 'blue' (allowed: red, green)",
        f"spec.devices.config[2].opaque.parameters: {RULE}",
    ]


def test_configuration_of_other_drivers_is_ignored() -> None:
    assert find(leds.claim(FOREIGN)) == []


@pytest.mark.parametrize(
    "parameters",
    [{}, {"kind": "LedConfig"}, {"apiVersion": "led.example.com/v2", "kind": "LedConfig"}, None, "text"],
)
def test_parameters_without_a_known_kind_are_rejected(parameters: object) -> None:
    entry = {"opaque": {"driver": LedDriver.name, "parameters": parameters}}
    assert [each.partition(".opaque")[0] for each in find(leds.claim(entry))] == ["spec.devices.config[0]"]


def test_a_driver_without_configuration_rejects_any() -> None:
    body = leds.claim({"opaque": {"driver": PlainDriver.name, "parameters": {}}})
    (problem,) = find_config_errors("ResourceClaim", json.dumps(body).encode(), known_configs([PlainDriver]))
    assert "it accepts no configuration" in problem.rule


def test_an_object_without_configuration_has_nothing_to_check() -> None:
    assert find(leds.device_class()) == []
    assert find({"kind": "ResourceClaim", "spec": {}}) == []
    assert find({"kind": "ResourceClaim", "spec": {"devices": None}}) == []
    assert find({"kind": "Pod", "spec": {"config": 1}}) == []


def test_an_object_of_another_shape_names_the_field() -> None:
    with pytest.raises(dra.InvalidObjectError, match=r"spec\.devices\.config: Expected `array`"):
        find({"kind": "ResourceClaim", "spec": {"devices": {"config": {}}}})


def test_driver_classes_are_not_instantiated() -> None:
    assert known_configs([LedDriver, PlainDriver]) == {LedDriver.name: LedDriver.configs, PlainDriver.name: ()}


def test_two_drivers_with_one_name_are_rejected() -> None:
    with pytest.raises(UsageError, match=r"two drivers have the name led\.example\.com"):
        known_configs([LedDriver, LedDriver])
