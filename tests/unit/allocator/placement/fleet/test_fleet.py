"""When the pools of a fleet are built."""

from dradriver.allocator import AllocationNode, Features
from dradriver.allocator.placement.fleet.fleet import Fleet
from tests.unit.allocator.placement.fleets import fleet_of, gpu, own, shared


def new_fleet() -> Fleet:
    fleet = Fleet(Features(), skips_devices=False)
    fleet.put_node(AllocationNode("a"))
    return fleet


def test_a_new_pool_is_built_when_its_last_slice_arrives() -> None:
    fleet = new_fleet()
    fleet.put_slice(own("a", "x", name="a-1", count=2))
    assert not fleet.members["a"].own_pools
    fleet.put_slice(own("a", "y", name="a-2", count=2))
    (pool,) = fleet.members["a"].own_pools.values()
    fleet.update_all()
    assert fleet.members["a"].entries == [pool]


def test_an_incomplete_pool_is_built_before_the_next_placement() -> None:
    fleet = new_fleet()
    fleet.put_slice(own("a", "x", name="a-1", count=2))
    fleet.update_all()
    (pool,) = fleet.members["a"].entries
    assert pool.blueprint.problem == "incomplete: 1 of 2 slices"


def test_a_pool_whose_slices_change_one_by_one_is_rebuilt_once() -> None:
    fleet = fleet_of(own("a", "x", name="a-1", count=2), own("a", "y", name="a-2", count=2))
    (before,) = fleet.members["a"].entries
    for name in ("a-1", "a-2"):
        fleet.put_slice(own("a", gpu(name, model="big"), name=name, count=2))
        assert list(fleet.members["a"].own_pools.values()) == [before]
    fleet.update_all()
    (after,) = fleet.members["a"].entries
    assert after.pool.names.devices == ("a-1", "a-2")


def test_a_pool_that_becomes_shared_is_no_longer_the_pool_of_its_node() -> None:
    fleet = new_fleet()
    fleet.put_slice(own("a", "x", name="one"))
    source = shared("y", name="one")
    fleet.put_slice(source)
    fleet.update_all()
    assert not fleet.members["a"].own_pools
    assert [entry.key[1] for entry in fleet.members["a"].entries] == ["fabric"]
