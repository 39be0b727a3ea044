"""PreBind: select the node, and wait for the allocations."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from dradriver.control.claims.pod_claims import consumer_of
from dradriver.control.classic.allocation_wait import AllocationTimedOut, NodeRefused, await_allocations
from dradriver.control.classic.values import ClassicObjects
from dradriver.control.runtime.actions import (
    Allocate,
    Nominate,
    ReportUnschedulable,
    RequestDeallocation,
    WriteContext,
)
from dradriver.control.scheduler.binding.binding_conditions import BINDING_TIMEOUT, BindingDeadline
from dradriver.control.scheduler.binding.plan_writes import next_step
from dradriver.control.scheduler.snapshot import PlanFailed
from dradriver.testing import builders
from tests.unit.control.classic.drivers import Driver, classic_world
from tests.unit.control.extended_pods import gpu_class, plugin_node
from tests.unit.control.extended_pods import pod as extended_pod
from tests.unit.control.world import ATTACHED, NOW, World, slow_device

A, B = "a.example.com", "b.example.com"


def waiting() -> tuple[World, Driver]:
    """Return a world with a pod that waits for its driver."""
    world, [driver] = classic_world(2, A)
    world.add(builders.claim(builders.device_request(A)), builders.pod("claim-1"))
    world.settle()
    assert world.plans["default/pod-1"].pending_classic
    return world, driver


def step(world: World, deadline: BindingDeadline | None = None) -> object:
    pod = world.pod()
    objects = world.classic_objects(pod)
    plan = world.plans[pod.ref]
    return await_allocations(plan, pod, world.claims, objects, deadline or BindingDeadline(NOW))


def test_the_report_names_the_driver_and_the_claim_and_is_written_once() -> None:
    world, _ = waiting()
    reports = [action for action in world.writes if isinstance(action, ReportUnschedulable)]
    assert len(reports) == 1
    assert f"driver {A} for resourceclaim default/claim-1" in reports[0].message


def test_an_answer_against_the_selected_node_ends_the_plan() -> None:
    world, driver = waiting()
    driver.answer(unsuitable=[world.plans["default/pod-1"].node])
    with pytest.raises(NodeRefused, match="unsuitable"):
        step(world)


def test_an_allocation_for_another_node_ends_the_plan_and_the_pod_follows_its_claim() -> None:
    world, driver = waiting()
    other = "node-1" if world.plans["default/pod-1"].node == "node-2" else "node-2"
    driver.grant("default/claim-1", other, world.pod())
    with pytest.raises(NodeRefused, match="was allocated, but not for node"):
        step(world)
    world.settle()
    assert world.pod().spec.node_name == other


def test_an_allocation_for_another_pod_ends_the_plan() -> None:
    world, driver = waiting()
    node = world.plans["default/pod-1"].node
    other = builders.pod("claim-1", name="other", node_name=node)
    world.add(other)
    driver.grant("default/claim-1", node, other)
    plan, pod = world.plans["default/pod-1"], world.pod()
    with pytest.raises(NodeRefused, match="resourceclaim in use"):
        next_step(plan, pod, world.claims, classic=world.classic_objects(pod))
    world.settle()
    assert "resourceclaim in use" in world.condition().message


@pytest.mark.parametrize("devices", [0, 1])
def test_a_claim_that_must_be_deallocated_gets_no_new_consumers(devices: int) -> None:
    world, driver = waiting()
    driver.devices = devices
    driver.grant("default/claim-1", world.plans["default/pod-1"].node)
    claim = world.claims["default/claim-1"]
    world.apply(RequestDeallocation(claim, world.records[claim.metadata.uid]))
    plan, pod = world.plans["default/pod-1"], world.pod()
    with pytest.raises(NodeRefused, match=rf"resourceclaim must be reallocated \({claim.ref} by driver {A}\)"):
        next_step(plan, pod, world.claims, classic=world.classic_objects(pod))
    world.settle()
    assert world.claims[claim.ref].status.reserved_for == []
    assert driver.deallocate() == [claim.ref]
    world.settle()
    assert driver.allocate()
    world.settle()
    assert world.pod().spec.node_name


def test_a_driver_that_neither_allocates_nor_answers_ends_the_plan_at_the_deadline() -> None:
    world, _ = waiting()
    deadline = BindingDeadline(NOW + BINDING_TIMEOUT, selected_at=NOW)
    with pytest.raises(AllocationTimedOut, match=f"timeout: .*driver {A}"):
        step(world, deadline)
    step(world, BindingDeadline(NOW + BINDING_TIMEOUT - timedelta(seconds=1), selected_at=NOW))


def test_a_claim_that_is_deleted_meanwhile_ends_the_plan() -> None:
    world, _ = waiting()
    claim = world.claims["default/claim-1"]
    world.claims[claim.ref] = replace(claim, metadata=replace(claim.metadata, deletion_timestamp=NOW))
    with pytest.raises(PlanFailed, match="got deleted"):
        step(world)


def test_a_definition_that_is_removed_meanwhile_ends_the_plan() -> None:
    world, _ = waiting()
    pod = world.pod()
    with pytest.raises(PlanFailed, match="does not serve"):
        await_allocations(world.plans[pod.ref], pod, world.claims, ClassicObjects(), BindingDeadline(NOW))


def test_a_changed_context_is_written_again() -> None:
    world, _ = waiting()
    context = world.contexts["default/pod-1"]
    world.contexts["default/pod-1"] = replace(context, spec=replace(context.spec, selected_node=""))
    found = step(world)
    assert isinstance(found.action, WriteContext)  # type: ignore[attr-defined]


def test_structured_claims_of_the_pod_are_assumed_meanwhile_and_written_afterwards() -> None:
    world, [driver] = classic_world(1, A)
    world.add(
        builders.claim(builders.device_request(A), name="classic"),
        builders.claim(builders.device_request(count=2), name="structured"),
        builders.pod("classic", "structured"),
        builders.claim(name="other"),
        builders.pod("other", name="pod-2"),
    )
    world.settle()
    assert not any(isinstance(action, Allocate) for action in world.writes)
    assert not world.pod("pod-2").spec.node_name, "its devices are assumed"
    assert driver.allocate()
    world.settle()
    assert world.pod().spec.node_name == "node-1"
    kinds = [type(action) for action in world.writes]
    assert kinds.index(WriteContext) < kinds.index(Allocate)


def test_binding_conditions_and_classic_claims_in_one_pod() -> None:
    world, [driver] = classic_world(1, A)
    world.slices.clear()
    world.add(
        builders.slice_(slow_device(), node_name="node-1"),
        builders.claim(builders.device_request(A), name="classic"),
        builders.claim(name="slow"),
        builders.pod("classic", "slow"),
    )
    world.settle()
    assert driver.allocate()
    world.settle()
    assert any(isinstance(action, Nominate) for action in world.writes)
    assert world.claims["default/slow"].allocation is not None
    assert not world.pod().spec.node_name
    world.set_condition("default/slow", ATTACHED)
    world.settle()
    assert world.pod().spec.node_name == "node-1"


def test_extended_resources_and_classic_claims_in_one_pod() -> None:
    world, [driver] = classic_world(0, A)
    world.classes[builders.CLASS] = gpu_class()
    world.add(plugin_node("plugin", 0), builders.node("node-1"))
    world.add(builders.slice_(builders.device("gpu"), node_name="node-1"))
    wanted = builders.pod("claim-1")
    amounts = extended_pod(gpu=1)
    spec = replace(wanted.spec, containers=amounts.spec.containers)
    world.add(builders.claim(builders.device_request(A)), replace(wanted, spec=spec))
    world.settle()
    assert world.contexts["default/pod-1"].spec.potential_nodes == ["node-1"]
    assert not world.special_of(world.pod()), "the special claim is created after the allocation"
    assert driver.allocate()
    world.settle()
    assert world.pod().spec.node_name == "node-1"
    [special] = world.special_of(world.pod())
    assert special.allocation is not None


def test_a_pod_that_is_given_up_keeps_the_reservation_of_its_classic_claim() -> None:
    world, [a, b] = classic_world(2, A, B)
    world.add(
        builders.claim(builders.device_request(A), name="one"),
        builders.claim(builders.device_request(B), name="two"),
        builders.pod("one", "two"),
    )
    world.settle()
    a.answer()
    b.answer()
    world.settle()
    assert a.allocate()
    world.failed.add("default/pod-1")
    world.settle()
    assert world.claims["default/one"].status.reserved_for == [consumer_of(world.pod())]
