"""The scheduler is killed after each of its writes, and the negotiation ends all the same."""

import pytest

from dradriver.control.runtime.actions import RequestDeallocation
from dradriver.testing import builders
from tests.unit.control.classic.drivers import bind_contexts, classic_world
from tests.unit.control.classic.test_scheduler_pseudo_code import A, B, negotiate, request


@pytest.mark.parametrize("writes", range(1, 14))
@pytest.mark.parametrize("devices", [0, 1])
def test_a_pod_with_two_drivers_and_a_structured_claim_is_bound(writes: int, devices: int) -> None:
    world, [a, b] = classic_world(3, A, B)
    a.devices = devices
    request(world, A, B, builders.CLASS)
    world.settle()
    a.answer()
    b.answer()
    world.settle()
    selected = world.contexts["default/pod-1"].spec.selected_node
    assert a.allocate()
    b.unsuitable = {selected}
    world.crash_after = writes
    b.allocate()
    negotiate(world, a, b)
    assert world.pod().spec.node_name not in {"", selected}
    requests = [action for action in world.writes if isinstance(action, RequestDeallocation)]
    assert {action.claim.ref for action in requests} == {"default/pod-1-0"}
    bind_contexts(world)
    assert not world.contexts
    for number in range(3):
        claim = world.claims[f"default/pod-1-{number}"]
        assert claim.allocation is not None
        assert [user.name for user in claim.status.reserved_for] == ["pod-1"]


@pytest.mark.parametrize("writes", range(1, 8))
def test_a_replaced_pod_of_the_same_name_starts_a_negotiation_of_its_own(writes: int) -> None:
    world, [driver] = classic_world(2, A)
    request(world, A)
    world.settle()
    world.delete_pod("pod-1")
    world.add(builders.pod("pod-1-0", name="pod-1"))
    assert not driver.allocate(), "drivers ignore the context of another pod"
    world.crash_after = writes
    negotiate(world, driver)
    assert world.pod().spec.node_name
