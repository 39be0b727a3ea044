"""Claims whose selectors compare attributes that are different on each node."""

import pytest

from dradriver.allocator import ORDERED, PACKED, AllocationNode, CelSelectors, Meter, Order, Refusal
from dradriver.allocator.placement import NoNodeFits, Placer
from dradriver.allocator.placement.shapes.relaxation import CutClaims, cut_claims
from tests.unit.allocator.placement.fleets import gpu, holder, own, parsed, placer_of, reads, shared
from tests.unit.allocator.worlds import Json, claim, devices, request

BIG = reads("model", "== 'big'")
ORDERS = pytest.mark.parametrize("order", [ORDERED, PACKED], ids=lambda order: order.name)


def cut(*requests: Json) -> CutClaims | None:
    """Cut claims off the comparisons with serial numbers."""
    return cut_claims(parsed(*requests), CelSelectors(), lambda name: name == "serial", Meter())


def relaxed(expression: str) -> list[str] | None:
    """Return what is left of a selector; None if nothing is cut."""
    found = cut(request(expression=expression))
    selections = found.relaxed.requests[0].alternatives[0].selections if found else ()
    return [each.expression for each in selections] if found else None


def test_only_comparisons_with_individual_attributes_are_cut() -> None:
    serial = reads("serial", "!= 'x'")
    assert relaxed(f"{BIG} && {serial}") == [f"({BIG})"]
    assert relaxed(serial) == []
    assert relaxed(BIG) is None


def test_a_part_that_reads_more_than_the_attribute_is_not_cut() -> None:
    serial = reads("serial", "== 'x'")
    assert relaxed(f"{BIG} || {serial}") is None


def test_a_request_for_all_devices_is_not_cut() -> None:
    assert cut(request(expression=reads("serial", "!= 'x'"), allocationMode="All")) is None


def test_claims_that_differ_in_the_literal_are_cut_to_the_same_claims() -> None:
    one, same, other = (reads("serial", f"!= '{text}'") for text in ("x", "y", "x"))
    found = [cut(request(expression=each)) for each in (f"{BIG} && {one}", f"{BIG} && {same}", other)]
    keys = [each.key for each in found if each]
    assert keys[0] == keys[1]
    assert keys[0] != keys[2]


def racks(order: Order = ORDERED, *more: str) -> Placer:
    """Return nodes with two devices each, whose serial numbers are a0, a1, b0 and so on."""
    slices = (own(node, *(gpu(f"x{n}", serial=f"{node}{n}") for n in range(2))) for node in "abcd")
    return placer_of(*slices, *(own(node, "x") for node in more), order=order)


def place(placer: Placer, comparison: str) -> tuple[str, list[str]]:
    placement = placer.place([claim(request(expression=reads("serial", comparison)))])
    return placement.node, devices(placement.allocations)


@ORDERS
def test_the_only_node_with_a_serial_number_is_found_without_the_others(order: Order) -> None:
    asked = []

    def may_run_on(node: AllocationNode) -> bool:
        asked.append(node.name)
        return True

    wanted = claim(request(expression=reads("serial", "== 'c1'")))
    placement = racks(order).place([wanted], may_run_on=may_run_on)
    assert (placement.node, devices(placement.allocations)) == ("c", ["x1"])
    assert asked == ["c"]


@ORDERS
def test_a_serial_number_that_no_node_has_is_refused(order: Order) -> None:
    with pytest.raises(NoNodeFits):
        place(racks(order), "== 'lost'")


@ORDERS
def test_the_device_that_a_comparison_excludes_is_not_chosen(order: Order) -> None:
    placer = racks(order)
    assert place(placer, "!= 'a0'") == ("a", ["x1"])
    assert place(placer, "in ['b1', 'c0']") == ("b", ["x1"])
    assert place(placer, ">= 'd'") == ("d", ["x0"])


@ORDERS
def test_a_held_device_does_not_serve_a_comparison(order: Order) -> None:
    placer = racks(order)
    placer.put_claim(holder("c", "x1"))
    with pytest.raises(NoNodeFits):
        place(placer, "== 'c1'")


@ORDERS
def test_a_device_without_the_attribute_shows_that_the_claim_is_wrong(order: Order) -> None:
    """The comparison must not be cut: the index would find only the last node."""
    with pytest.raises(Refusal, match=r"a0/x.*no such key: serial"):
        place(racks(order, "a0"), "== 'd1'")


@ORDERS
def test_a_device_without_the_attribute_has_the_default(order: Order) -> None:
    wanted = request(expression="device.attributes['gpu.example.com'].?serial.orValue('lost') == 'lost'")
    assert racks(order, "e").place([claim(wanted)]).node == "e"


@ORDERS
def test_shared_devices_can_meet_a_comparison_too(order: Order) -> None:
    placer = racks(order)
    placer.put_slice(shared(gpu("far", serial="far")))
    assert place(placer, "== 'far'") == ("a", ["far"])


@ORDERS
def test_a_shared_device_without_the_attribute_shows_that_the_claim_is_wrong(order: Order) -> None:
    """The selector after the comparison excludes the device too late."""
    placer = racks(order)
    placer.put_slice(shared(gpu("far")))
    wanted = request(expression=reads("serial", "!= 'a0'"))
    wanted["exactly"]["selectors"].append({"cel": {"expression": "device.driver == 'other'"}})
    with pytest.raises(Refusal, match=r"fabric/far.*no such key: serial"):
        placer.place([claim(wanted)])


@ORDERS
def test_a_serial_number_that_moved_is_found_on_its_new_node(order: Order) -> None:
    placer = racks(order)
    assert place(placer, "== 'b0'") == ("b", ["x0"])
    placer.put_slice(own("b", gpu("x0", serial="new")))
    placer.put_slice(own("d", gpu("x0", serial="d0"), gpu("came", serial="b0")))
    assert place(placer, "== 'b0'") == ("d", ["came"])


@ORDERS
def test_nodes_on_which_claims_fit_are_found_although_a_comparison_is_cut(order: Order) -> None:
    not_on_b = " && ".join(reads("serial", f"!= '{serial}'") for serial in ("b0", "b1"))
    wanted = claim(request(expression=not_on_b))
    assert list(racks(order).find_fitting([wanted], "dcba", 2)) == ["d", "c"]
    assert list(racks(order).find_fitting([wanted], "ba", 2)) == ["a"]
