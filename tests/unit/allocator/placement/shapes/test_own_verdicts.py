"""The verdicts that are known for classes of nodes, and the work that the others take."""

import pytest

from dradriver.allocator import ORDERED, PACKED
from dradriver.allocator.meter import CLASSES
from dradriver.allocator.placement.evaluation.verdicts import REFUSED, ShapeFits
from dradriver.allocator.placement.shapes import own_verdicts
from tests.unit.allocator.placement.fleets import verdicts_of


def test_a_class_is_evaluated_once() -> None:
    verdicts, lens, meter = verdicts_of(PACKED, a=2)
    node_class = lens.node_class("a")
    assert verdicts.get(node_class) is None
    verdict = verdicts.find(node_class)
    spent = meter.spent[CLASSES]
    assert isinstance(verdict, ShapeFits)
    assert verdicts.find(node_class) is verdicts.get(node_class) is verdict
    assert verdicts.find_bound(node_class) == verdict.rating
    assert meter.spent[CLASSES] == spent


def test_a_class_on_which_the_claims_do_not_fit_has_no_bound() -> None:
    verdicts, lens, _ = verdicts_of(PACKED, a=1)
    assert verdicts.find(lens.node_class("a")) is REFUSED
    assert verdicts.find_bound(lens.node_class("a")) is None


def test_only_an_order_with_preferences_needs_the_verdict_for_a_bound() -> None:
    for order, has_bound in ((ORDERED, True), (PACKED, False)):
        verdicts, lens, meter = verdicts_of(order, a=2)
        assert verdicts.has_bound(lens.node_class("a")) is has_bound
        verdicts.find_bound(lens.node_class("a"))
        assert bool(meter.spent) is not has_bound


def test_too_many_verdicts_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_verdicts, "_MAX_VERDICTS", 1)
    verdicts, lens, _ = verdicts_of(PACKED, a=2, b=3)
    verdicts.find(lens.node_class("a"))
    verdicts.limit_size()
    assert verdicts.size == 1
    verdicts.find(lens.node_class("b"))
    verdicts.limit_size()
    assert verdicts.size == 0
