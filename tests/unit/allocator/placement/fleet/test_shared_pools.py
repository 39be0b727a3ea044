"""The nodes that a selector matches, and what nodes reach of pools that they share."""

from typing import Any

import pytest

from dradriver.allocator import AllocationNode
from dradriver.allocator.placement.fleet.fleet import Fleet
from dradriver.allocator.placement.fleet.shared_pools import NodeIndex
from dradriver.model.core.node_selector import NodeSelector
from dradriver.model.encoding.codec import from_builtins
from tests.unit.allocator.placement.fleets import fleet_of, gpu, holder, shared, zone
from tests.unit.allocator.worlds import Json

NODES = {"a": {"zone": "1"}, "b": {"zone": "2"}, "c": {}}


def selector(*terms: Json) -> NodeSelector:
    return from_builtins(NodeSelector, {"nodeSelectorTerms": list(terms)})


def label(operator: str, *values: str) -> Json:
    return {"matchExpressions": [{"key": "zone", "operator": operator, "values": list(values)}]}


def field(operator: str, *values: str) -> Json:
    return {"matchFields": [{"key": "metadata.name", "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("terms", "names"),
    [
        ([label("In", "1", "3")], "a"),
        ([label("NotIn", "1")], "bc"),
        ([label("Exists")], "ab"),
        ([label("DoesNotExist")], "c"),
        ([label("Gt", "1")], "b"),
        ([field("In", "c", "lost")], "c"),
        ([field("NotIn", "c")], "ab"),
        ([field("In", "a", "c") | label("Exists")], "a"),
        ([label("In", "1"), field("In", "c")], "ac"),
        ([{}], ""),
    ],
    ids=str,
)
def test_the_nodes_that_a_selector_matches_are_found(terms: list[Json], names: str) -> None:
    index = NodeIndex()
    for name, labels in NODES.items():
        index.put(AllocationNode(name, labels))
    assert index.find_matches(selector(*terms)) == set(names)


def test_a_node_is_found_by_its_present_labels_only() -> None:
    index = NodeIndex()
    index.put(AllocationNode("a", {"zone": "1"}))
    index.put(AllocationNode("a", {"zone": "2"}))
    assert index.find_matches(selector(label("In", "1"))) == set()
    assert index.find_matches(selector(label("In", "2"))) == {"a"}
    index.remove("a")
    index.remove("a")
    assert index.find_matches(selector(label("In", "2"))) == set()


def reached(fleet: Fleet, node: str) -> list[str]:
    """Return the shared devices that a node reaches."""
    return [
        name
        for sight in fleet.members[node].outlook.sights
        for number, name in enumerate(sight.pool.names.devices)
        if sight.reached >> number & 1
    ]


def put(fleet: Fleet, *changes: Any) -> None:
    for each in changes:
        if isinstance(each, AllocationNode):
            fleet.put_node(each)
        else:
            fleet.put_slice(each)
    fleet.update_all()


def test_nodes_that_reach_the_same_devices_share_sight_and_outlook() -> None:
    each = shared(gpu("x", {"nodeName": "c"}), gpu("y", zone("1")), perDeviceNodeSelection=True)
    fleet = fleet_of(each, a=NODES["a"], a2=NODES["a"], c={})
    outlooks = {name: fleet.members[name].outlook for name in ("a", "a2", "c")}
    assert outlooks["a"] is outlooks["a2"]
    assert outlooks["a"] is not outlooks["c"]
    assert outlooks["a"].sights[0].pool is outlooks["c"].sights[0].pool


def test_each_node_reaches_the_devices_that_name_or_select_it() -> None:
    members = [
        gpu("named", {"nodeName": "b"}),
        gpu("zone", zone("1")),
        gpu("all", {"allNodes": True}),
        gpu("nobody", {"nodeName": "lost"}),
    ]
    fleet = fleet_of(shared(*members, perDeviceNodeSelection=True), **NODES)
    assert {name: reached(fleet, name) for name in NODES} == {
        "a": ["zone", "all"],
        "b": ["named", "all"],
        "c": ["all"],
    }


def test_nodes_may_reach_different_slices_of_a_pool() -> None:
    slices = [
        shared("x", "y", name="s1", count=3, **zone("1")),
        shared(
            gpu("p", zone("2")),
            gpu("q", {"allNodes": True}),
            name="s2",
            count=3,
            perDeviceNodeSelection=True,
        ),
        shared("z", name="s3", count=3, allNodes=True),
    ]
    fleet = fleet_of(*slices, **NODES)
    assert {name: reached(fleet, name) for name in NODES} == {
        "a": ["x", "y", "q", "z"],
        "b": ["p", "q", "z"],
        "c": ["q", "z"],
    }


def test_a_changed_label_changes_what_the_node_reaches() -> None:
    fleet = fleet_of(shared("x", **zone("1")), **NODES)
    assert [reached(fleet, name) for name in NODES] == [["x"], [], []]
    put(fleet, AllocationNode("a"), AllocationNode("c", {"zone": "1"}))
    assert [reached(fleet, name) for name in NODES] == [[], [], ["x"]]


def test_a_pool_of_one_node_becomes_shared_and_disappears_again() -> None:
    fleet = fleet_of(shared("x", nodeName="a"), **NODES)
    assert [reached(fleet, name) for name in NODES] == [[], [], []]
    put(fleet, shared("x"))
    assert [reached(fleet, name) for name in NODES] == [["x"], ["x"], ["x"]]
    assert not fleet.members["a"].own_pools
    fleet.remove_slice("fabric")
    fleet.update_all()
    assert [reached(fleet, name) for name in NODES] == [[], [], []]


def test_the_stamp_grows_on_the_nodes_that_reach_the_slice_of_a_held_device() -> None:
    fleet = fleet_of(shared("x", "y", **zone("1")), **NODES)
    near, far = fleet.members["a"].outlook, fleet.members["c"].outlook
    before = near.stamp, far.stamp
    assert near.count_free() == 2
    fleet.put_claim(holder("fabric", "x"))
    fleet.update_all()
    assert near.stamp > before[0]
    assert far.stamp == before[1]
    assert near.count_free() == 1
