"""The nodes that have a device with some value of an attribute."""

from dradriver.allocator import BudgetSpentError, Meter
from dradriver.allocator.placement.fleet.attribute_index import AttributeIndex
from dradriver.allocator.placement.fleet.fleet import Fleet
from tests.unit.allocator.placement.fleets import fleet_of, gpu, own, shared


def index_of(fleet: Fleet, name: str = "serial") -> AttributeIndex:
    index = AttributeIndex(fleet, name)
    index.update(Meter())
    return index


def rack(*names: str) -> Fleet:
    return fleet_of(*(own(name, gpu("x", serial=name, model="big"), "plain") for name in names))


def test_only_values_that_few_nodes_have_in_common_are_individual() -> None:
    assert index_of(rack("a", "b", "c")).is_individual
    assert not index_of(rack("a", "b", "c"), "model").is_individual
    assert not index_of(rack("a", "b")).is_individual
    assert not index_of(rack("a", "b", "c"), "lost").is_individual


def test_a_value_is_found_with_its_type() -> None:
    index = index_of(rack("a", "b"))
    assert set(index.find_nodes(("str", "a"))) == {"a"}
    assert not index.find_nodes(("int", "a"))


def test_a_changed_slice_replaces_the_values_of_its_node_only() -> None:
    fleet = rack("a", "b")
    index = index_of(fleet)
    fleet.put_slice(own("a", gpu("x", serial="b"), gpu("y", serial="new")))
    fleet.update_all()
    index.update(Meter())
    found = [set(index.find_nodes(("str", value))) for value in ("a", "b", "new")]
    assert found == [set(), {"a", "b"}, {"a"}]


def test_a_removed_node_is_not_found() -> None:
    fleet = rack("a", "b", "c")
    index = index_of(fleet)
    fleet.remove_node("a")
    fleet.update_all()
    index.update(Meter())
    assert not index.find_nodes(("str", "a"))
    assert not index.is_individual


def test_devices_that_other_nodes_reach_too_are_not_counted() -> None:
    assert not index_of(fleet_of(shared(gpu("x", serial="a")), a={})).find_nodes(("str", "a"))


def test_an_update_continues_where_the_budget_of_the_last_one_was_spent() -> None:
    fleet = rack(*"abcdefgh")
    index = AttributeIndex(fleet, "serial")
    attempts = 0
    while True:
        attempts += 1
        try:
            index.update(Meter(10))
            break
        except BudgetSpentError:
            assert attempts < 9
    assert attempts > 1
    assert all(set(index.find_nodes(("str", name))) == {name} for name in "abcdefgh")


def test_nodes_without_the_attribute_are_read_once() -> None:
    index = index_of(rack("a", "b"), "lost")
    meter = Meter()
    index.update(meter)
    assert not meter.spent
