"""The budget of the decision about one pod."""

import pytest

from dradriver.allocator import AllocationNode, BudgetSpentError, InUse, Inventory, Meter, Refusal, allocate
from dradriver.allocator.meter import CHOICES, COMPILING, PROOFS, SELECTORS
from dradriver.allocator.placement import NoNodeFits, Placer
from tests.unit.allocator.worlds import CLASSES, NODE, claim, request, slice_, try_on


def test_a_budget_is_spent_by_the_work_that_exceeds_it() -> None:
    meter = Meter(40)
    meter.spend(CHOICES, 2)
    assert not meter.is_spent
    with pytest.raises(BudgetSpentError):
        meter.spend(PROOFS)
    assert meter.is_spent


def test_a_renewed_meter_has_the_whole_budget_and_knows_what_is_done() -> None:
    meter = Meter(40)
    assert meter.spend_once(COMPILING, "true", 4)
    renewed = meter.renew()
    assert not renewed.spend_once(COMPILING, "true", 4)
    renewed.spend(COMPILING, 4)
    assert not renewed.is_spent


def test_a_node_may_spend_half_of_the_budget() -> None:
    meter = Meter(1000)
    with pytest.raises(BudgetSpentError), meter.one_node():
        meter.spend(CHOICES, 26)
    assert not meter.is_spent
    with meter.one_node():
        meter.spend(CHOICES, 24)


def test_no_node_is_tried_when_the_budget_is_spent() -> None:
    meter = Meter(1)
    with pytest.raises(BudgetSpentError):
        meter.spend(CHOICES)
    with pytest.raises(BudgetSpentError), meter.one_node():
        pass


def test_work_that_has_spent_its_part_of_the_budget_ends_and_leaves_the_rest() -> None:
    meter, done = Meter(100), []

    def work() -> None:
        while True:
            meter.spend(CHOICES)
            done.append(CHOICES)

    meter.spend_part(50, work)
    assert len(done) == 2
    meter.spend(CHOICES, 2)
    assert not meter.is_spent


def test_no_part_is_spent_when_nothing_is_left() -> None:
    meter, done = Meter(1), []
    with pytest.raises(BudgetSpentError):
        meter.spend(CHOICES)
    meter.spend_part(50, lambda: done.append(CHOICES))
    assert not done


def test_a_refusal_names_the_kinds_of_work_in_rounded_shares() -> None:
    meter = Meter(1000)
    meter.spend(CHOICES, 30)
    meter.spend(PROOFS, 370)
    meter.spend(SELECTORS, 10)
    refusal = meter.refusal("node-1")
    assert str(refusal) == "cannot decide within 1 ms of work: 60 % device choices, 40 % proofs"
    assert (refusal.kind, refusal.node, refusal.reasons[0].code) == ("undecided", "node-1", "budget")


def test_an_expression_is_compiled_once_for_all_requests() -> None:
    equal = [request(f"r{number}", "true" + " || true" * 50) for number in range(3)]
    meters = [Meter(), Meter()]
    for meter, wanted in zip(meters, (equal, equal[:1]), strict=True):
        try_on([slice_("a", *"abc")], claim(*wanted), meter=meter)
    assert meters[0].spent[COMPILING] == meters[1].spent[COMPILING] > 0


def test_a_claim_with_too_many_expressions_is_undecided_before_any_node() -> None:
    wanted = [request(f"r{number}", f"{'true && ' * 1000}{number} == {number}") for number in range(5)]
    with pytest.raises(Refusal, match=r"within 250 ms of work: 100 % compiling expressions") as caught:
        try_on([slice_("a", *"abcde")], claim(*wanted))
    assert (caught.value.kind, caught.value.node) == ("undecided", "")


def test_selectors_that_loop_end_with_the_budget() -> None:
    loop = "[1, 2, 3, 4, 5, 6, 7, 8].all(x, [1, 2, 3, 4, 5, 6, 7, 8].all(y, x * y > 0))"
    wanted = claim(request(expression=" && ".join([loop] * 20)))
    with pytest.raises(Refusal, match=r"\d0 % selectors") as caught:
        try_on([slice_("a", *map("gpu-{}".format, range(60)))], wanted)
    assert caught.value.kind == "undecided"


def test_the_same_inputs_take_the_same_work() -> None:
    inventory, meters = Inventory.of([slice_("a", *"abcd")]), [Meter(), Meter()]
    wanted = claim(request(count=3), request("other", "device.driver != ''"))
    for meter in meters:
        allocate([wanted], inventory, CLASSES, InUse.of([]), NODE, meter=meter)
    assert meters[0].spent == meters[1].spent


def test_the_placer_continues_where_the_budget_ended() -> None:
    """Each node differs. A budget for a few nodes suffices after some attempts."""
    placer = Placer(budget=3000)
    placer.put_class(CLASSES["gpu"])
    for number in range(60):
        name = f"node-{number}"
        placer.put_node(AllocationNode(name))
        size = {"attributes": {"size": {"int": number}}}
        devices = [{"name": f"gpu-{n}", **size} for n in range(2)]
        placer.put_slice(slice_(name, *devices, nodeName=name, pool=name))
    wanted = claim(request("a", "device.attributes['gpu.example.com'].size + 0 == 59"), request("b"))
    kinds = []
    for _ in range(10):
        try:
            kinds.append(placer.place([wanted]).node)
        except NoNodeFits as nowhere:
            kinds.append(nowhere.kind)
    assert kinds[0] == "undecided"
    assert kinds[-1] == "node-59"
