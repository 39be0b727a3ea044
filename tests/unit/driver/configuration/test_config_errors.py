"""A rejected configuration lists all its errors, each with its field."""

import json
from collections.abc import Sequence
from enum import Enum
from typing import Annotated, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dradriver as dra
from dradriver.driver.configuration.config import decode_config
from dradriver.driver.configuration.config_errors import find_errors
from dradriver.errors import Problem
from tests.nesting import LEVELS, TOO_DEEP


class TimeSlicing(msgspec.Struct, tag="TimeSlicing", tag_field="strategy"):
    interval: Literal["Short", "Long"] = "Short"


class Processes(msgspec.Struct, tag="Processes", tag_field="strategy", rename="camel"):
    max_clients: Annotated[int, msgspec.Meta(ge=1)]


class Route(msgspec.Struct):
    to: str
    metric: int = 0

    def __post_init__(self) -> None:
        if self.metric < 0:
            raise ValueError("metric must not be negative")


class Speed(Enum):
    SLOW = 10
    FAST = 100


class NetConfig(dra.Config):
    api_version = "net.example.com/v1"
    kind = "NetConfig"
    mtu: int = 1500
    mode: Literal["bridge", "l2"] | None = None
    sharing: TimeSlicing | Processes | None = None
    routes: list[Route] = []
    tables: dict[str, Route] = {}
    ports: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.mtu == 13:
            raise KeyError("unlucky")
        if self.mtu > 9000 and self.mode == "bridge":
            raise ValueError("a bridge carries at most 9000 bytes")


def find_problems(**fields: object) -> list[str]:
    body = {"apiVersion": "net.example.com/v1", "kind": "NetConfig"} | fields
    with pytest.raises(dra.InvalidObjectError) as caught:
        decode_config(json.dumps(body).encode(), [NetConfig], "config", strict=True)
    return [str(problem) for problem in caught.value.problems]


def test_wrong_types_and_unknown_fields_are_reported_together() -> None:
    assert find_problems(mtu="big", mode="l3", mut=1) == [
        "mut: NetConfig has no such field",
        "mtu: Expected `int`, got `str`",
        "mode: Invalid enum value 'l3' (allowed: bridge, l2)",
    ]


def test_the_allowed_values_of_an_enum_are_named() -> None:
    assert [str(problem) for problem in find_errors(Speed, 25)] == ["Invalid enum value 25 (allowed: 10, 100)"]


def test_each_item_of_a_list_and_each_value_of_a_map_is_checked() -> None:
    assert find_problems(
        routes=[{"to": 1}, {"to": "a"}, {"metric": -1}],
        tables={"main": {"to": "b", "metric": -1}},
        ports=[1, "2"],
    ) == [
        "routes[0].to: Expected `str`, got `int`",
        "routes[2].to: is required by Route",
        "tables[main]: metric must not be negative",
        "ports[1]: Expected `int`, got `str`",
    ]


def test_the_alternative_of_the_tag_is_checked() -> None:
    assert find_problems(sharing={"strategy": "Processes", "maxClients": 0, "interval": "Short"}) == [
        "sharing.interval: NetConfig has no such field",
        "sharing.maxClients: Expected `int` >= 1",
    ]


def test_an_unknown_tag_is_an_error() -> None:
    assert find_problems(sharing={"strategy": "None"}) == ["sharing.strategy: Invalid value 'None'"]


def test_a_rule_over_several_fields_runs_after_the_fields_are_valid() -> None:
    assert find_problems(mtu=9001, mode="bridge") == ["a bridge carries at most 9000 bytes"]


def test_a_defect_in_a_rule_rejects_the_configuration() -> None:
    """Otherwise it would fail on the node, with a device already allocated."""
    assert find_problems(mtu=13) == [
        "cannot be checked: a rule of the driver raised KeyError('unlucky') (a defect of the driver)"
    ]


def test_a_rule_that_exits_rejects_only_the_configuration() -> None:
    class Exiting(dra.Config):
        api_version, kind = "net.example.com/v1", "Exiting"

        def __post_init__(self) -> None:
            raise SystemExit(3)

    with pytest.raises(dra.InvalidObjectError, match=r"a rule of the driver raised SystemExit\(3\)"):
        decode_config(b'{"apiVersion":"net.example.com/v1","kind":"Exiting"}', [Exiting], "config", strict=True)


def test_parameters_that_are_not_utf8_are_rejected() -> None:
    body = b'{"apiVersion":"net.example.com/v1","kind":"NetConfig","mode":"\xff"}'
    with pytest.raises(dra.InvalidObjectError, match="config: is not UTF-8"):
        decode_config(body, [NetConfig], "config", strict=True)


@pytest.mark.parametrize("levels", LEVELS)
def test_deeply_nested_parameters_are_rejected(levels: int) -> None:
    body = (
        b'{"apiVersion":"net.example.com/v1","kind":"NetConfig","mtu":' + b"[" * levels + b"]" * levels + b"}"
    )
    words = "nested too deeply" if levels == TOO_DEEP else "nested too deeply|mtu: Expected `int`, got `array`"
    with pytest.raises(dra.InvalidObjectError, match=words):
        decode_config(body, [NetConfig], "config", strict=True)


_scalars = st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["bridge", "l3", "Short"])
_route = st.dictionaries(st.sampled_from(["to", "metric", "x"]), _scalars)
_sharing = st.dictionaries(st.sampled_from(["strategy", "interval", "maxClients"]), _scalars)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "mtu": _scalars,
            "mode": _scalars,
            "sharing": _scalars | _sharing,
            "routes": _scalars | st.lists(_route),
            "tables": _scalars | st.dictionaries(st.text(), _route),
            "ports": st.lists(_scalars),
        },
    )
)
def test_a_rejection_always_has_problems(fields: dict[str, object]) -> None:
    body = json.dumps({"apiVersion": "net.example.com/v1", "kind": "NetConfig"} | fields).encode()
    problems: Sequence[Problem] | None = None
    try:
        decode_config(body, [NetConfig], "config", strict=True)
    except dra.InvalidObjectError as error:
        problems = error.problems
    assert problems is None or problems
