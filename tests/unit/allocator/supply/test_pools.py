"""Pools of slices, and which of them can be used."""

from dradriver.allocator import AllocationNode, Features, Inventory
from dradriver.allocator.supply.pools import PoolView
from tests.unit.allocator.worlds import DRIVER, NODE, slice_

KEY = (DRIVER, "pool")


def pool(*slices: object) -> PoolView:
    return Inventory.of(slices).pools[KEY]  # type: ignore[arg-type]


def names(view: PoolView) -> list[str]:
    return [device.id.device for device in view.devices]


def test_only_the_highest_generation_counts() -> None:
    found = pool(slice_("a", "old", generation=1), slice_("b", "new", generation=3), slice_("c", generation=2))
    assert (found.generation, names(found), found.problem) == (3, ["new"], None)


def test_a_pool_is_complete_if_all_its_slices_exist() -> None:
    assert pool(slice_("a", "x", count=2), slice_("b", "y", count=2)).complete
    half = pool(slice_("a", "x", count=2))
    assert (half.complete, half.problem) == (False, "incomplete: 1 of 2 slices")


def test_slices_that_disagree_on_their_number_are_incomplete() -> None:
    found = pool(slice_("a", "x", count=1), slice_("b", "y", count=2))
    assert found.problem == "incomplete: its slices disagree on resourceSliceCount: [1, 2]"


def test_slices_are_sorted_by_name_and_devices_keep_their_order() -> None:
    assert names(pool(slice_("b", "z", "a", count=2), slice_("a", "m", count=2))) == ["m", "z", "a"]


def test_a_duplicate_name_makes_the_pool_invalid() -> None:
    problem = pool(slice_("a", "x", count=2), slice_("b", "x", count=2)).problem
    assert problem is not None
    assert problem.startswith("invalid: devices[x]: the name is used")


def test_slices_of_one_pool_may_differ_in_per_device_node_selection() -> None:
    here = {"name": "x", "nodeName": "node-1"}
    by_device = slice_("a", here, count=2, nodeName=None, perDeviceNodeSelection=True)
    assert pool(by_device, slice_("b", "y", count=2)).problem is None
    assert "used twice" in (pool(by_device, slice_("b", "x", count=2)).problem or "")


def test_compatibility_groups_make_a_pool_unusable_when_their_gate_is_off() -> None:
    consumed = {"counterSet": "s", "counters": {"c": {"value": "1"}}, "compatibilityGroups": ["mig"]}
    counters = slice_("a", count=2, sharedCounters=[{"name": "s", "counters": {"c": {"value": "1"}}}])
    found = pool(counters, slice_("b", {"name": "x", "consumesCounters": [consumed]}, count=2))
    assert found.problem_under(Features(compatibility_groups=True)) is None
    assert "DRADeviceCompatibilityGroups is off" in (found.problem_under(Features()) or "")


def seen(
    node: AllocationNode, *slices: object, **features: bool
) -> dict[str, tuple[list[str], str | None, bool]]:
    """Return by pool: the devices that a node sees, its problem, and whether it is ignored."""
    inventory = Inventory.of(slices)  # type: ignore[arg-type]
    return {
        each.view.name: ([device.id.device for device in each.devices], each.problem, each.ignored)
        for each in inventory.pools_on(node, Features(**features))
    }


def test_a_node_sees_the_devices_of_the_slices_that_it_reaches() -> None:
    slices = slice_("a", "here", count=2), slice_("b", "there", count=2, nodeName="node-2")
    assert seen(NODE, *slices) == {"pool": (["here"], None, False)}
    assert seen(AllocationNode("node-3"), *slices) == {}


def test_a_node_sees_its_own_pools_and_those_of_several_nodes() -> None:
    slices = (
        slice_("a", pool="mine"),
        slice_("b", pool="other", nodeName="node-2"),
        slice_("c", pool="shared", nodeName=None, allNodes=True),
    )
    assert sorted(seen(NODE, *slices)) == ["mine", "shared"]


def of(name: str, node: str, generation: int, count: int) -> object:
    return slice_(name, f"gpu-{name}", nodeName=node, generation=generation, count=count)


def test_generations_are_compared_among_the_slices_that_reach_the_node() -> None:
    """A complete generation stays in use even if a newer one exists elsewhere."""
    slices = of("a", "node-1", 1, 1), of("b", "node-2", 2, 2), of("c", "node-2", 2, 2)
    assert seen(NODE, *slices) == {"pool": (["gpu-a"], None, False)}
    assert seen(AllocationNode("node-2"), *slices) == {"pool": (["gpu-b", "gpu-c"], None, False)}


def test_the_slices_that_reach_the_node_are_the_pool_if_their_number_is_right() -> None:
    """Kubernetes then ignores other slices, even if there are too many or if they disagree."""
    slices = of("a", "node-1", 1, 1), of("b", "node-2", 1, 3), of("c", "node-2", 1, 3)
    assert seen(NODE, *slices) == {"pool": (["gpu-a"], None, False)}
    assert seen(AllocationNode("node-2"), *slices) == {"pool": (["gpu-b", "gpu-c"], None, False)}


def test_a_newer_generation_hides_one_that_the_node_reaches_in_part() -> None:
    slices = of("a", "node-1", 1, 2), of("b", "node-2", 1, 2), of("c", "node-2", 2, 1)
    why = "the node reaches 1 of 2 slices of generation 1, and there are slices of generation 2"
    assert seen(NODE, *slices) == {"pool": (["gpu-a"], f"ignored: {why}", True)}
    assert seen(AllocationNode("node-2"), *slices) == {"pool": (["gpu-c"], None, False)}


def test_the_devices_of_a_pool_are_those_that_some_node_sees() -> None:
    one, other = {"nodeName": "node-1"}, {"nodeName": "node-2"}
    slices = [
        slice_("a", "old", **one),
        slice_("b", "gone", **other),
        slice_("c", "new", generation=2, **other),
        slice_("d", "half", nodeName="node-3", count=2),
    ]
    (found,) = Inventory.of(slices).published.values()
    assert [pooled.id.device for pooled in found.devices()] == ["new", "old"]
    (found,) = Inventory.of(
        [*slices, slice_("e", "everywhere", generation=3, nodeName=None, allNodes=True)]
    ).published.values()
    assert [pooled.id.device for pooled in found.devices()] == ["everywhere"]


def test_slices_that_a_gate_excludes_do_not_set_the_generation() -> None:
    """Without the gate a newer slice with groups or counter sets counts as not reaching the node."""
    consumed = {"counterSet": "s", "counters": {"c": {"value": "1"}}, "compatibilityGroups": ["mig"]}
    grouped = slice_("new", {"name": "part", "consumesCounters": [consumed]}, generation=2)
    counters = slice_("new", sharedCounters=[{"name": "s", "counters": {"c": {"value": "1"}}}], generation=2)
    old = of("old", "node-1", 1, 1)
    assert seen(NODE, old, grouped) == {"pool": (["gpu-old"], None, False)}
    assert seen(NODE, old, counters, partitionable_devices=False) == {"pool": (["gpu-old"], None, False)}
    assert seen(NODE, old, counters) == {"pool": ([], None, False)}


def test_a_pool_is_ignored_if_a_gate_excludes_all_its_slices() -> None:
    consumed = {"counterSet": "s", "counters": {"c": {"value": "1"}}, "compatibilityGroups": ["mig"]}
    [(_, problem, ignored)] = seen(NODE, slice_("a", {"name": "part", "consumesCounters": [consumed]})).values()
    assert (problem, ignored) == (
        "ignored: devices have compatibility groups and DRADeviceCompatibilityGroups is off", True
    )  # fmt: skip
    counters = slice_("a", sharedCounters=[{"name": "s", "counters": {"c": {"value": "1"}}}])
    [(_, problem, ignored)] = seen(NODE, counters, partitionable_devices=False).values()
    assert (problem, ignored) == ("ignored: its slices need DRAPartitionableDevices, which is off", True)


def test_unchanged_pools_are_reused() -> None:
    one, two, changed = slice_("a", pool="one"), slice_("b", pool="two"), slice_("b", "x", pool="two")
    before = Inventory.of([one, two])
    after = Inventory.of([one, changed], before)
    assert after.pools[DRIVER, "one"] is before.pools[DRIVER, "one"]
    assert names(after.pools[DRIVER, "two"]) == ["x"]
