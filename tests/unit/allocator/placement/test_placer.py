"""Which node a pod gets, and what becomes of the cluster as events come."""

import pytest

from dradriver.allocator import ORDERED, PACKED, AllocationNode, Order, Refusal
from dradriver.allocator.placement import NoNodeFits, Placer
from dradriver.model.resource.claim import ResourceClaim
from dradriver.model.resource.slices import ResourceSlice
from tests.unit.allocator.worlds import CLASSES, claim, devices, request, slice_


def local(node: str, *names: str) -> ResourceSlice:
    return slice_(f"slice-{node}", *names, pool=node, nodeName=node)


def cluster(**nodes: tuple[str, ...]) -> Placer:
    """A placer that knows these nodes with their devices."""
    placer = Placer()
    placer.put_class(CLASSES["gpu"])
    for name, names in nodes.items():
        placer.put_node(AllocationNode(name))
        placer.put_slice(local(name, *names))
    return placer


def place(placer: Placer, wanted: ResourceClaim) -> tuple[str, list[str]]:
    """The node and the devices, which are in use from then on."""
    placement = placer.place([wanted])
    placer.hold([wanted], placement)
    return placement.node, devices(placement.allocations)


def test_the_first_node_by_name_that_fits() -> None:
    placer = cluster(b=("x",), a=("x",))
    assert place(placer, claim(request(), name="one")) == ("a", ["x"])
    assert place(placer, claim(request(), name="two")) == ("b", ["x"])


def test_a_decision_changes_nothing_until_it_is_held() -> None:
    placer = cluster(a=("x",))
    wanted = claim(request())
    assert placer.place([wanted]) == placer.place([wanted])


def test_a_claim_that_is_gone_or_deallocated_holds_nothing() -> None:
    placer = cluster(a=("x",))
    one = claim(request(), name="one")
    place(placer, one)
    placer.put_claim(one)
    place(placer, one)
    placer.remove_claim(one.ref)
    assert place(placer, claim(request(), name="two")) == ("a", ["x"])


def test_nodes_where_the_pod_may_not_run_are_left_out() -> None:
    placer = cluster(a=("x",), b=("x",))
    assert placer.place([claim(request())], may_run_on=lambda node: node.name == "b").node == "b"


def test_a_node_that_is_gone_gets_nothing() -> None:
    placer = cluster(a=("x",), b=("x",))
    placer.remove_node("a")
    assert placer.place([claim(request())]).node == "b"


def test_devices_that_come_and_go_are_seen_at_once() -> None:
    placer = cluster(a=("x",))
    pair = claim(request(count=2))
    with pytest.raises(NoNodeFits):
        placer.place([pair])
    placer.put_slice(local("a", "x", "y"))
    assert devices(placer.place([pair]).allocations) == ["x", "y"]
    placer.remove_slice("slice-a")
    with pytest.raises(NoNodeFits):
        placer.place([pair])


def test_nodes_that_refuse_alike_are_told_together() -> None:
    placer = cluster(a=("x",), b=("x",), c=("x", "y"))
    place(placer, claim(request(count=2), name="one"))
    with pytest.raises(NoNodeFits, match=r"0/3 nodes are available: cannot allocate all claims") as caught:
        placer.place([claim(request(count=2), name="two")])
    assert caught.value.text().startswith("0/3 nodes are available: 2 cannot allocate all claims")
    assert [(group.refusal.node, group.nodes) for group in caught.value.groups] == [
        ("a", ("a", "b")),
        ("c", ("c",)),
    ]


def test_what_is_wrong_with_a_claim_is_told_as_such() -> None:
    with pytest.raises(Refusal, match="device class lost does not exist") as caught:
        cluster(a=("x",)).place([claim(request(deviceClassName="lost"))])
    assert caught.value.kind == "claim"


def test_giving_up_on_a_node_is_not_a_no() -> None:
    placer = Placer(max_steps=1)
    placer.put_class(CLASSES["gpu"])
    placer.put_node(AllocationNode("a"))
    placer.put_slice(local("a", "x", "y"))
    with pytest.raises(NoNodeFits) as caught:
        placer.place([claim(request("one"), request("other"))])
    assert caught.value.kind == "undecided"


SLOW = {"bindingConditions": ["attached"], "bindingFailureConditions": ["failed"]}


def with_slow_devices(order: Order, *slow: str, quick: str) -> Placer:
    """A placer of nodes whose devices have to be attached, and of one whose device is ready at once."""
    placer = Placer(order=order)
    placer.put_class(CLASSES["gpu"])
    for name in (*slow, quick):
        placer.put_node(AllocationNode(name))
        device = {"name": "x", **({} if name == quick else SLOW)}
        placer.put_slice(slice_(f"slice-{name}", device, pool=name, nodeName=name))
    return placer


@pytest.mark.parametrize("order", [ORDERED, PACKED], ids=lambda order: order.name)
@pytest.mark.parametrize("wish", [{}, {"allocationMode": "All"}], ids=["plain", "searched"])
def test_a_node_whose_devices_are_ready_at_once_comes_first(order: Order, wish: dict[str, str]) -> None:
    placer = with_slow_devices(order, "a", "b", quick="c")
    wanted = [claim(request(**wish), name=name) for name in ("one", "two", "three")]
    assert [place(placer, each)[0] for each in wanted] == ["c", "a", "b"]


def test_of_the_nodes_where_the_pod_may_run_those_that_are_ready_at_once_come_first() -> None:
    placer = with_slow_devices(ORDERED, "a", "b", quick="c")
    wanted = [claim(request())]
    assert placer.place(wanted, may_run_on=lambda node: node.name != "a").node == "c"
    assert placer.place(wanted, may_run_on=lambda node: node.name != "c").node == "a"
    assert placer.place(wanted).node == "c"
