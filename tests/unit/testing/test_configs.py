"""`list_config_errors` returns the errors in a configuration as users see them."""

from dradriver.testing import list_config_errors
from tests.unit.admission.leds import LedDriver

HEAD = {"apiVersion": "led.example.com/v1", "kind": "LedConfig"}


def test_every_error_is_reported_with_its_field() -> None:
    assert list_config_errors(LedDriver, {**HEAD, "colour": "red", "brightness": "high"}) == [
        "colour: LedConfig has no such field",
        "brightness: Expected `int`, got `str`",
    ]


def test_valid_configuration_has_no_errors() -> None:
    assert list_config_errors(LedDriver, {**HEAD, "brightness": 50}) == []
