"""The best class of a group, and what the budget has to do with it."""

import pytest

from dradriver.allocator import ORDERED, PACKED, BudgetSpentError
from dradriver.allocator.meter import CLASSES
from dradriver.allocator.placement.shapes.class_heap import ClassHeap
from tests.unit.allocator.placement.fleets import verdicts_of


def test_the_class_with_the_smallest_rating_is_the_best() -> None:
    verdicts, lens, _ = verdicts_of(PACKED, a=4, b=3, c=1)
    heap = ClassHeap(verdicts)
    for name in "abc":
        heap.add(lens.node_class(name))
    heap.push_pending()
    best = heap.find_best(None, by_name=False)
    assert best is not None
    assert best[1] == "b"
    best = heap.find_best(None, by_name=True)
    assert best is not None
    assert best[:2] == ((), "a")


def test_a_class_waits_for_the_budget_only_if_its_bound_needs_it() -> None:
    verdicts, lens, _ = verdicts_of(PACKED, a=3, b=2)
    heap = ClassHeap(verdicts)
    verdicts.find(lens.node_class("a"))
    heap.add(lens.node_class("a"))
    assert not heap.has_pending
    heap.add(lens.node_class("b"))
    assert heap.has_pending
    heap.push_pending()
    assert not heap.has_pending


def test_without_preferences_the_names_decide() -> None:
    verdicts, lens, _ = verdicts_of(ORDERED, b=2, a=1, c=3)
    heap = ClassHeap(verdicts)
    assert not heap.may_have_nodes(None)
    for name in "abc":
        heap.add(lens.node_class(name))
    assert heap.may_have_nodes(None)
    assert [name for name in ("", "a", "b") if heap.may_have_nodes(name)] == ["a", "b"]
    best = heap.find_best(None, by_name=False)
    assert best is not None
    assert best[1] == "b"


def test_the_known_classes_are_found_after_the_budget_is_spent() -> None:
    verdicts, lens, meter = verdicts_of(PACKED, a=3, b=2)
    heap = ClassHeap(verdicts)
    verdicts.find(lens.node_class("a"))
    with pytest.raises(BudgetSpentError):
        meter.spend(CLASSES, 1_000_000)
    for name in "ab":
        heap.add(lens.node_class(name))
    with pytest.raises(BudgetSpentError):
        heap.push_pending()
    known = heap.find_known(None)
    assert known is not None
    assert known[1] == "a"
    assert heap.find_known(lambda name: name != "a") is None
    assert heap.has_pending
