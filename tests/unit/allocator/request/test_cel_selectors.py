"""CEL is evaluated once for each device and selector, for every verdict."""

import pytest

from dradriver.allocator import CelSelectors, Inventory, Meter
from dradriver.allocator.meter import SELECTORS
from dradriver.allocator.request import cel_selectors
from dradriver.allocator.supply.pools import PooledDevice
from dradriver.cel import SelectorDevice
from dradriver.cel.evaluate.errors import CompileError, EvaluationError
from tests.unit.allocator.worlds import DRIVER, slice_


def device() -> PooledDevice:
    x = {"name": "x", "attributes": {"size": {"int": 9}}, "capacity": {"memory": {"value": "8Gi"}}}
    return Inventory.of([slice_("a", x)]).pools[DRIVER, "pool"].devices[0]


def test_a_selector_sees_attributes_and_capacity() -> None:
    assert CelSelectors().compile(f"device.attributes['{DRIVER}'].size == 9", Meter())(device(), Meter())
    assert CelSelectors().compile(f"device.capacity['{DRIVER}'].memory == quantity('8Gi')", Meter())(
        device(), Meter()
    )
    assert not CelSelectors().compile("device.driver == 'other'", Meter())(device(), Meter())


def test_a_verdict_is_cached_on_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    one = device()
    CelSelectors().compile("false", Meter())(one, Meter())
    monkeypatch.setattr(cel_selectors, "selector_view", None)
    assert not CelSelectors().compile("false", Meter())(one, Meter())


def test_an_error_is_cached_too() -> None:
    one = device()
    matches = CelSelectors().compile(f"device.attributes['{DRIVER}'].missing == 9", Meter())
    for _ in range(2):
        with pytest.raises(EvaluationError):
            matches(one, Meter())


def test_a_cached_result_counts_like_a_computed_one() -> None:
    one = device()
    matches = CelSelectors().compile("[1, 2, 3].exists(x, x == 3)", Meter())
    first, second = Meter(), Meter()
    for meter in (first, second):
        assert matches(one, meter)
    assert first.spent == second.spent
    assert first.spent[SELECTORS] > 10 * SELECTORS.nanoseconds


def test_selectors_share_one_view_of_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    class Counted(SelectorDevice):
        def __post_init__(self) -> None:
            made.append(self)
            SelectorDevice.__post_init__(self)

    monkeypatch.setattr(cel_selectors, "SelectorDevice", Counted)
    one = device()
    for expression in ("true", "device.driver == 'x'", f"device.attributes['{DRIVER}'].size > 3"):
        CelSelectors().compile(expression, Meter())(one, Meter())
    assert len(made) == 1


def test_a_derived_attribute_is_cached_beside_a_verdict_of_the_same_text() -> None:
    one = device()
    assert CelSelectors().compile("true", Meter())(one, Meter())
    assert CelSelectors().derive(f"device.attributes['{DRIVER}'].size % 2", Meter())(one, Meter()) == 1
    assert CelSelectors().derive("true", Meter())(one, Meter()) is True


def test_reads_and_parts_of_a_selector_are_known() -> None:
    selectors = CelSelectors()
    expression = f"device.attributes['{DRIVER}'].size == 9 && device.capacity['{DRIVER}'].memory.isInteger()"
    assert selectors.reads(expression) == frozenset({"size"})
    assert selectors.reads_capacity(expression)
    assert not selectors.reads_capacity("device.driver == 'x'")
    assert selectors.reads_capacity(f"size(device.capacity['{DRIVER}'])", derives=True)
    parts = selectors.conjuncts(expression)
    assert parts is not None
    assert [part.reads_capacity for part in parts] == [False, True]


def test_an_invalid_selector_does_not_compile() -> None:
    with pytest.raises(CompileError):
        CelSelectors().compile("device.", Meter())
