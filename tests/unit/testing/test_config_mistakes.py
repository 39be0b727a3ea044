"""An author's test reads what users are told about their configuration."""

from dradriver.testing import config_mistakes
from tests.unit.admission.leds import LedDriver

HEAD = {"apiVersion": "led.example.com/v1", "kind": "LedConfig"}


def test_every_mistake_is_told_with_its_field() -> None:
    assert config_mistakes(LedDriver, {**HEAD, "colour": "red", "brightness": "high"}) == [
        "colour: LedConfig has no such field",
        "brightness: Expected `int`, got `str`",
    ]


def test_good_configuration_has_none() -> None:
    assert config_mistakes(LedDriver, {**HEAD, "brightness": 50}) == []
