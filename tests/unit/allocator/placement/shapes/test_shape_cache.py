"""What is kept between pods, and that a decision which exceeds the budget goes on with the next call."""

import gc
import weakref

import pytest

from dradriver.allocator import ORDERED, PACKED, Meter, Order
from dradriver.allocator.placement import NoNodeFits, Placer
from dradriver.allocator.placement.classes.lens import Lens
from dradriver.allocator.placement.shapes import shape_cache
from dradriver.allocator.placement.shapes.shape_cache import Shape, ShapeCache
from tests.unit.allocator.placement.fleets import (
    SLOW,
    evaluator_of,
    fleet_of,
    gpu,
    holder,
    own,
    placer_of,
    reads,
)
from tests.unit.allocator.worlds import CLASSES, DRIVER, Json, claim, request


def cache_of(*attributes: str) -> ShapeCache:
    """Return a cache for one node whose device has these attributes."""
    return ShapeCache(evaluator_of(fleet_of(own("a", gpu("x", **dict.fromkeys(attributes, "big"))))))


def find(cache: ShapeCache, expression: str = "", name: str = "claim") -> Shape:
    return cache.find([claim(request(expression=expression), name=name)], CLASSES, Meter())


def test_pods_with_equal_claims_have_one_shape() -> None:
    cache = cache_of("model")
    assert find(cache, name="one") is find(cache, name="two")
    assert find(cache, reads("model", "== 'big'")) is not find(cache)


def test_claims_that_read_the_same_attributes_have_one_lens() -> None:
    cache = cache_of("model", "size")
    big, small = (find(cache, reads("model", f"== '{each}'")) for each in ("big", "small"))
    assert big is not small
    assert big.lens is small.lens
    assert find(cache, reads("size", "== 'big'")).lens is not big.lens


def test_after_a_change_of_a_class_each_shape_is_made_again() -> None:
    cache = cache_of("model")
    before = find(cache)
    cache.clear()
    assert find(cache) is not before


def test_a_lens_that_is_forgotten_takes_its_shapes_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shape_cache, "_MAX_LENSES", 1)
    cache = cache_of("model", "size")
    lens: weakref.ref[Lens] = weakref.ref(find(cache, reads("model", "== 'big'")).lens)
    assert lens() is not None
    find(cache, reads("size", "== 'big'"))
    gc.collect()
    assert lens() is None


NAMES = [f"node-{number:02}" for number in range(20)]
ALL = [claim(request(allocationMode="All"))]


def differing_nodes(order: Order) -> Placer:
    """Return nodes that all differ. Each needs a search. The last has no device with binding conditions."""
    slices = []
    for number, node in enumerate(NAMES):
        body: Json = {"capacity": {"memory": {"value": str(number)}}, **({} if node == NAMES[-1] else SLOW)}
        slices.append(own(node, gpu("x", body), gpu("y")))
    return placer_of(*slices, order=order, budget=3000)


@pytest.mark.parametrize("order", [ORDERED, PACKED], ids=lambda order: order.name)
def test_if_the_budget_is_spent_the_next_call_goes_on_with_the_other_nodes(order: Order) -> None:
    placer = differing_nodes(order)
    for node in NAMES[:-1]:
        placer.put_claim(holder(node, "x"))
    answers = []
    for _ in NAMES:
        try:
            answers.append(placer.place(ALL).node)
            break
        except NoNodeFits as nowhere:
            answers.append(nowhere.kind)
    assert answers[0] == "undecided"
    assert answers[-1] == NAMES[-1]


@pytest.mark.parametrize("order", [ORDERED, PACKED], ids=lambda order: order.name)
def test_if_the_budget_is_spent_the_best_node_so_far_is_chosen(order: Order) -> None:
    placer = differing_nodes(order)
    chosen = [placer.place(ALL).node for _ in NAMES]
    assert (chosen[0], chosen[-1]) == (NAMES[0], NAMES[-1])


def test_a_selector_that_fails_distinguishes_which_devices_are_held() -> None:
    cache = cache_of()
    shape = cache.find([claim(request(expression=reads("model", "== 'big'")))], CLASSES, Meter())
    assert shape.lens.distinguishes_holders
    assert not find(cache).lens.distinguishes_holders


@pytest.mark.parametrize("order", [ORDERED, PACKED], ids=lambda order: order.name)
def test_a_claim_that_compares_new_attributes_is_placed_after_some_calls(order: Order) -> None:
    """Each call sorts some of the nodes, because the budget does not suffice for all."""
    slices = [own(node, gpu("x", rack="r"), gpu("y", rack=node)) for node in NAMES[:-1]]
    slices.append(own(NAMES[-1], gpu("x", rack="r"), gpu("y", rack="r")))
    placer = placer_of(*slices, order=order, budget=500)
    last = [claim(request(count=2), constraints=[{"matchAttribute": f"{DRIVER}/rack"}])]
    answers: list[str] = []
    while not answers or answers[-1] == "undecided":
        assert len(answers) < 100
        try:
            answers.append(placer.place(last).node)
        except NoNodeFits as nowhere:
            answers.append(nowhere.kind)
    assert answers[0] == "undecided"
    assert answers[-1] == NAMES[-1]


def test_no_node_is_refused_when_it_was_not_sorted_yet() -> None:
    placer = placer_of(*(own(node, gpu("x")) for node in NAMES), budget=30)
    with pytest.raises(NoNodeFits) as caught:
        placer.place([claim(request(count=2))])
    assert caught.value.kind == "undecided"
