"""`distinct` and the functions of `sets` use the equality of `==`, also for lookups by hash."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dradriver.cel.evaluate.equality import is_same
from dradriver.cel.evaluate.membership import ValueSet
from dradriver.cel.evaluate.steps import spend_nothing
from dradriver.cel.evaluate.values import Duration, Joined, Optional, Timestamp, TypeName, UInt
from dradriver.cel.library.quantity import OVERLOADS as QUANTITIES
from dradriver.cel.library.semver import parse_semver
from dradriver.model.quantity import Quantity
from tests.unit.cel.devices import matches

ADD = next(overload.call for overload in QUANTITIES if overload.name == "add")
ONE, ZERO = Quantity.parse("1"), Quantity.parse("0")

VALUES: Sequence[object] = (
    None, True, False, 0, 1, -1, UInt(0), UInt(1), 0.0, -0.0, 1.0, 1.5, float("nan"), float("inf"),
    2**53, 2**53 + 1, float(2**53), 2**63 - 1, UInt(2**63), float(2**63), UInt(2**64 - 1), -(2**63),
    "", "1", "a", b"", b"a", (), (1,), (1.0,), [UInt(1)], ("1",), Joined((1,)), (float("nan"),), ((1,), 2),
    {}, {1: 2}, {1: 2.0}, {"a": (1,)}, Optional.of(1), Optional.of(1.0), Optional(present=False, value=None),
    TypeName("int"), TypeName("uint"), Timestamp(1), Timestamp(1, 3600), Duration(1), Duration(0),
    Quantity.parse("1"), Quantity.parse("1000m"), Quantity.parse("2"), ADD(ONE, ONE), ADD(ONE, ZERO),
    parse_semver("1.2.3"), parse_semver("1.2.3+build"), parse_semver("1.2.3-rc.1"),
)  # fmt: skip


@given(st.lists(st.sampled_from(range(len(VALUES))), max_size=25), st.sampled_from(range(len(VALUES))))
@settings(max_examples=300)
def test_a_value_is_in_a_set_if_it_equals_one_of_its_values(places: list[int], wanted: int) -> None:
    items = [VALUES[place] for place in places]
    value = VALUES[wanted]
    assert ValueSet(spend_nothing, items).has(value) == any(is_same(value, item) for item in items)


@pytest.mark.parametrize(
    "expression",
    [
        "[dyn(1), dyn(1.0), dyn(1u), dyn(2)].distinct().size() == 2",
        "[dyn(1), dyn(true), dyn('1'), dyn(1.0)].distinct().size() == 3",
        "[double('nan'), double('nan')].distinct().size() == 2",
        "[[1], [1], [2], [1, 2]].distinct() == [[1], [2], [1, 2]]",
        "[{'a': 1}, {'a': 1}, {'a': 2}].distinct().size() == 2",
        "[9007199254740992, 9007199254740993].distinct().size() == 2",
        "[dyn(9007199254740992.0), dyn(9007199254740993)].distinct().size() == 1",
        "[3, 1, 3, 2, 1].distinct() == [3, 1, 2]",
        "sets.contains([dyn(1), dyn(2), dyn(3)], [dyn(1.0), dyn(3u)])",
        "!sets.intersects([double('nan')], [double('nan')])",
    ],
)
def test_duplicates_in_lists_are_found_by_the_equality_of_cel(expression: str) -> None:
    assert matches(expression)
