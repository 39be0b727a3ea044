"""Opaque configuration is decoded strictly for users and leniently for stored state."""

import pytest

import dradriver as dra
from dradriver.driver.configuration.config import decode_config


class Inner(dra.Config):
    api_version = "x/v1"
    kind = "Inner"
    depth: int = 0


class LoopConfig(dra.Config):
    api_version = "loop.example.com/v1"
    kind = "LoopConfig"
    read_only: bool = False
    size: dra.Quantity | None = None
    parts: list[Inner] = []

    def __post_init__(self) -> None:
        if len(self.parts) > 1:
            raise ValueError("at most one part is allowed")


HEAD = '"apiVersion":"loop.example.com/v1","kind":"LoopConfig"'


def read(body: str, *, strict: bool = True) -> dra.Config:
    return decode_config(body.encode(), [LoopConfig], "ResourceClaim default/a, config 0", strict=strict)


def test_fields_are_typed_and_camel_case() -> None:
    config = read(f'{{{HEAD},"readOnly":true,"size":"1Gi"}}')
    assert config == LoopConfig(read_only=True, size=dra.Quantity("1Gi"))


def test_an_unknown_field_is_an_error_that_names_it() -> None:
    with pytest.raises(
        dra.InvalidObjectError, match=r"default/a, config 0: readonly: LoopConfig has no such field"
    ):
        read(f'{{{HEAD},"readonly":true}}')


def test_an_unknown_nested_field_is_an_error() -> None:
    with pytest.raises(dra.InvalidObjectError, match=r"parts\[0\]\.deep"):
        read(f'{{{HEAD},"parts":[{{"deep":1}}]}}')


def test_stored_state_may_have_unknown_fields() -> None:
    assert read(f'{{{HEAD},"later":1}}', strict=False) == LoopConfig()


def test_a_wrong_type_names_the_field() -> None:
    with pytest.raises(dra.InvalidObjectError, match="readOnly: Expected `bool`, got `str`"):
        read(f'{{{HEAD},"readOnly":"yes"}}')


def test_a_rule_of_the_author_names_the_object() -> None:
    with pytest.raises(dra.InvalidObjectError, match="default/a, config 0: at most one part is allowed"):
        read(f'{{{HEAD},"parts":[{{}},{{}}]}}')


@pytest.mark.parametrize(
    "body", ['{"kind":"LoopConfig"}', '{"apiVersion":"loop.example.com/v2","kind":"LoopConfig"}', "{}"]
)
def test_an_unknown_kind_lists_the_known_ones(body: str) -> None:
    with pytest.raises(dra.InvalidObjectError, match=r"known: loop\.example\.com/v1 LoopConfig"):
        read(body)


@pytest.mark.parametrize("body", ["", "[]", "null", "{", '"text"'])
def test_parameters_that_are_not_an_object_are_rejected(body: str) -> None:
    with pytest.raises(dra.InvalidObjectError, match="default/a, config 0"):
        read(body)
