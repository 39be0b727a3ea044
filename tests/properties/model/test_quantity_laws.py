"""Laws of quantities."""

from hypothesis import given
from hypothesis import strategies as st

from dradriver.model.quantity import Quantity

# Far enough from the largest amount that no sum is capped.
NUMBERS = st.from_regex(r"\A-?[0-9]{1,9}(\.[0-9]{1,9})?\Z")
SUFFIXES = st.sampled_from(["", "n", "u", "m", "k", "M", "G", "Ki", "Mi", "Gi", "e3", "e-3"])
QUANTITIES = st.builds(lambda number, suffix: Quantity(number + suffix), NUMBERS, SUFFIXES)


@given(QUANTITIES)
def test_printing_and_reading_gives_the_same_amount(quantity: Quantity) -> None:
    assert Quantity(str(quantity)) == quantity


@given(QUANTITIES)
def test_the_canonical_form_is_a_fixed_point(quantity: Quantity) -> None:
    assert str(Quantity(str(quantity))) == str(quantity)


@given(QUANTITIES, QUANTITIES)
def test_addition_undoes_subtraction(left: Quantity, right: Quantity) -> None:
    assert (left - right) + right == left


@given(QUANTITIES, QUANTITIES)
def test_order_is_total(left: Quantity, right: Quantity) -> None:
    assert (left < right) + (left == right) + (left > right) == 1
