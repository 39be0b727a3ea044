"""The values of one attribute on the devices of a slice or a pool."""

import pytest

from dradriver.allocator import Meter
from dradriver.allocator.placement.fleet import columns
from dradriver.allocator.placement.fleet.columns import (
    AttributeColumn,
    ColumnInterner,
    ValuePatterns,
    no_column,
)

BIG, SMALL = ("str", "big"), ("str", "small")


def test_slices_that_differ_in_another_attribute_share_a_column() -> None:
    known = ColumnInterner()
    one = known.of_slice({"model": [BIG, SMALL], "uuid": [("str", "1"), ("str", "2")]})
    other = known.of_slice({"model": [BIG, SMALL], "uuid": [("str", "3"), ("str", "4")]})
    assert one["model"] is other["model"]
    assert one["uuid"].number != other["uuid"].number
    assert known.of_slice({"model": [SMALL, BIG]})["model"].number != one["model"].number


def test_the_devices_of_a_pool_are_grouped_by_their_values() -> None:
    known = ColumnInterner()
    one, other = known.of_slice({"model": [BIG, None]}), known.of_slice({"model": [BIG]})
    assert known.of_pool([(one, 2), (other, 1)])["model"].groups == {BIG: 0b101, None: 0b010}


def test_a_pool_with_devices_in_one_slice_has_the_columns_of_the_slice() -> None:
    known = ColumnInterner()
    of_slice = known.of_slice({"model": [BIG]})
    assert known.of_pool([({}, 0), (of_slice, 1)]) is of_slice


def test_pools_with_equal_slices_share_a_column() -> None:
    def pool(sizes: tuple[int, int]) -> int:
        slices = [(known.of_slice({"model": [BIG]}), 1), *(({}, size) for size in sizes)]
        return known.of_pool(slices)["model"].number

    known = ColumnInterner()
    assert pool((1, 2)) == pool((1, 2)) != pool((2, 1))


def test_a_name_is_read_with_and_without_domain_but_not_as_the_end_of_another_name() -> None:
    found = ColumnInterner().of_slice(
        {"model": [BIG, None, None], "example.com/model": [None, SMALL, None], "submodel": [None, None, BIG]}
    )
    assert list(found["model"].values) == [BIG, SMALL, None]


def test_values_in_several_domains_keep_their_domains() -> None:
    def two(one: str, other: str) -> object:
        return known.of_slice({"a/x": [("str", one)], "b/x": [("str", other)]})["x"]

    known = ColumnInterner()
    assert two("1", "2") is two("1", "2")
    assert two("1", "2") is not two("2", "1")


def test_an_attribute_that_no_device_has_is_empty_on_each_device() -> None:
    assert list(no_column(2).values) == [None, None]


def test_forgotten_columns_never_give_their_number_to_other_values() -> None:
    known = ColumnInterner()
    numbers = set()
    for model in "abcd":
        numbers.add(known.of_slice({"model": [("str", model)]})["model"].number)
        known.clear()
    assert len(numbers) == 4


def column(known: ColumnInterner, *values: str) -> AttributeColumn:
    return known.of_slice({"rack": [("str", value) for value in values]})["rack"]


def test_a_pattern_does_not_depend_on_the_values_themselves() -> None:
    known, patterns = ColumnInterner(), ValuePatterns()
    one, other, third = (patterns.number([column(known, *each)], Meter()) for each in ("aab", "xxy", "xyy"))
    assert one == other != third


def test_values_are_compared_across_the_pools_of_a_node() -> None:
    known, patterns = ColumnInterner(), ValuePatterns()
    pairs = [[column(known, "a"), column(known, value)] for value in "ab"]
    equal, unequal = (patterns.number(pair, Meter()) for pair in pairs)
    assert equal != unequal


def test_the_pattern_of_known_columns_costs_no_work() -> None:
    known, patterns, meters = ColumnInterner(), ValuePatterns(), [Meter(), Meter()]
    for meter in meters:
        patterns.number([column(known, *"ab")], meter)
    assert meters[0].spent
    assert not meters[1].spent


def test_forgotten_patterns_never_give_their_number_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "_MAX_PATTERNS", 0)
    known, patterns = ColumnInterner(), ValuePatterns()
    found = [patterns.number([column(known, *each)], Meter()) for each in ("aa", "ab", "aaa", "aba")]
    assert len(set(found)) == 4
