"""The candidates of a pool as bits, and how often selectors are evaluated for them."""

import pytest

from dradriver.allocator import CelSelectors, Features, Meter, PooledDevice
from dradriver.allocator.placement.evaluation.candidate_masks import CandidateMasks, Masks
from dradriver.allocator.placement.fleet.fleet import Fleet
from dradriver.allocator.placement.fleet.pools import HeldPool
from dradriver.allocator.request.subrequests import PreparedSelector
from dradriver.cel import Comparison
from tests.unit.allocator.placement.fleets import fleet_of, gpu, holder, own, parsed, reads, shared
from tests.unit.allocator.worlds import request

BIG = reads("model", "== 'big'")
LARGE = reads("size", "== 'xl'")


def pool_of(fleet: Fleet, node: str = "a") -> HeldPool:
    return fleet.members[node].entries[0].pool


def masks() -> CandidateMasks:
    return CandidateMasks(Features(), CelSelectors())


def prepare(expression: str, asked: list[str] | None = None) -> PreparedSelector:
    """Return a selector that notes the pools of the devices on which it is evaluated."""
    compiled = CelSelectors().compile(expression, Meter())

    def matches(device: PooledDevice, meter: Meter) -> bool:
        if asked is not None:
            asked.append(device.id.pool)
        return compiled(device, meter)

    return PreparedSelector("selector", expression, matches)


def test_a_selector_is_evaluated_once_for_devices_that_it_can_not_distinguish() -> None:
    models = ("big", "small", "big", "small")
    members = [[gpu(f"x{n}", model=m, serial=f"{node}{n}") for n, m in enumerate(models)] for node in "ab"]
    fleet = fleet_of(own("a", *members[0]), own("b", *members[1], "plain"))
    asked: list[str] = []
    selector, known = prepare(BIG, asked), masks()
    assert known.select(selector, pool_of(fleet)) == Masks(0b0101, 0)
    assert asked == ["a", "a"]
    assert known.select(selector, pool_of(fleet, "b")) == Masks(0b00101, 0b10000)
    assert asked == ["a", "a", "b"]


@pytest.mark.parametrize("model_first", [True, False], ids=["model first", "size first"])
def test_a_part_that_fails_fails_the_selector_only_if_no_other_part_is_false(model_first: bool) -> None:
    parts = [BIG, LARGE]
    expression = " && ".join(parts if model_first else reversed(parts))
    members = [
        gpu("good", model="big", size="xl"),
        gpu("not big and without size", model="small"),
        gpu("big and without size", model="big"),
    ]
    pool = pool_of(fleet_of(own("a", *members)))
    assert masks().select(prepare(expression), pool) == Masks(0b001, 0b100)


def test_the_parts_of_a_selector_replace_it_if_none_of_them_can_matter_where_it_fails() -> None:
    """The second part fails on the small device. The first part excludes it before."""
    asked: list[str] = []
    selector = prepare(f"{BIG} && {LARGE}", asked)
    pool = pool_of(fleet_of(own("a", gpu("x", model="big", size="xl"), gpu("y", model="small"))))
    assert masks().select(selector, pool) == Masks(0b01, 0)
    assert asked == []


def test_a_selector_is_not_evaluated_on_devices_that_an_earlier_selector_excludes() -> None:
    wanted = request()
    wanted["exactly"]["selectors"] = [
        {"cel": {"expression": BIG}},
        {"cel": {"expression": LARGE}},
    ]
    fleet = fleet_of(own("a", gpu("x", model="big", size="xl"), gpu("y", model="small")))
    subrequest = parsed(wanted).requests[0].alternatives[0]
    assert masks().find(subrequest, pool_of(fleet), fleet.members["a"].node) == Masks(0b01, 0)


def test_held_devices_are_candidates_too() -> None:
    fleet = fleet_of(own("a", "x", "y"))
    fleet.put_claim(holder("a", "x"))
    fleet.update_all()
    subrequest = parsed(request()).requests[0].alternatives[0]
    assert pool_of(fleet).free == 0b10
    assert masks().find(subrequest, pool_of(fleet), fleet.members["a"].node) == Masks(0b11, 0)


def test_the_candidates_of_a_node_are_among_the_devices_that_it_reaches() -> None:
    bad = gpu("z", {"nodeName": "b"})
    members = [gpu("x", {"nodeName": "a"}, model="big"), gpu("y", {"nodeName": "b"}, model="big"), bad]
    fleet = fleet_of(shared(*members, perDeviceNodeSelection=True), a={}, b={}, c={})
    subrequest = parsed(request(expression=BIG)).requests[0].alternatives[0]
    known = masks()
    found = [
        [known.find(subrequest, entry, member.node) for entry in member.entries]
        for member in (fleet.members[name] for name in "abc")
    ]
    assert found == [[Masks(0b001, 0)], [Masks(0b010, 0b100)], []]


def test_a_comparison_is_safe_where_its_attribute_has_a_suitable_type() -> None:
    fleet = fleet_of(
        own("a", gpu("x", model="big"), {"name": "y", "attributes": {"model": {"int": 1}}}, "without")
    )
    domain = pool_of(fleet).key[0]
    comparison = Comparison(domain, "model", None, frozenset({str}))
    known = masks()
    safe = [known.are_safe(comparison, pool_of(fleet), devices) for devices in (0b001, 0b010, 0b100, 0)]
    assert safe == [True, False, False, True]


def test_a_comparison_is_not_safe_on_an_attribute_with_several_domains() -> None:
    attributes = {"one.org/model": {"string": "a"}, "two.org/model": {"string": "b"}}
    fleet = fleet_of(own("a", {"name": "x", "attributes": attributes}))
    comparison = Comparison("one.org", "model", None, frozenset({str}))
    assert not masks().are_safe(comparison, pool_of(fleet), 1)
