"""Quantities are printed in Go's canonical form."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dradriver.cluster.apiserver.formats.quantity import canonicalize, parse_amount


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
    assert canonicalize(sent) == stored


@pytest.mark.parametrize("text", ["", "1 Gi", "Gi", "1Gii", "0x1", "1e", "--1", "1_000"])
def test_an_invalid_quantity_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="quantities must match"):
        canonicalize(text)


@given(
    st.integers(-(10**15), 10**15), st.sampled_from(["", "n", "u", "m", "k", "M", "G", "Ki", "Mi", "Gi", "e3"])
)
def test_the_canonical_form_keeps_the_amount_and_is_stable(number: int, suffix: str) -> None:
    form = canonicalize(f"{number}{suffix}")
    assert parse_amount(form) == parse_amount(f"{number}{suffix}")
    assert canonicalize(form) == form
