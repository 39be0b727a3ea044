"""The node that a pod gets, while events change the cluster."""

import pytest

from dradriver.allocator import ORDERED, PACKED, AllocationNode, BudgetSpentError, Meter, Order, Refusal
from dradriver.allocator.placement import NoNodeFits, Placer
from dradriver.model.resource.claim import ResourceClaim
from dradriver.model.resource.slices import ResourceSlice
from tests.unit.allocator.worlds import CLASSES, claim, devices, request, slice_


def local(node: str, *names: str) -> ResourceSlice:
    return slice_(f"slice-{node}", *names, pool=node, nodeName=node)


def cluster(**nodes: tuple[str, ...]) -> Placer:
    """Return a placer with these nodes and their devices."""
    placer = Placer()
    placer.put_class(CLASSES["gpu"])
    for name, names in nodes.items():
        placer.put_node(AllocationNode(name))
        placer.put_slice(local(name, *names))
    return placer


def place(placer: Placer, wanted: ResourceClaim) -> tuple[str, list[str]]:
    """Place and hold a claim; return the node and the devices."""
    placement = placer.place([wanted])
    placer.hold([wanted], placement)
    return placement.node, devices(placement.allocations)


def test_the_pod_gets_the_first_node_by_name_that_fits() -> None:
    placer = cluster(b=("x",), a=("x",))
    assert place(placer, claim(request(), name="one")) == ("a", ["x"])
    assert place(placer, claim(request(), name="two")) == ("b", ["x"])


def test_a_placement_changes_nothing_before_hold() -> None:
    placer = cluster(a=("x",))
    wanted = claim(request())
    assert placer.place([wanted]) == placer.place([wanted])


def test_a_deleted_or_deallocated_claim_holds_nothing() -> None:
    placer = cluster(a=("x",))
    one = claim(request(), name="one")
    place(placer, one)
    placer.put_claim(one)
    place(placer, one)
    placer.remove_claim(one.ref)
    assert place(placer, claim(request(), name="two")) == ("a", ["x"])


def test_nodes_where_the_pod_may_not_run_are_excluded() -> None:
    placer = cluster(a=("x",), b=("x",))
    assert placer.place([claim(request())], may_run_on=lambda node: node.name == "b").node == "b"


def test_only_one_node_may_be_asked_about() -> None:
    placer = cluster(a=("x",), b=("x",), c=("x",))
    wanted = claim(request())
    assert placer.place([wanted], only="b") == placer.place([wanted], may_run_on=lambda node: node.name == "b")


@pytest.mark.parametrize("name", ["full", "forbidden", "unknown"])
def test_the_only_node_is_refused_if_it_is_full_forbidden_or_unknown(name: str) -> None:
    placer = cluster(full=("x",), forbidden=("x",), other=("x",))
    held = claim(request(), name="held")
    placer.hold([held], placer.place([held], only="full"))
    with pytest.raises(NoNodeFits) as caught:
        placer.place([claim(request())], only=name, may_run_on=lambda node: node.name == "full")
    assert caught.value.kind == "node"


def test_of_equally_good_nodes_the_first_preferred_node_is_chosen() -> None:
    placer = cluster(a=("x",), b=("x",), c=("x",), d=())
    wanted = [claim(request())]
    assert placer.place(wanted, preferred=["d", "c", "b", "a"]).node == "c"
    excludes_c = placer.place(wanted, preferred=["d", "c", "b"], may_run_on=lambda node: node.name != "c")
    assert excludes_c.node == "b"
    assert placer.place(wanted, preferred=[]).node == "a"


def test_a_better_node_is_chosen_before_a_preferred_node() -> None:
    placer = cluster(a=("x",))
    placer.put_node(AllocationNode("b"))
    placer.put_slice(slice_("slice-b", {"name": "x", **SLOW}, pool="b", nodeName="b"))
    assert placer.place([claim(request())], preferred=["b", "a"]).node == "a"


def test_one_node_is_asked_without_the_others() -> None:
    placer = cluster(a=("x",), b=("x",), c=())
    one, two = claim(request(), name="one"), claim(request(), name="two")
    allocations = placer.place_on("b", [one])
    assert allocations == placer.allocate_on("b", [one])
    place(placer, one)
    assert placer.place_on("a", [two]) is None
    assert placer.place_on("c", [two]) is None
    with pytest.raises(KeyError):
        placer.place_on("d", [two])


def test_a_series_of_questions_about_nodes_has_one_budget() -> None:
    placer, wanted = cluster(a=("x",), b=()), claim(request(), name="one")
    meter = Meter(1000)
    assert placer.fits_on("a", [wanted], meter)
    assert not placer.fits_on("b", [wanted], meter)
    place(placer, wanted)
    assert not placer.fits_on("a", [claim(request(), name="two")], meter)
    with pytest.raises(Refusal, match="device class lost does not exist"):
        placer.fits_on("a", [claim(request(deviceClassName="lost"))], meter)
    with pytest.raises(BudgetSpentError):
        placer.fits_on("a", [claim(request("one"), request("other"))], Meter(1))


def test_the_claims_that_hold_devices_of_a_node_are_found() -> None:
    placer = cluster(a=("x", "y"), b=("x",))
    held = [claim(request(), name=name) for name in ("one", "two")]
    for each in held:
        place(placer, each)
    assert placer.holders_on("a") == {each.ref for each in held}
    assert placer.holders_on("b") == set()
    placer.remove_claim(held[0].ref)
    assert placer.holders_on("a") == {held[1].ref}


def test_the_pools_of_a_node_have_the_devices_in_use() -> None:
    placer = cluster(a=("x", "y"))
    place(placer, claim(request(), name="one"))
    ((pool, use),) = placer.pools_on("a")
    assert [device.id.device for device in pool.devices] == ["x", "y"]
    assert list(use.claims) == ["x"]


def test_a_removed_node_gets_no_pod() -> None:
    placer = cluster(a=("x",), b=("x",))
    placer.remove_node("a")
    assert placer.place([claim(request())]).node == "b"


def test_added_and_removed_devices_count_at_once() -> None:
    placer = cluster(a=("x",))
    pair = claim(request(count=2))
    with pytest.raises(NoNodeFits):
        placer.place([pair])
    placer.put_slice(local("a", "x", "y"))
    assert devices(placer.place([pair]).allocations) == ["x", "y"]
    placer.remove_slice("slice-a")
    with pytest.raises(NoNodeFits):
        placer.place([pair])


def test_nodes_with_equal_refusals_are_grouped() -> None:
    placer = cluster(a=("x",), b=("x",), c=("x", "y"))
    place(placer, claim(request(count=2), name="one"))
    with pytest.raises(NoNodeFits, match=r"0/3 nodes are available: cannot allocate all claims") as caught:
        placer.place([claim(request(count=2), name="two")])
    assert caught.value.text().startswith("0/3 nodes are available: 2 cannot allocate all claims")
    assert [(group.refusal.node, group.nodes) for group in caught.value.groups] == [
        ("a", ("a", "b")),
        ("c", ("c",)),
    ]


def test_an_invalid_claim_is_a_refusal_of_kind_claim() -> None:
    with pytest.raises(Refusal, match="device class lost does not exist") as caught:
        cluster(a=("x",)).place([claim(request(deviceClassName="lost"))])
    assert caught.value.kind == "claim"


def test_giving_up_on_a_node_is_undecided() -> None:
    placer = Placer(budget=10)
    placer.put_class(CLASSES["gpu"])
    placer.put_node(AllocationNode("a"))
    placer.put_slice(local("a", "x", "y"))
    with pytest.raises(NoNodeFits) as caught:
        placer.place([claim(request("one"), request("other"))])
    assert caught.value.kind == "undecided"


SLOW = {"bindingConditions": ["attached"], "bindingFailureConditions": ["failed"]}


def with_slow_devices(order: Order, *slow: str, quick: str) -> Placer:
    """Return a placer with nodes whose devices have binding conditions, and one node without."""
    placer = Placer(order=order)
    placer.put_class(CLASSES["gpu"])
    for name in (*slow, quick):
        placer.put_node(AllocationNode(name))
        device = {"name": "x", **({} if name == quick else SLOW)}
        placer.put_slice(slice_(f"slice-{name}", device, pool=name, nodeName=name))
    return placer


@pytest.mark.parametrize("order", [ORDERED, PACKED], ids=lambda order: order.name)
@pytest.mark.parametrize("wish", [{}, {"allocationMode": "All"}], ids=["plain", "searched"])
def test_a_node_without_binding_conditions_comes_first(order: Order, wish: dict[str, str]) -> None:
    placer = with_slow_devices(order, "a", "b", quick="c")
    wanted = [claim(request(**wish), name=name) for name in ("one", "two", "three")]
    assert [place(placer, each)[0] for each in wanted] == ["c", "a", "b"]


def test_among_the_allowed_nodes_one_without_binding_conditions_comes_first() -> None:
    placer = with_slow_devices(ORDERED, "a", "b", quick="c")
    wanted = [claim(request())]
    assert placer.place(wanted, may_run_on=lambda node: node.name != "a").node == "c"
    assert placer.place(wanted, may_run_on=lambda node: node.name != "c").node == "a"
    assert placer.place(wanted).node == "c"


def network(*names: str) -> ResourceSlice:
    """Return a pool whose devices all nodes reach."""
    return slice_("slice-network", *names, pool="network", nodeName=None, allNodes=True)


@pytest.mark.parametrize("pool", ["a", "network"])
def test_a_pool_that_is_not_served_is_named_in_the_refusal_until_it_is_served(pool: str) -> None:
    placer = cluster(a=("x",)) if pool == "a" else cluster(a=())
    if pool == "network":
        placer.put_slice(network("x"))
    wanted, key = claim(request()), ("gpu.example.com", pool)
    placer.set_unserved({key: "another scheduler allocates its devices"})
    with pytest.raises(NoNodeFits) as caught:
        placer.place([wanted])
    (group,) = caught.value.groups
    text = f"resource pool gpu.example.com/{pool} is not served: another scheduler allocates its devices"
    assert text in group.refusal.brief()
    placer.set_unserved({key: "for another reason"})
    with pytest.raises(Refusal, match="not served: for another reason"):
        placer.allocate_on("a", [wanted])
    placer.set_unserved({})
    assert place(placer, wanted) == ("a", ["x"])


def test_a_request_for_all_devices_does_not_skip_a_pool_that_is_not_served() -> None:
    placer = cluster(a=("x",))
    placer.put_slice(network("y"))
    wanted = claim(request(allocationMode="All"))
    assert place(placer, wanted) == ("a", ["x", "y"])
    placer.remove_claim(wanted.ref)
    placer.set_unserved({("gpu.example.com", "network"): "it has another allocator"})
    with pytest.raises(NoNodeFits):
        placer.place([wanted])


def test_an_allocation_in_a_pool_that_is_not_served_stays() -> None:
    placer = cluster(a=("x", "y"))
    one = claim(request(), name="one")
    assert place(placer, one) == ("a", ["x"])
    placer.set_unserved({("gpu.example.com", "a"): "it has another allocator"})
    placer.set_unserved({})
    assert place(placer, claim(request(), name="two")) == ("a", ["y"])
