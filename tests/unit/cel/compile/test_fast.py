"""The fast path gives the machine's verdict."""

import pytest

from dradriver.cel import EvaluationError, Selector, SelectorDevice
from dradriver.model.quantity import Quantity

X = 'device.attributes["d"]'

DEVICES = [
    SelectorDevice("d", {}),
    SelectorDevice("d", {"x": False}, {"m": Quantity.parse("0")}),
    SelectorDevice("d", {"x": True}),
    SelectorDevice("d", {"x": 0}),
    SelectorDevice("d", {"x": 1}, {"m": Quantity.parse("1")}),
    SelectorDevice("d", {"x": ""}),
    SelectorDevice("d", {"x": "a"}),
    SelectorDevice("d", {"x": ("a",)}),
    SelectorDevice("other", {"x": "a", "d/x": "b"}),
]


def result(selector: Selector, device: SelectorDevice, *, fast: bool) -> bool | str:
    try:
        return selector.matches(device) if fast else selector.evaluate(device).verdict
    except EvaluationError as error:
        return error.reason


@pytest.mark.parametrize(
    "expression",
    [
        f"{X}.?x.orValue(true)",
        f"!{X}.?x.orValue(false)",
        f"{X}.?x.orValue('') == ''",
        f"{X}.?x.orValue(1) == 1",
        f"{X}.?x.orValue('a') in ['a', 'b']",
        f"{X}.?x.orValue('a').startsWith('a')",
        f"{X}[?'x'].orValue(1) > 0",
        f"{X}.?x.orValue({X}.y) == 'a'",
        f"{X}.x in [0, 4]",
        f"{X}.?x.hasValue()",
        f"{X}[?'x'].hasValue() && {X}[?'x'].orValue(false)",
        "device.capacity['d'].?m.orValue(quantity('0')).isGreaterThan(quantity('0'))",
        "device.attributes[device.driver].x == 'a'",
        "has(device.attributes[device.driver].x)",
        f"cel.bind(a, {X}, a.?x.orValue('a') == 'a')",
    ],
)
def test_both_give_the_same_result(expression: str) -> None:
    selector = Selector(expression)
    assert selector.is_bounded
    for device in DEVICES:
        assert result(selector, device, fast=True) == result(selector, device, fast=False)


@pytest.mark.parametrize(
    "expression",
    [f"{X}.x in [1u]", "device.attributes.?d.hasValue()", f"{X}.?x.value()", f"{X}[?device.driver].hasValue()"],
)
def test_other_uses_of_optionals_have_no_fast_path(expression: str) -> None:
    assert not Selector(expression).is_bounded
