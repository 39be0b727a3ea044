"""Quantities have the values and the text of Kubernetes' `resource.Quantity`."""

import pytest

from dradriver.model.quantity import InvalidQuantityError, Quantity


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("0", "0"),
        ("1", "1"),
        ("1000", "1k"),
        ("1500", "1500"),
        ("100000", "100k"),
        ("1.5k", "1500"),
        ("0.5", "500m"),
        (".5", "500m"),
        ("5.", "5"),
        ("100m", "100m"),
        ("1000m", "1"),
        ("1n", "1n"),
        ("1Gi", "1Gi"),
        ("1.5Gi", "1536Mi"),
        ("1024Ki", "1Mi"),
        ("1023Ki", "1023Ki"),
        ("0.5Ki", "512"),
        ("0.1Ki", "102400m"),
        ("1e3", "1e3"),
        ("12e6", "12e6"),
        ("1E", "1E"),
        ("-5", "-5"),
        ("+5", "5"),
    ],
)
def test_prints_the_canonical_form(text: str, canonical: str) -> None:
    assert str(Quantity(text)) == canonical


@pytest.mark.parametrize(("text", "nano"), [("0.1n", 1), ("-0.1n", -1), ("1.0000000001", 10**9 + 1)])
def test_digits_below_a_nano_are_rounded_away_from_zero(text: str, nano: int) -> None:
    assert Quantity(text).nano == nano


def test_only_amounts_with_a_binary_suffix_are_capped_at_the_largest_int64() -> None:
    assert str(Quantity("100Ei")) == str(2**63 - 1)
    assert str(Quantity("100E")) == "100E"
    assert int(Quantity("1e30")) == 10**30


@pytest.mark.parametrize("text", [".", "+", "-", "k", "Gi", "e3"])
def test_a_sign_a_point_or_a_suffix_alone_is_zero(text: str) -> None:
    assert Quantity(text) == Quantity(0)


@pytest.mark.parametrize("text", ["1" * 401, "1e401", "1e99999999999", "1e-999999999"])
def test_too_many_digits_are_rejected(text: str) -> None:
    with pytest.raises(InvalidQuantityError, match="at most 400 digits"):
        Quantity(text)


@pytest.mark.parametrize("text", ["", "abc", "1x", "1 Gi", "--1", "1e", "0x10", "1kk", "١"])
def test_an_invalid_quantity_is_rejected_with_its_text(text: str) -> None:
    with pytest.raises(InvalidQuantityError, match="is not a quantity"):
        Quantity(text)


def test_quantities_compare_by_value_not_by_text() -> None:
    assert Quantity("1Gi") == Quantity("1073741824") == Quantity(1 << 30)
    assert hash(Quantity("1Gi")) == hash(Quantity(1 << 30))
    assert Quantity("1G") < Quantity("1Gi") <= Quantity("1024Mi")


def test_whole_units_round_up() -> None:
    assert int(Quantity("100m")) == 1
    assert int(Quantity("-100m")) == 0
