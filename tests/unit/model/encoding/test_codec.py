"""Bodies are encoded like Go's encoder, because the API server compares bytes inside opaque parameters."""

import msgspec
import pytest

from dradriver.errors import InvalidObjectError
from dradriver.model.encoding.codec import canonical, decode
from dradriver.model.resource.claim import OpaqueConfig, ResourceClaim
from dradriver.model.resource.slices import PoolReference, ResourceSlice


def test_keys_are_sorted_without_spaces() -> None:
    assert canonical({"b": [1, 2], "a": {"d": None, "c": True}}) == b'{"a":{"c":true,"d":null},"b":[1,2]}'


def test_html_characters_and_line_separators_are_escaped() -> None:
    assert canonical({"a": "<b> & \u2028"}) == b'{"a":"\\u003cb\\u003e \\u0026 \\u2028"}'


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1.0, b"1"),
        (1e3, b"1000"),
        (1.5, b"1.5"),
        (-0.25, b"-0.25"),
        (123456789.125, b"123456789.125"),
        (1e20, b"100000000000000000000"),
        (1e21, b"1e+21"),
        (1.25e22, b"1.25e+22"),
        (1e-6, b"0.000001"),
        (1e-7, b"1e-7"),
        (0.0, b"0"),
        (7, b"7"),
    ],
)
def test_numbers_are_go_numbers(number: float, text: bytes) -> None:
    assert canonical(number) == text


def test_decoded_parameters_keep_their_bytes() -> None:
    raw = b'{"spec":{"devices":{"config":[{"opaque":{"driver":"d","parameters":{"b": 1.0, "a":"<"}}}]}}}'
    config = decode(ResourceClaim, raw).spec.devices.config[0].opaque
    assert config is not None
    assert bytes(config.parameters) == b'{"b": 1.0, "a":"<"}'


def test_written_parameters_are_canonical() -> None:
    config = OpaqueConfig("d", msgspec.Raw(b'{"b": 1.0, "a":"<"}'))
    assert canonical(config) == b'{"driver":"d","parameters":{"a":"\\u003c","b":1}}'


def test_required_fields_are_written_even_when_zero() -> None:
    reference = PoolReference(name="p", generation=0, resource_slice_count=1)
    assert canonical(reference) == b'{"generation":0,"name":"p","resourceSliceCount":1}'


def test_a_wrong_type_is_reported_with_the_object_and_the_field() -> None:
    pool = b'{"name":"p","generation":1,"resourceSliceCount":1}'
    text = b'{"spec":{"driver":"d","pool":%b,"devices":[{"name":5}]}}' % pool
    with pytest.raises(InvalidObjectError) as caught:
        decode(ResourceSlice, text, "ResourceSlice node-1-x")
    assert str(caught.value) == "ResourceSlice node-1-x: spec.devices[0].name: Expected `str`, got `int`"


def test_a_text_that_is_not_json_is_an_invalid_object() -> None:
    with pytest.raises(InvalidObjectError, match="ResourceSlice"):
        decode(ResourceSlice, b"{")
