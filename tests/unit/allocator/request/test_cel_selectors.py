"""CEL is evaluated once per device and selector, whatever the verdict."""

import pytest

from dradriver.allocator import CelSelectors, Inventory
from dradriver.allocator.request import cel_selectors
from dradriver.allocator.supply.pools import PooledDevice
from dradriver.cel import SelectorDevice
from dradriver.cel.evaluate.errors import CompileError, EvaluationError
from tests.unit.allocator.worlds import DRIVER, slice_


def device() -> PooledDevice:
    x = {"name": "x", "attributes": {"size": {"int": 9}}, "capacity": {"memory": {"value": "8Gi"}}}
    return Inventory.of([slice_("a", x)]).pools[DRIVER, "pool"].devices[0]


def test_a_selector_sees_attributes_and_capacity() -> None:
    assert CelSelectors().compile(f"device.attributes['{DRIVER}'].size == 9")(device())
    assert CelSelectors().compile(f"device.capacity['{DRIVER}'].memory == quantity('8Gi')")(device())
    assert not CelSelectors().compile("device.driver == 'other'")(device())


def test_a_verdict_is_kept_on_the_device() -> None:
    one = device()
    CelSelectors().compile("false")(one)
    assert one.memo["false"] is False


def test_an_error_is_kept_too() -> None:
    one = device()
    matches = CelSelectors().compile(f"device.attributes['{DRIVER}'].missing == 9")
    for _ in range(2):
        with pytest.raises(EvaluationError):
            matches(one)
    assert isinstance(one.memo[f"device.attributes['{DRIVER}'].missing == 9"], EvaluationError)


def test_selectors_share_one_view_of_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    class Counted(SelectorDevice):
        def __post_init__(self) -> None:
            made.append(self)
            SelectorDevice.__post_init__(self)

    monkeypatch.setattr(cel_selectors, "SelectorDevice", Counted)
    one = device()
    for expression in ("true", "device.driver == 'x'", f"device.attributes['{DRIVER}'].size > 3"):
        CelSelectors().compile(expression)(one)
    assert len(made) == 1


def test_a_derived_attribute_is_kept_beside_a_verdict_of_the_same_text() -> None:
    one = device()
    assert CelSelectors().compile("true")(one)
    assert CelSelectors().derive(f"device.attributes['{DRIVER}'].size % 2")(one) == 1
    assert CelSelectors().derive("true")(one) is True


def test_what_is_no_selector_does_not_compile() -> None:
    with pytest.raises(CompileError):
        CelSelectors().compile("device.")
