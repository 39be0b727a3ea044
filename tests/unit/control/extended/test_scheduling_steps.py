"""KEP-5004 in the pipeline: nodes with device plugins and nodes with devices, and the special claim."""

from contextlib import suppress
from typing import Any

import pytest
from msgspec.structs import replace

from dradriver.control.extended import ScoringStrategy
from dradriver.control.runtime.actions import (
    AddFinalizer,
    Allocate,
    Bind,
    CreateClaim,
    DeleteClaim,
    RecordSpecialClaim,
    Release,
    RemoveFinalizer,
)
from dradriver.control.scheduler.pipeline import schedule
from dradriver.control.scheduler.snapshot import Plan, Unschedulable
from dradriver.model.core.workload import ExtendedResourceClaim, Pod, RequestMapping
from dradriver.model.quantity import Quantity
from dradriver.model.resource.claim import CLAIM_FINALIZER, EXTENDED_CLAIM_ANNOTATION, ResourceClaim
from dradriver.testing import builders
from tests.unit.control.extended_pods import GPU, IMPLICIT, NIC, container, gpu_class, plugin_node, pod
from tests.unit.control.world import ATTACHED, FAILED, CrashError, World, slow_device


def devices(world: World, node: str, count: int, *, slow: bool = False) -> None:
    """Add a node with that many devices."""
    make = slow_device if slow else builders.device
    world.add(builders.node(node), builders.slice_(*[make(f"gpu-{i}") for i in range(count)], node_name=node))


def mixed(plugins: int = 2, by_devices: int = 2) -> World:
    """Return a node `plugin` with a device plugin, a node `dra` with devices, and one class for both."""
    w = World()
    w.add(plugin_node("plugin", plugins), gpu_class())
    devices(w, "dra", by_devices)
    return w


def nodes_only(*names: str, **changes: Any) -> World:
    w = mixed(**changes)
    w.nodes = [node for node in w.nodes if node.metadata.name in names]
    return w


def special(world: World) -> ResourceClaim:
    (claim,) = world.claims.values()
    assert claim.metadata.annotations[EXTENDED_CLAIM_ANNOTATION] == "true"
    return claim


def refused(world: World, which: Pod) -> str:
    verdict = schedule(which, world.snapshot())
    assert isinstance(verdict, Unschedulable)
    return verdict.message


def test_a_node_with_a_device_plugin_serves_a_pod_without_a_claim() -> None:
    w = nodes_only("plugin")
    w.add(pod(gpu=2))
    w.settle()
    assert w.pod().spec.node_name == "plugin"
    assert not w.claims


@pytest.mark.parametrize("name", ["gpu", "implicit"])
def test_a_node_with_devices_serves_a_pod_by_a_claim(name: str) -> None:
    w = nodes_only("dra")
    w.add(pod(gpu=2) if name == "gpu" else pod(implicit=2))
    w.settle()
    claim = special(w)
    assert w.pod().spec.node_name == "dra"
    assert claim.metadata.generate_name == "pod-1-extended-resources-"
    assert claim.metadata.name.startswith("pod-1-extended-resources-")
    assert claim.metadata.controller is not None
    assert claim.metadata.controller.uid == w.pod().metadata.uid
    assert len(claim.results) == 2
    resource = {"gpu": GPU, "implicit": IMPLICIT}[name]
    mapping = RequestMapping(
        container_name="main", resource_name=resource, request_name="container-0-request-0"
    )
    assert w.pod().status.extended_resource_claim_status == ExtendedResourceClaim(
        resource_claim_name=claim.metadata.name, request_mappings=[mapping]
    )


def test_the_claim_is_written_in_the_order_of_kubernetes_and_the_pod_status_last() -> None:
    w = nodes_only("dra")
    w.add(pod(gpu=1))
    w.settle()
    assert [type(write) for write in w.writes] == [
        CreateClaim,
        AddFinalizer,
        Allocate,
        RecordSpecialClaim,
        Bind,
    ]


def test_both_kinds_of_nodes_are_used_until_they_are_full() -> None:
    w = mixed(plugins=2, by_devices=2)
    w.add(*(pod(f"pod-{i}", gpu=1) for i in range(5)))
    w.settle()
    nodes = [w.pod(f"pod-{i}").spec.node_name for i in range(5)]
    assert sorted(nodes) == ["", "dra", "dra", "plugin", "plugin"]
    assert "2 nodes are available" in w.condition("pod-4").message
    assert f"1 Insufficient {GPU}" in w.condition("pod-4").message


def test_a_full_device_plugin_serves_again_when_a_pod_ends() -> None:
    w = nodes_only("plugin", plugins=1)
    w.add(pod("pod-1", gpu=1), pod("pod-2", gpu=1))
    w.settle()
    assert not w.pod("pod-2").spec.node_name
    w.change("pod-1", phase="Succeeded")
    w.settle()
    assert w.pod("pod-2").spec.node_name == "plugin"


def test_a_resource_without_a_source_is_insufficient_on_all_nodes() -> None:
    w = mixed()
    w.add(pod(nic=1))
    assert f"2 Insufficient {NIC}" in refused(w, w.pod())


def test_devices_serve_where_the_device_plugin_offers_zero() -> None:
    """After a device plugin was removed, `allocatable` is zero."""
    w = World()
    w.add(plugin_node("moved", 0), gpu_class(), builders.slice_(builders.device(), node_name="moved"))
    w.add(pod(gpu=1))
    w.settle()
    assert special(w).results
    assert w.pod().spec.node_name == "moved"


def test_beside_a_device_plugin_devices_do_not_serve() -> None:
    w = World()
    w.add(plugin_node("both", 1), gpu_class(), builders.slice_(builders.device(), node_name="both"))
    w.add(pod("pod-1", gpu=1), pod("pod-2", gpu=1))
    w.settle()
    assert w.pod("pod-1").spec.node_name == "both"
    assert not w.pod("pod-2").spec.node_name
    assert not w.claims


@pytest.mark.parametrize(
    ("strategy", "expected"), [("LeastAllocated", ["plugin", "dra"]), ("MostAllocated", ["dra", "plugin"])]
)
def test_the_strategy_avoids_or_prefers_fuller_nodes(strategy: Any, expected: list[str]) -> None:
    """`dra` has one of two devices allocated, `plugin` has one of four in use."""
    w = mixed(plugins=4, by_devices=2)
    w.scoring = ScoringStrategy(strategy, {GPU: 1})
    placed = pod("placed", gpu=1)
    w.add(replace(placed, spec=replace(placed.spec, node_name="plugin")))
    w.add(builders.allocated(builders.claim(), "gpu-0", node_name="dra"))
    w.add(pod("pod-1", gpu=1))
    w.settle()
    assert w.pod("pod-1").spec.node_name == expected[0]


def test_a_pods_own_claims_and_its_special_claim_are_on_one_node() -> None:
    w = mixed(by_devices=3)
    w.add(builders.claim())
    made = builders.pod("claim-1")
    main = container(gpu=2)
    main = replace(main, resources=replace(main.resources, claims=made.spec.containers[0].resources.claims))
    w.add(replace(made, spec=replace(made.spec, containers=[main])))
    w.settle()
    held = [result.device for claim in w.claims.values() for result in claim.results]
    assert w.pod().spec.node_name == "dra"
    assert sorted(held) == ["gpu-0", "gpu-1", "gpu-2"]


def test_a_pod_may_have_one_resource_from_a_device_plugin_and_another_from_devices() -> None:
    w = World()
    w.add(plugin_node("node", 1, NIC), gpu_class(), builders.slice_(builders.device(), node_name="node"))
    w.add(pod(gpu=1, nic=1))
    w.settle()
    (request,) = special(w).spec.devices.requests
    assert request.name == "container-0-request-0"
    assert w.pod().status.extended_resource_claim_status is not None


def test_more_devices_than_a_claim_holds_never_fit() -> None:
    w = nodes_only("dra", by_devices=40)
    w.add(pod(gpu=33))
    assert "33 devices: a claim must have at most 32" in refused(w, w.pod())


def test_a_part_of_a_device_cannot_be_requested() -> None:
    """The API server allows it for implicit names; kube-scheduler never gets such a pod bound."""
    w = nodes_only("dra")
    made = pod(implicit=1)
    (main,) = made.spec.containers
    half = replace(main, resources=replace(main.resources, requests={IMPLICIT: Quantity("500m")}))
    w.add(replace(made, spec=replace(made.spec, containers=[half])))
    assert f"container main: {IMPLICIT}: 500m: must be a whole number of devices" in refused(w, w.pod())


def test_a_device_plugin_has_no_such_limit() -> None:
    w = mixed(plugins=40, by_devices=40)
    w.add(pod(gpu=33))
    w.settle()
    assert w.pod().spec.node_name == "plugin"


def test_a_pod_whose_status_names_a_claim_goes_to_devices_again() -> None:
    """The API server does not let the status be cleared. On another node the kubelet would wait forever."""
    w = mixed()
    w.add(plugin_node("a-plugin", 2))
    old = ExtendedResourceClaim(
        resource_claim_name="gone",
        request_mappings=[RequestMapping(container_name="main", resource_name=GPU, request_name="x")],
    )
    made = pod(gpu=1)
    w.add(replace(made, status=replace(made.status, extended_resource_claim_status=old)))
    w.settle()
    assert w.pod().spec.node_name == "dra"
    status = w.pod().status.extended_resource_claim_status
    assert status is not None
    assert status.resource_claim_name == special(w).metadata.name


def crashed(world: World, writes: int) -> None:
    """Let the controllers die after this number of writes for the pod."""
    world.crash_after = writes
    with suppress(CrashError):
        while True:
            world.carry_out(world.scheduling_step("default/pod-1"))
    world.crash()


@pytest.mark.parametrize("writes", [1, 2])
def test_an_incomplete_claim_is_replaced_after_a_crash(writes: int) -> None:
    w = nodes_only("dra")
    w.add(pod(gpu=1))
    crashed(w, writes)
    before = special(w).metadata.uid
    w.settle()
    assert w.pod().spec.node_name
    assert special(w).metadata.uid != before


@pytest.mark.parametrize("writes", [3, 4])
def test_a_complete_claim_is_used_after_a_crash(writes: int) -> None:
    w = nodes_only("dra")
    w.add(pod(gpu=1))
    crashed(w, writes)
    before = special(w)
    w.settle()
    assert w.pod().spec.node_name
    assert special(w) == before


def test_a_claim_with_obsolete_requests_is_replaced() -> None:
    w = nodes_only("dra")
    w.add(pod(gpu=1))
    crashed(w, 3)
    before = special(w)
    w.add(gpu_class("newer", created=None), gpu_class(resource=None))
    w.settle()
    assert w.writes[3] == Release(before, deallocate=True), "a driver may have attached its devices"
    assert isinstance(w.writes[4], DeleteClaim)
    (request,) = special(w).spec.devices.requests
    assert request.exactly is not None
    assert request.exactly.device_class_name == "newer"
    assert special(w).metadata.uid != before.metadata.uid


def test_a_leftover_claim_is_deleted_when_its_node_is_deleted() -> None:
    w = mixed()
    w.nodes = [node for node in w.nodes if node.metadata.name == "dra"]
    w.add(pod(gpu=1))
    crashed(w, 3)
    w.nodes = [plugin_node("plugin", 1)]
    w.settle()
    assert w.pod().spec.node_name == "plugin"
    assert not w.claims


def test_a_claim_without_its_finalizer_is_not_used() -> None:
    """The process died while it was deleting it."""
    w = nodes_only("dra")
    w.add(pod(gpu=1))
    crashed(w, 3)
    w.apply(RemoveFinalizer(special(w)))
    before = special(w).metadata.uid
    w.settle()
    assert special(w).metadata.uid != before
    assert CLAIM_FINALIZER in special(w).metadata.finalizers


def test_the_special_claim_of_an_unschedulable_pod_is_deleted() -> None:
    w = nodes_only("dra")
    w.add(pod(gpu=1))
    crashed(w, 3)
    w.nodes = []
    w.settle()
    assert not w.claims


def test_the_claim_is_deleted_when_its_pod_has_ended() -> None:
    w = nodes_only("dra")
    w.add(pod(gpu=1))
    w.settle()
    w.change("pod-1", phase="Succeeded")
    w.settle()
    assert not w.claims


def test_the_claim_is_deleted_with_its_pod() -> None:
    w = nodes_only("dra")
    w.add(pod(gpu=1))
    w.settle()
    w.delete_pod("pod-1")
    w.settle()
    assert not w.claims


def test_devices_of_a_planned_special_claim_are_in_use() -> None:
    """Reserve: the claim exists in memory only."""
    w = nodes_only("dra", by_devices=1)
    w.add(pod("pod-1", gpu=1), pod("pod-2", gpu=1))
    verdict = schedule(w.pod("pod-1"), w.snapshot())
    assert isinstance(verdict, Plan)
    w.plans["default/pod-1"] = verdict
    assert isinstance(schedule(w.pod("pod-2"), w.snapshot()), Unschedulable)


def test_the_pod_status_names_the_special_claim_after_the_wait_for_its_devices() -> None:
    w = World()
    w.add(gpu_class())
    devices(w, "dra", 1, slow=True)
    w.add(pod(gpu=1))
    w.settle()
    assert w.pod().status.nominated_node_name == "dra"
    assert w.pod().status.extended_resource_claim_status is None
    w.set_condition(special(w).ref, ATTACHED)
    w.settle()
    assert w.pod().spec.node_name == "dra"
    assert w.pod().status.extended_resource_claim_status is not None


def test_after_a_restart_the_pod_waits_with_the_same_claim() -> None:
    w = World()
    w.add(gpu_class())
    devices(w, "dra", 1, slow=True)
    w.add(pod(gpu=1))
    w.settle()
    before = special(w).metadata.uid
    w.crash()
    w.settle()
    assert special(w).metadata.uid == before
    w.set_condition(special(w).ref, ATTACHED)
    w.settle()
    assert w.pod().spec.node_name == "dra"


def test_after_a_failed_attach_the_claim_is_deleted_and_a_device_plugin_can_serve_the_pod() -> None:
    w = World()
    w.add(gpu_class())
    devices(w, "dra", 1, slow=True)
    w.add(pod(gpu=1))
    w.settle()
    w.set_condition(special(w).ref, FAILED)
    w.nodes = [plugin_node("plugin", 1)]
    w.settle()
    assert not w.claims
    w.settle()
    assert w.pod().spec.node_name == "plugin"
    assert w.pod().status.extended_resource_claim_status is None


def renamed(world: World, name: str) -> ResourceClaim:
    """Rename the special claim as if another scheduler had created it."""
    claim = special(world)
    other = replace(claim, metadata=replace(claim.metadata, name=name, uid=name))
    del world.claims[claim.ref]
    world.add(other)
    return other


def test_a_complete_claim_of_another_scheduler_is_used() -> None:
    """It is found by its owner and its annotation."""
    w = nodes_only("dra")
    w.add(pod(gpu=1))
    crashed(w, 3)
    other = renamed(w, "pod-1-extended-resources-xxxxx")
    w.settle()
    assert special(w) == other
    status = w.pod().status.extended_resource_claim_status
    assert status is not None
    assert status.resource_claim_name == other.metadata.name


def test_of_two_special_claims_for_a_pod_one_is_deleted() -> None:
    w = nodes_only("dra")
    w.add(pod(gpu=1))
    crashed(w, 3)
    first = special(w)
    other = renamed(w, "pod-1-extended-resources-xxxxx")
    w.add(first)
    w.settle()
    assert special(w) in (first, other)
    assert w.pod().spec.node_name == "dra"


def test_a_claim_of_a_user_with_the_annotation_is_not_a_special_claim() -> None:
    """Any user can set the annotation. A special claim is also owned by the pod."""
    w = nodes_only("dra")
    w.add(pod(gpu=1))
    claim = builders.claim(name="mine")
    marked = replace(claim.metadata, annotations={EXTENDED_CLAIM_ANNOTATION: "true"})
    w.add(replace(claim, metadata=marked))
    w.settle()
    assert w.pod().spec.node_name == "dra"
    assert "default/mine" in w.claims
