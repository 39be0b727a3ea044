"""Which pools there are, and which of them can be used."""

from dradriver.allocator import Features, Inventory, Node
from dradriver.allocator.inventory import PoolView
from tests.unit.allocator.worlds import DRIVER, NODE, slice_

KEY = (DRIVER, "pool")


def pool(*slices: object) -> PoolView:
    return Inventory.of(slices).pools[KEY]  # type: ignore[arg-type]


def names(view: PoolView) -> list[str]:
    return [device.id.device for device in view.devices]


def test_only_the_highest_generation_counts() -> None:
    found = pool(slice_("a", "old", generation=1), slice_("b", "new", generation=3), slice_("c", generation=2))
    assert (found.generation, names(found), found.problem) == (3, ["new"], None)


def test_a_pool_is_complete_when_all_its_slices_are_there() -> None:
    assert pool(slice_("a", "x", count=2), slice_("b", "y", count=2)).complete
    half = pool(slice_("a", "x", count=2))
    assert (half.complete, half.problem) == (False, "incomplete: 1 of 2 slices")


def test_slices_that_disagree_on_their_number_are_incomplete() -> None:
    found = pool(slice_("a", "x", count=1), slice_("b", "y", count=2))
    assert found.problem == "incomplete: its slices disagree on resourceSliceCount: [1, 2]"


def test_slices_go_by_name_and_devices_as_published() -> None:
    assert names(pool(slice_("b", "z", "a", count=2), slice_("a", "m", count=2))) == ["m", "z", "a"]


def test_a_name_used_twice_makes_the_pool_invalid() -> None:
    problem = pool(slice_("a", "x", count=2), slice_("b", "x", count=2)).problem
    assert problem is not None
    assert problem.startswith("invalid: devices[x]: the name is used")


def test_slices_of_one_pool_may_differ_in_who_chooses_the_nodes() -> None:
    here = {"name": "x", "nodeName": "node-1"}
    by_device = slice_("a", here, count=2, nodeName=None, perDeviceNodeSelection=True)
    assert pool(by_device, slice_("b", "y", count=2)).problem is None
    assert "used twice" in (pool(by_device, slice_("b", "x", count=2)).problem or "")


def test_compatibility_groups_make_a_pool_incomplete_when_their_gate_is_off() -> None:
    consumed = {"counterSet": "s", "counters": {"c": {"value": "1"}}, "compatibilityGroups": ["mig"]}
    counters = slice_("a", count=2, sharedCounters=[{"name": "s", "counters": {"c": {"value": "1"}}}])
    found = pool(counters, slice_("b", {"name": "x", "consumesCounters": [consumed]}, count=2))
    assert found.problem_under(Features(compatibility_groups=True)) is None
    assert "DRADeviceCompatibilityGroups is off" in (found.problem_under(Features()) or "")


def test_a_node_sees_the_devices_of_the_slices_that_it_reaches() -> None:
    found = pool(slice_("a", "here", count=2), slice_("b", "there", count=2, nodeName="node-2"))
    assert [d.id.device for d in found.visible_on(NODE, Features()) or ()] == ["here"]
    assert found.visible_on(Node("node-3"), Features()) is None


def test_near_a_node_are_its_own_pools_and_those_of_several_nodes() -> None:
    inventory = Inventory.of(
        [
            slice_("a", pool="mine"),
            slice_("b", pool="other", nodeName="node-2"),
            slice_("c", pool="shared", nodeName=None, allNodes=True),
        ]
    )
    assert sorted(view.name for view in inventory.near(NODE)) == ["mine", "shared"]


def test_what_did_not_change_is_kept() -> None:
    one, two, changed = slice_("a", pool="one"), slice_("b", pool="two"), slice_("b", "x", pool="two")
    before = Inventory.of([one, two])
    after = Inventory.of([one, changed], before)
    assert after.pools[DRIVER, "one"] is before.pools[DRIVER, "one"]
    assert names(after.pools[DRIVER, "two"]) == ["x"]
