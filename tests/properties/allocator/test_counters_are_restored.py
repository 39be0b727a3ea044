"""Devices that a search takes and gives back leave the state unchanged."""

from hypothesis import given
from hypothesis import strategies as st

from dradriver.allocator import AllocationNode, Features, InUse, Inventory
from dradriver.allocator.search.state import SearchState, SubrequestUse
from dradriver.allocator.supply.node_supply import Supply, iter_offers
from dradriver.model.resource.slices import ResourceSlice
from tests.properties.allocator.test_search_agrees_with_brute_force import cards, pools

USE = SubrequestUse(mark=1, excludes=-1, constraints=())


def snapshot(state: SearchState) -> object:
    return (
        state.left[:],
        state.groups_left[:],
        state.marks[:],
        state.totals[:],
        state.supplied,
        state.free_devices(1),
        dict(state.touched),
    )


@given(st.one_of(cards("pool"), pools("pool")), st.lists(st.integers(0, 20), max_size=12))
def test_release_reverts_take(slices: list[ResourceSlice], choices: list[int]) -> None:
    features = Features(compatibility_groups=True)
    supply = Supply(iter_offers(AllocationNode("node-1"), Inventory.of(slices), InUse(), features), features)
    state = SearchState(supply, [])
    steps = []
    for number in choices:
        device = number % len(supply.devices)
        if state.fits(device, USE):
            steps.append((snapshot(state), state.take(device, USE)))
            assert min(state.left, default=0) >= 0
            assert all(state.groups_left)
    while steps:
        before, taken = steps.pop()
        state.undo(taken)
        assert snapshot(state) == before
