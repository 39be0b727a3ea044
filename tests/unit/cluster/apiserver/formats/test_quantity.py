"""Quantities come back in the form that Go prints."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dradriver.cluster.apiserver.formats.quantity import amount, canonical


@pytest.mark.parametrize(
    ("sent", "stored"),
    [
        ("0", "0"), ("1024Mi", "1Gi"), ("1Ki", "1Ki"), ("1023", "1023"), ("1000", "1k"),
        ("1500m", "1500m"), ("0.5", "500m"),
        ("1e3", "1e3"), ("12e6", "12e6"), ("100", "100"), ("1200", "1200"), ("-5", "-5"),
        ("1.5Gi", "1536Mi"), ("0.1n", "1n"),
        ("1000000", "1M"), ("80Gi", "80Gi"), ("+3", "3"), (".5", "500m"), ("5.", "5"), ("0.5Ki",
        "512"), ("10E", "10E"),
    ],
)  # fmt: skip
def test_the_canonical_form(sent: str, stored: str) -> None:
    assert canonical(sent) == stored


@pytest.mark.parametrize("text", ["", "1 Gi", "Gi", "1Gii", "0x1", "1e", "--1", "1_000"])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="quantities must match"):
        canonical(text)


@given(
    st.integers(-(10**15), 10**15), st.sampled_from(["", "n", "u", "m", "k", "M", "G", "Ki", "Mi", "Gi", "e3"])
)
def test_the_canonical_form_is_the_same_amount_and_stays_as_it_is(number: int, suffix: str) -> None:
    form = canonical(f"{number}{suffix}")
    assert amount(form) == amount(f"{number}{suffix}")
    assert canonical(form) == form
