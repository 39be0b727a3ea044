"""Clusters in which a shortcut of the placer could decide otherwise than a search on every node."""

from contextlib import suppress
from typing import Any

import pytest

from dradriver.allocator import ORDERED, PACKED, AllocationNode, Order
from dradriver.allocator.placement import NoNodeFits
from dradriver.allocator.placement.fleet import fleet
from dradriver.allocator.placement.shapes import shape_cache
from dradriver.model.resource.slices import ResourceSlice
from tests.unit.allocator.placement.fleets import SLOW, gpu, holder, own, placer_of, reads, shared
from tests.unit.allocator.worlds import DRIVER, claim, request

Json = dict[str, Any]

BIG = reads("model", "== 'big'")


def match(attribute: str, *requests: str) -> Json:
    return {"matchAttribute": attribute, **({"requests": list(requests)} if requests else {})}


def test_values_in_several_domains_are_compared_one_by_one() -> None:
    def dev(name: str, one: str, other: str) -> Json:
        attributes = {"a.org/root": {"string": one}, "b.org/root": {"string": other}}
        return {"name": name, "attributes": attributes}

    placer = placer_of(
        own("a", dev("x", "1", "2"), dev("y", "5", "3")), own("b", dev("x", "1", "2"), dev("y", "1", "3"))
    )
    assert placer.place([claim(request(count=2), constraints=[match("a.org/root")])]).node == "b"


def test_signatures_of_other_attributes_are_not_reused() -> None:
    def far(attribute: str) -> ResourceSlice:
        term = {"matchExpressions": [{"key": "lost", "operator": "Exists"}]}
        return shared(gpu("far", **{attribute: "z"}), nodeSelector={"nodeSelectorTerms": [term]})

    def node(name: str, same: str, differs: str) -> ResourceSlice:
        members = [gpu(f"x{n}", **{same: "v", differs: f"w{n}"}) for n in range(2)]
        return own(name, *members, gpu("z", **{same: "u", differs: "u"}))

    pod = [
        claim(
            request("pair", count=2),
            request("other"),
            constraints=[match(f"{DRIVER}/root", "pair"), match(f"{DRIVER}/rack", "other")],
        )
    ]
    placer = placer_of(far("root"), node("a", "root", "rack"))
    assert placer.place(pod).node == "a"
    placer.remove_node("a")
    placer.put_slice(far("rack"))
    placer.put_node(AllocationNode("b"))
    placer.put_slice(node("b", "rack", "root"))
    with pytest.raises(NoNodeFits):
        placer.place(pod)


def test_ordered_the_relaxed_choice_binds_and_the_exact_one_does_not() -> None:
    placer = placer_of(
        own("a", gpu("slow", SLOW, serial="s1"), gpu("quick", serial="s2")),
        own("b", gpu("x", serial="s3")),
        own("c", gpu("x", serial="s4")),
    )
    assert placer.place([claim(request(expression=reads("serial", "!= 's1'")))]).node == "a"


def test_packed_the_relaxed_first_choice_forces_a_worse_second_choice() -> None:
    placer = placer_of(
        own(
            "a",
            gpu("u", serial="s1", root="1"),
            gpu("v", SLOW, serial="s2", root="1"),
            gpu("x", serial="s3", root="2"),
            gpu("y", serial="s4", root="2"),
        ),
        own("b", *(gpu(f"x{n}", serial=f"t{n}", root=str(max(n, 1))) for n in range(5))),
        own("c", gpu("u", serial="u1", root="1")),
        order=PACKED,
    )
    pod = [
        claim(
            request("one", expression=reads("serial", "!= 's1'")),
            request("two"),
            constraints=[match(f"{DRIVER}/root")],
        )
    ]
    assert placer.place(pod).node == "a"


def test_overdrawn_pool_ranks_only_available_devices() -> None:
    other = {"consumesCounters": [{"counterSet": "c2", "counters": {"m": {"value": "1"}}}]}
    over = {"consumesCounters": [{"counterSet": "c1", "counters": {"m": {"value": "2"}}}]}
    members = [
        gpu("held", over, {"nodeName": "lost"}),
        gpu("y", other, {"nodeName": "a"}),
        gpu("y2", other, {"nodeName": "lost"}),
        gpu("slow", SLOW, {"nodeName": "a"}),
        gpu("quick", {"nodeName": "b"}),
    ]
    sets = [{"name": n, "counters": {"m": {"value": v}}} for n, v in (("c1", "1"), ("c2", "4"))]
    placer = placer_of(
        shared(*members, perDeviceNodeSelection=True, count=2),
        shared(name="s2", allNodes=True, count=2, sharedCounters=sets),
        order=PACKED,
        a={},
        b={},
    )
    placer.put_claim(holder("fabric", "held"))
    assert placer.place([claim(request())]).node == "b"


def test_preferred_node_that_shows_an_error_is_not_preferred() -> None:
    placer = placer_of(own("a", gpu("x", model="big")), own("b", gpu("x")))
    assert placer.place([claim(request(expression=BIG))]).node == "a"
    assert placer.place([claim(request(expression=BIG))], preferred=["b"]).node == "a"


def test_preferred_name_that_is_no_node_is_skipped() -> None:
    assert placer_of(own("a", "x")).place([claim(request())], preferred=["gone"]).node == "a"


def test_best_node_is_kept_if_the_budget_ends_at_a_preferred_node() -> None:
    pod = [claim(request(expression=BIG, allocationMode="All"))]
    slices = [own("a", gpu("x", model="big")), own("b", gpu("x", model="big", other="y"))]
    assert placer_of(*slices, budget=1000).place(pod).node == "a"
    assert placer_of(*slices, budget=1000).place(pod, preferred=["b"]).node == "a"


def test_cache_of_shapes_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shape_cache, "_MAX_SHAPES", 2)
    placer = placer_of(own("a", "x"))
    for n in range(10):
        placer.place([claim(request(f"r{n}"))])
    assert len(placer._shapes._shapes) <= 2


def test_ranked_groups_keep_the_best_if_the_budget_is_spent() -> None:
    names = [f"n{n:02}" for n in range(30)]
    members = [gpu("all", {"allNodes": True}), *(gpu(f"d-{n}", {"nodeName": n}) for n in names)]
    placer = placer_of(
        shared(*members, perDeviceNodeSelection=True), order=PACKED, budget=3000, **{n: {} for n in names}
    )
    assert placer.place([claim(request())]).node == "n00"


@pytest.mark.parametrize("order", [ORDERED, PACKED], ids=lambda order: order.name)
def test_cut_claims_go_on_after_the_budget(order: Order) -> None:
    names = [f"n{n:03}" for n in range(200)]
    placer = placer_of(*(own(n, gpu("x", serial=n)) for n in names), order=order, budget=1200)
    pod = [claim(request(expression=reads("serial", ">= 'n199'")))]
    found: set[str] = set()
    for _ in range(200):
        with suppress(NoNodeFits):
            found.add(placer.place(pod).node)
            break
    assert found == {"n199"}


def test_old_outlooks_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet, "_MAX_OLD_OUTLOOKS", 4)
    placer = placer_of(shared("x"), a={})
    for n in range(50):
        placer.put_slice(shared("x", f"y{n}"))
        placer.place([claim(request())])
    assert len(placer._fleet._outlooks) < 10
