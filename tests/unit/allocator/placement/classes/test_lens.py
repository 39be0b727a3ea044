"""The nodes that a lens puts into one class."""

from typing import Any

import pytest

from dradriver.allocator import BudgetSpentError, Meter
from dradriver.allocator.meter import SORTING
from dradriver.allocator.placement.classes.lens import Lens, short_name
from dradriver.allocator.placement.fleet.fleet import Fleet
from tests.unit.allocator.placement.fleets import (
    fleet_of,
    gpu,
    holder,
    memory,
    own,
    shared,
    takes_memory,
    zone,
)


def lens_of(fleet: Fleet, reads: str = "", compares: str = "", *, holders: bool = False) -> Lens:
    lens = Lens(
        fleet,
        frozenset(reads.split()),
        frozenset(compares.split()),
        distinguishes_holders=holders,
    )
    lens.update(Meter())
    return lens


def classes(lens: Lens) -> list[str]:
    """Return the nodes of each class."""
    lens.update(Meter())
    return sorted("".join(sorted(each.nodes)) for each in lens.classes.with_nodes())


def change(fleet: Fleet, source: Any) -> None:
    fleet.put_slice(source)
    fleet.update_all()


def by_model(**models: str) -> Fleet:
    return fleet_of(*(own(node, gpu("x", model=model, serial=node)) for node, model in models.items()))


def test_only_an_attribute_that_is_read_divides_the_nodes() -> None:
    fleet = by_model(a="big", b="small", c="big")
    assert classes(lens_of(fleet)) == ["abc"]
    assert classes(lens_of(fleet, "model")) == ["ac", "b"]
    assert classes(lens_of(fleet, "model serial")) == ["a", "b", "c"]


def test_if_all_attributes_may_be_read_each_difference_counts() -> None:
    lens = Lens(by_model(a="big", b="big"), None, frozenset(), distinguishes_holders=False)
    assert classes(lens) == ["a", "b"]


def test_of_a_compared_attribute_only_the_equality_of_values_counts() -> None:
    racks = {"a": "11", "b": "22", "c": "12", "d": "34"}
    fleet = fleet_of(*(own(node, gpu("x", rack=r[0]), gpu("y", rack=r[1])) for node, r in racks.items()))
    assert classes(lens_of(fleet, compares="rack")) == ["ab", "cd"]
    assert classes(lens_of(fleet, "rack", compares="rack")) == ["a", "b", "c", "d"]


def test_a_list_has_the_pattern_of_its_members() -> None:
    def node(name: str, one: list[int], other: list[int]) -> Any:
        members = [{"name": f"x{at}", "attributes": {"numa": {"ints": n}}} for at, n in enumerate((one, other))]
        return own(name, *members)

    fleet = fleet_of(node("a", [0, 1], [1, 2]), node("b", [5, 6], [6, 7]), node("c", [0, 1], [2, 3]))
    assert classes(lens_of(fleet, compares="numa")) == ["ab", "c"]


def test_a_compared_attribute_of_shared_devices_counts_with_its_value() -> None:
    fleet = fleet_of(*(own(node, gpu("x", rack=node)) for node in "ab"))
    lens = lens_of(fleet, compares="rack")
    assert classes(lens) == ["ab"]
    change(fleet, shared(gpu("far", rack="b")))
    assert classes(lens) == ["a", "b"]
    fleet.remove_slice("fabric")
    fleet.update_all()
    assert classes(lens) == ["ab"]


def test_nodes_that_reach_different_shared_devices_differ() -> None:
    fleet = fleet_of(shared("far", **zone("1")), a={"zone": "1"}, b={"zone": "1"}, c={})
    assert classes(lens_of(fleet)) == ["ab", "c"]


def test_what_is_held_in_a_shared_pool_moves_no_node() -> None:
    fleet = fleet_of(shared("far"), own("a", "x"), own("b", "x"))
    lens = lens_of(fleet)
    before = lens.node_class("a")
    fleet.put_claim(holder("fabric", "far"))
    fleet.update_all()
    assert classes(lens) == ["ab"]
    assert lens.node_class("a") is before


def test_a_removed_node_leaves_its_class_and_may_return_to_it() -> None:
    fleet = fleet_of(*(own(node, "x") for node in "ab"))
    lens = lens_of(fleet)
    before = lens.node_class("a")
    node = fleet.members["a"].node
    fleet.remove_node("a")
    fleet.update_all()
    assert classes(lens) == ["b"]
    fleet.put_node(node)
    fleet.update_all()
    assert classes(lens) == ["ab"]
    assert lens.node_class("a") is before


def test_which_device_is_held_counts_if_holders_are_distinguished() -> None:
    """On both nodes no device is left."""
    takes, counters = takes_memory("1"), memory("1")
    fleet = fleet_of(
        *(own(node, gpu("x", takes), gpu("y", takes), count=2) for node in "ab"),
        *(own(node, name=f"{node}-counters", count=2, sharedCounters=counters) for node in "ab"),
    )
    fleet.put_claim(holder("a", "x"))
    fleet.put_claim(holder("b", "y"))
    fleet.update_all()
    assert classes(lens_of(fleet)) == ["ab"]
    assert classes(lens_of(fleet, holders=True)) == ["a", "b"]


def test_the_short_name_of_an_attribute_has_no_domain() -> None:
    assert [short_name("example.com/model"), short_name("model")] == ["model", "model"]


def test_nodes_beyond_the_budget_are_in_no_class_until_a_later_update() -> None:
    lens = Lens(
        by_model(**dict.fromkeys("abcdef", "big")), frozenset(), frozenset(), distinguishes_holders=False
    )
    seen: list[int] = []
    while not seen or lens.is_partial:
        lens.update(Meter(100))
        seen.append(sum(len(each.nodes) for each in lens.classes.with_nodes()))
    assert seen[-1] == 6
    assert seen == sorted(set(seen)), "each update puts more nodes into classes"
    assert len(seen) > 1


def test_a_changed_node_leaves_its_class_even_if_the_budget_is_spent() -> None:
    fleet = by_model(a="big", b="big")
    lens = lens_of(fleet, "model")
    change(fleet, own("a", gpu("x", model="small", serial="a")))
    spent = Meter(0)
    with pytest.raises(BudgetSpentError):
        spent.spend(SORTING)
    lens.update(spent)
    assert sorted("".join(each.nodes) for each in lens.classes.with_nodes()) == ["b"]
    with pytest.raises(BudgetSpentError):
        lens.node_class("a")
    assert classes(lens) == ["a", "b"]


def test_a_removed_node_that_was_left_out_is_forgotten() -> None:
    fleet = by_model(a="big", b="big")
    lens = Lens(fleet, frozenset(), frozenset(), distinguishes_holders=False)
    lens.update(Meter(0))
    fleet.remove_node("a")
    fleet.update_all()
    assert classes(lens) == ["b"]
    with pytest.raises(KeyError):
        lens.node_class("a")


def test_each_name_that_is_read_counts() -> None:
    fleet, spent = by_model(a="big"), []
    for names in (1, 1000):
        meter = Meter()
        reads = frozenset(f"name-{number}" for number in range(names))
        Lens(fleet, reads, frozenset(), distinguishes_holders=False).update(meter)
        spent.append(meter.spent[SORTING])
    assert spent[1] > 10 * spent[0]
