"""Which attributes a verdict depends on, known without a device."""

import pytest

from dradriver.cel import compile_selector


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("true", set()),
        ("device.driver == 'a'", set()),
        ("device.capacity['a'].memory.compareTo(quantity('1Gi')) > 0", set()),
        ("device.attributes['a'].model == 'x'", {"model"}),
        ("device.attributes['a']['model'] == 'x' && device.attributes['b'].size > 1", {"model", "size"}),
        ("device.attributes[device.driver].?model.orValue('z') in ['b']", {"model"}),
        ("device.attributes[?'a'].?model.orValue('z') == 'b'", {"model"}),
        ("has(device.attributes['a'].model)", {"model"}),
        ("['x', 'y'].exists(v, device.attributes['a'].model == v)", {"model"}),
    ],
)
def test_plain_reading_is_understood(expression: str, names: set[str]) -> None:
    assert compile_selector(expression).reads == frozenset(names)


@pytest.mark.parametrize(
    "expression",
    [
        "'model' in device.attributes['a']",
        "device.attributes['a'].exists(name, name == 'model')",
        "device.attributes.all(domain, domain == 'a')",
        "device.attributes['a']['mo' + device.driver] == 'x'",
        "cel.bind(d, device, d.attributes['a'].model == 'x')",
        "'a' in device.attributes",
    ],
)
def test_of_anything_else_nothing_is_said(expression: str) -> None:
    assert compile_selector(expression).reads is None
