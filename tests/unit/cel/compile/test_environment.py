"""The variable `device`, as resource.k8s.io documents it for `CELDeviceSelector`."""

import pytest

from dradriver.cel import CompileError, EvaluationError, Selector, SelectorDevice
from dradriver.model.quantity import Quantity
from dradriver.model.resource.device import Version
from tests.unit.cel.devices import GPU, MINE, matches


def test_a_name_without_a_domain_belongs_to_the_driver() -> None:
    assert matches(f'{MINE}.model == "a100"')


def test_a_name_with_a_domain_belongs_to_it() -> None:
    assert matches('device.attributes["resource.kubernetes.io"].numaNode == 1')
    assert matches(f"!has({MINE}.numaNode)")


def test_an_unknown_domain_is_an_empty_map() -> None:
    assert matches('device.attributes["nosuch"] == {}')
    assert matches('!has(device.attributes["nosuch"].x)')


def test_a_missing_name_is_an_error() -> None:
    with pytest.raises(EvaluationError, match="no such key: nosuch"):
        matches(f"{MINE}.nosuch == 1")


def test_a_field_that_no_device_has_does_not_compile() -> None:
    with pytest.raises(CompileError, match="no field 'model'"):
        Selector("device.model == 'a100'")


def test_attributes_are_bool_int_string_version_or_lists_of_them() -> None:
    assert matches(f"{MINE}.healthy")
    assert matches(f"{MINE}.count > 3")
    assert matches(f'{MINE}.version.isGreaterThan(semver("1.2.0"))')
    assert matches(f'{MINE}.modes.includes("mig") && {MINE}.modes.exists(m, m == "whole")')


def test_includes_treats_a_scalar_as_a_list_of_one() -> None:
    assert matches(f'{MINE}.model.includes("a100") && !{MINE}.model.includes("h100")')


def test_capacity_is_a_quantity() -> None:
    assert matches('device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) == 0')
    assert matches('device.capacity["other.example.com"].slots.asInteger() == 4')


def test_whether_a_device_can_be_shared_is_a_field() -> None:
    assert matches("device.allowMultipleAllocations")
    assert not matches("device.allowMultipleAllocations", SelectorDevice("d", {}, {}))


def test_an_invalid_version_attribute_fails_every_selector_on_that_device() -> None:
    broken = SelectorDevice("d", {"version": Version("1.x")}, {"memory": Quantity(1)})
    with pytest.raises(EvaluationError, match=r"'1\.x' is not a semantic version"):
        matches("true", broken)


def test_a_selector_must_return_a_bool() -> None:
    with pytest.raises(CompileError, match="must return a bool, not int"):
        Selector("1 + 1")
    with pytest.raises(EvaluationError, match="the result is a int, not a bool"):
        Selector(f"{MINE}.count").matches(GPU)
