"""Peculiarities of Kubernetes' evaluator that an allocator must reproduce."""

import pytest

from dradriver.cel import CompileError, EvaluationError, Selector
from tests.unit.cel.devices import MINE, matches


def test_a_version_on_the_left_of_another_type_is_an_error() -> None:
    with pytest.raises(EvaluationError, match="no such overload"):
        matches(f'{MINE}.version == "1.2.3"')


def test_a_version_on_the_right_of_another_type_is_not_equal() -> None:
    assert not matches(f'"1.2.3" == {MINE}.version')


def test_a_version_differs_from_every_other_type() -> None:
    assert matches(f'{MINE}.version != "1.2.3"')


def test_a_list_swallows_the_errors_of_its_elements() -> None:
    assert matches('[semver("1.0.0")] == [dyn(1)]')


def test_the_sum_of_two_lists_keeps_the_errors_of_its_elements() -> None:
    with pytest.raises(EvaluationError, match="no such overload"):
        matches('[semver("1.0.0")] + [semver("1.0.0")] == [dyn(1), dyn(2)]')


def test_a_sum_of_quantities_equals_only_on_the_left() -> None:
    assert matches('quantity("1").add(quantity("2")) == quantity("3")')
    with pytest.raises(EvaluationError, match="on the left"):
        matches('quantity("3") == quantity("1").add(quantity("2"))')


def test_sign_is_a_function_and_not_a_method() -> None:
    assert matches('sign(quantity("-1")) == -1')
    with pytest.raises(CompileError, match="no method sign"):
        Selector('quantity("1").sign() == 1')


def test_optional_access_to_an_unknown_domain_has_a_value() -> None:
    assert matches('device.attributes[?"nosuch"].hasValue()')


def test_an_unknown_domain_is_not_in_the_map() -> None:
    assert matches('!("nosuch" in device.attributes)')


def test_a_quantity_is_an_integer_only_in_integer_notation() -> None:
    assert matches(
        'quantity("1").isInteger() && !quantity("1000m").isInteger() && !quantity("1.0").isInteger()'
    )


def test_a_version_in_a_list_of_constants_ends_the_evaluation() -> None:
    with pytest.raises(EvaluationError, match="can't be looked up"):
        matches(f'{MINE}.version in ["1.2.3"] || true')


def test_an_error_in_a_sorted_list_ends_the_evaluation() -> None:
    with pytest.raises(EvaluationError, match="ends the evaluation"):
        matches("[1 / 0].sort() == [1] || true")


def test_values_of_different_types_are_unequal_and_numbers_compare() -> None:
    assert matches('dyn(1) != "x" && 1 < 1.5 && dyn(1) == 1.0')


def test_an_int_that_overflows_is_an_error() -> None:
    with pytest.raises(EvaluationError, match="overflow"):
        matches("9223372036854775807 + 1 > 0")


def test_size_counts_code_points() -> None:
    assert matches("'é☃😀'.size() == 3")


def test_a_format_groups_digits_as_english_does() -> None:
    assert matches('"%.1f".format([1234567.0]) == "1,234,567.0"')
