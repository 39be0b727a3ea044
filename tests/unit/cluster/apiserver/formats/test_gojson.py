"""JSON in Go's form: compacted for every answer, canonical after a generic map."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dradriver.cluster.apiserver.formats.gojson import canonicalize, compact, format_number

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.0, "1"), (1e3, "1000"), (0.1, "0.1"), (1e21, "1e+21"), (1e20, "100000000000000000000"),
    (1e-6, "0.000001"),
     (1e-7, "1e-7"), (1.5e-9, "1.5e-9"), (1.25e300, "1.25e+300"), (-0.0, "-0"), (-2.5, "-2.5")],
)  # fmt: skip
def test_numbers_are_written_as_go_writes_them(value: float, text: str) -> None:
    assert format_number(value) == text


def test_compacting_keeps_order_and_numbers_and_escapes_html() -> None:
    sent = b'{ "b" : 1.0 ,\n "a" : " < & > " , "c\\" d" : [ 1e3 , true ] }'
    assert compact(sent) == b'{"b":1.0,"a":" \\u003c \\u0026 \\u003e ","c\\" d":[1e3,true]}'


def test_canonical_json_is_sorted_and_has_gos_numbers() -> None:
    assert canonicalize(b'{"b": 1.0, "a": {"d": 1e3, "c": "<"}}') == b'{"a":{"c":"\\u003c","d":1000},"b":1}'


@given(JSON)
def test_both_forms_hold_the_same_value(value: object) -> None:
    sent = json.dumps(value, indent=1).encode()
    assert json.loads(compact(sent)) == value
    assert json.loads(canonicalize(sent)) == value
    assert compact(canonicalize(sent)) == canonicalize(sent)
