"""Every path of the scheduler's pseudo-code (KEP-3063, "Coordinating resource allocation").

The names of the tests are the sentences of the KEP.
"""

from dradriver.control.runtime.actions import Bind, RequestDeallocation, Reserve, WriteContext
from dradriver.model.classic.controlled_claims import is_deallocation_requested
from dradriver.model.classic.names import MAX_POTENTIAL_NODES
from dradriver.model.core.node_selector import NodeSelector
from dradriver.testing import builders
from tests.unit.control.classic.drivers import Driver, classic_world, context_of
from tests.unit.control.world import World

A, B = "a.example.com", "b.example.com"


def request(world: World, *controllers: str, name: str = "pod-1") -> None:
    """Add a pod with a claim for each controller: `NAME-0`, `NAME-1` and so on."""
    claims = [
        builders.claim(builders.device_request(controller), name=f"{name}-{number}")
        for number, controller in enumerate(controllers)
    ]
    world.add(*claims, builders.pod(*[claim.metadata.name for claim in claims], name=name))


def negotiate(world: World, *drivers: Driver, rounds: int = 20) -> None:
    """Let the scheduler and the drivers react to each other until nothing changes."""
    for _ in range(rounds):
        before = len(world.writes)
        world.settle()
        for driver in drivers:
            driver.deallocate()
        for name in [pod.metadata.name for pod in world.pods.values() if not pod.spec.node_name]:
            for driver in drivers:
                if f"default/{name}" in world.contexts and driver.pending(world.pod(name)):
                    driver.answer(name)
                    driver.allocate(name)
        world.settle()
        if len(world.writes) == before:
            return


def written(world: World) -> list[type]:
    return [type(action) for action in world.writes]


def test_exactly_one_claim_is_pending_so_the_node_is_selected_at_once_with_the_potential_nodes() -> None:
    world, [driver] = classic_world(3, A)
    request(world, A)
    world.settle()
    spec = context_of(world).spec
    assert spec.selected_node in spec.potential_nodes
    assert sorted(spec.potential_nodes) == ["node-1", "node-2", "node-3"]
    assert world.condition().message == (
        f"waiting for resource driver to allocate resource: driver {A} for resourceclaim default/pod-1-0 "
        f"(round 1) for node {spec.selected_node}"
    )
    assert driver.allocate()
    world.settle()
    assert world.pod().spec.node_name == spec.selected_node


def test_when_several_claims_are_pending_the_scheduler_waits_for_information_of_all_drivers() -> None:
    world, [a, b] = classic_world(3, A, B)
    request(world, A, B)
    world.settle()
    assert context_of(world).spec.selected_node == ""
    assert len(context_of(world).spec.potential_nodes) == 3
    a.answer()
    world.settle()
    assert context_of(world).spec.selected_node == ""
    assert world.condition().message == (
        f"waiting for resource driver to provide information: driver {B} for resourceclaim default/pod-1-1 "
        "(round 1)"
    )
    b.answer(unsuitable=["node-1", "node-2"])
    world.settle()
    assert context_of(world).spec.selected_node == "node-3"


def test_all_resources_allocated_schedule_pod_onto_node() -> None:
    world, [a, b] = classic_world(3, A, B)
    request(world, A, B)
    negotiate(world, a, b)
    assert world.pod().spec.node_name
    assert written(world)[-1] is Bind
    assert Reserve not in written(world), "the drivers reserve with the allocation"


def test_nodes_listed_as_unsuitable_are_ignored_when_selecting_a_node() -> None:
    world, [driver] = classic_world(3, A)
    driver.unsuitable = {"node-1", "node-3"}
    request(world, A)
    negotiate(world, driver)
    assert world.pod().spec.node_name == "node-2"


def test_an_allocation_that_fails_leads_to_another_node_without_a_deallocation() -> None:
    world, [driver] = classic_world(2, A)
    request(world, A)
    world.settle()
    first = context_of(world).spec.selected_node
    driver.unsuitable = {first}
    assert not driver.allocate()
    world.settle()
    assert context_of(world).spec.selected_node not in {"", first}
    assert RequestDeallocation not in written(world)


def test_the_selected_node_stays_while_it_suits() -> None:
    world, [_] = classic_world(3, A)
    request(world, A)
    world.settle()
    before = context_of(world)
    world.crash()
    world.add(builders.node("node-0"))
    world.settle()
    assert context_of(world).spec.selected_node == before.spec.selected_node
    assert set(before.spec.potential_nodes) < set(context_of(world).spec.potential_nodes)


def test_no_node_fits_the_pod_so_no_node_stays_selected() -> None:
    world, [driver] = classic_world(2, A)
    driver.unsuitable = {"node-1", "node-2"}
    request(world, A)
    negotiate(world, driver)
    assert context_of(world).spec.selected_node == ""
    assert context_of(world).spec.potential_nodes == []
    unsuitable = f"resourceclaim cannot be allocated for the node (unsuitable) (driver {A} for resourceclaim"
    assert world.condition().message == (f"0/2 nodes are available: 2 {unsuitable} default/pod-1-0).")
    driver.answer(unsuitable=["node-1"])
    world.settle()
    assert context_of(world).spec.selected_node == "node-2"


def test_no_node_fits_so_one_claim_that_was_not_available_on_a_node_is_deallocated() -> None:
    world, [a, b] = classic_world(2, A, B)
    request(world, A, B)
    world.settle()
    a.answer()
    b.answer()
    world.settle()
    selected = context_of(world).spec.selected_node
    assert a.allocate()
    b.unsuitable = {selected}
    b.allocate()
    world.settle()
    claim = world.claims["default/pod-1-0"]
    assert is_deallocation_requested(claim)
    assert claim.status.reserved_for == [], "the pod leaves reservedFor in the same write"
    assert context_of(world).spec.selected_node == "", "the driver must not allocate for the node again"
    assert "resourceclaim must be reallocated" in world.condition().message
    assert a.deallocate() == ["default/pod-1-0"]
    negotiate(world, a, b)
    assert world.pod().spec.node_name not in {"", selected}


def test_a_claim_without_devices_is_deallocated_by_a_request_in_its_record() -> None:
    world, [a, b] = classic_world(2, A, B)
    a.devices = 0
    request(world, A, B)
    world.settle()
    a.answer()
    b.answer()
    world.settle()
    selected = context_of(world).spec.selected_node
    assert a.allocate()
    b.unsuitable = {selected}
    b.allocate()
    world.settle()
    claim = world.claims["default/pod-1-0"]
    assert world.records[claim.metadata.uid].status.deallocation_requested
    assert claim.status.reserved_for == []
    negotiate(world, a, b)
    assert world.pod().spec.node_name not in {"", selected}


def test_a_claim_that_another_pod_uses_is_not_deallocated() -> None:
    world, [a, b] = classic_world(2, A, B)
    a.shareable = True
    request(world, A, B)
    other = builders.pod("pod-1-0", name="other", node_name="node-1")
    world.add(other)
    a.grant("default/pod-1-0", "node-1", other)
    b.unsuitable = {"node-1"}
    negotiate(world, a, b)
    assert not is_deallocation_requested(world.claims["default/pod-1-0"])
    assert "resourceclaim not available on the node (default/pod-1-0)" in world.condition().message


def test_a_claim_that_is_allocated_immediately_is_not_deallocated() -> None:
    world, [a, b] = classic_world(2, A, B)
    immediate = builders.claim(
        builders.device_request(A), name="immediate", configs=[builders.controller_claim("Immediate")]
    )
    delayed = builders.claim(builders.device_request(B), name="delayed")
    world.add(immediate, delayed, builders.pod("immediate", "delayed"))
    a.grant("default/immediate", "node-1")
    b.unsuitable = {"node-1"}
    negotiate(world, a, b)
    assert not is_deallocation_requested(world.claims["default/immediate"])


def test_an_unallocated_immediate_claim_is_awaited_and_then_reserved() -> None:
    world, [driver] = classic_world(2, A)
    claim = builders.claim(
        builders.device_request(A), name="immediate", configs=[builders.controller_claim("Immediate")]
    )
    world.add(claim, builders.pod("immediate"))
    world.settle()
    assert not world.contexts
    message = f"unallocated immediate resourceclaim (default/immediate by driver {A})"
    assert world.condition().message == f"0/2 nodes are available: {message}."
    driver.grant(claim.ref, "node-2")
    world.settle()
    assert world.pod().spec.node_name == "node-2"
    assert Reserve in written(world)


def test_the_node_selector_of_the_class_trims_the_potential_nodes() -> None:
    world, [driver] = classic_world(1, A)
    world.add(builders.node("rack", rack="1"))
    selector = NodeSelector.for_node("rack")
    world.add(builders.controller_class(A, controller=A, suitable_nodes=selector))
    request(world, A)
    world.settle()
    assert context_of(world).spec.potential_nodes == ["rack"]
    assert driver.allocate()
    world.settle()
    assert world.pod().spec.node_name == "rack"


def test_at_most_128_potential_nodes_are_listed_and_the_next_follow_when_all_are_unsuitable() -> None:
    world, [a, b] = classic_world(300, A, B)
    request(world, A, B)
    world.settle()
    first = context_of(world).spec.potential_nodes
    assert len(first) == MAX_POTENTIAL_NODES
    a.answer(unsuitable=first)
    b.answer()
    world.settle()
    spec = context_of(world).spec
    assert len(spec.potential_nodes) == MAX_POTENTIAL_NODES
    assert not set(first) & set(spec.potential_nodes)
    assert spec.selected_node in spec.potential_nodes


def test_the_potential_nodes_are_stable() -> None:
    world, [a, _] = classic_world(4, A, B)
    request(world, A, B)
    world.settle()
    before = context_of(world).spec.potential_nodes
    a.answer(unsuitable=[before[0]])
    world.settle()
    assert context_of(world).spec.potential_nodes == before[1:]
    writes = [action for action in world.writes if isinstance(action, WriteContext)]
    assert len(writes) == 2
