"""Each decision about devices with conditions (KEP-5007): PreFilter, Score, PreBind, Unreserve."""

from datetime import timedelta
from typing import cast

import pytest
from msgspec.structs import replace

from dradriver.control.queueing.waiting import SeenConditions, WaitingPods
from dradriver.control.runtime.actions import (
    Allocate,
    Bind,
    EmitEvent,
    NextAction,
    Nominate,
    Release,
    Reserve,
    Step,
)
from dradriver.control.scheduler.binding.binding_conditions import (
    BindingDeadline,
    ConditionReadiness,
    check_readiness,
)
from dradriver.control.scheduler.binding.plan_writes import BindingFailed, next_step, unreserve
from dradriver.control.scheduler.pipeline import schedule
from dradriver.control.scheduler.snapshot import Plan, Unschedulable
from dradriver.kube import CLAIMS, Cache, Client
from dradriver.model.core.node_selector import NodeSelector
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import ResourceClaim
from dradriver.model.resource.device import Device
from dradriver.model.resource.slices import PoolReference, ResourceSlice, ResourceSliceSpec
from dradriver.testing import builders
from tests.unit.control.world import ATTACHED, FAILED, NOW, World, cluster, slow_device


def waiting(*claims: str, slow: bool = True) -> World:
    """Return a pod with these claims, whose devices are allocated and not ready."""
    w = cluster(nodes=2, devices=4, slow=slow)
    w.add(*(builders.claim(name=name) for name in claims), builders.pod(*claims))
    w.settle()
    assert not w.pod().spec.node_name
    return w


def network_attached(*devices: Device) -> ResourceSlice:
    spec = ResourceSliceSpec(
        driver=builders.DRIVER,
        pool=PoolReference(name="fabric", generation=1, resource_slice_count=1),
        all_nodes=True,
        devices=list(devices),
    )
    return ResourceSlice(metadata=builders.slice_(name="fabric").metadata, spec=spec)


def node_of(w: World, ref: str) -> NodeSelector | None:
    allocation = w.claims[ref].allocation
    return allocation.node_selector if allocation else None


def test_the_allocation_has_the_conditions_of_the_slice_and_a_timestamp() -> None:
    w = waiting("one")
    claim = w.claims["default/one"]
    assert claim.allocation is not None
    assert [r.binding_conditions for r in claim.results] == [[ATTACHED]]
    assert [r.binding_failure_conditions for r in claim.results] == [[FAILED]]
    assert claim.allocation.allocation_timestamp == NOW


def test_binds_to_node_restricts_the_allocation_to_the_node() -> None:
    w = World()
    w.add(builders.node("node-1"), builders.node("node-2"), builders.device_class(), builders.claim())
    w.add(network_attached(slow_device()), builders.pod("claim-1"))
    w.settle()
    assert node_of(w, "default/claim-1") == NodeSelector.for_node("node-1")


def test_without_binds_to_node_the_allocation_is_for_all_nodes() -> None:
    w = World()
    w.add(builders.node("node-1"), builders.node("node-2"), builders.device_class(), builders.claim())
    w.add(network_attached(slow_device(binds=False)), builders.pod("claim-1"))
    w.settle()
    assert w.claims["default/claim-1"].allocation is not None
    assert node_of(w, "default/claim-1") is None


def test_the_pod_is_nominated_and_bound_when_its_condition_is_true() -> None:
    w = waiting("one")
    assert w.pod().status.nominated_node_name == "node-1"
    w.set_condition("default/one", ATTACHED, "False")
    w.settle()
    assert not w.pod().spec.node_name
    w.set_condition("default/one", ATTACHED)
    w.settle()
    assert w.pod().spec.node_name == "node-1"
    assert not w.pod().status.nominated_node_name


def test_all_conditions_of_all_devices_of_all_claims_must_be_true() -> None:
    w = World()
    w.add(builders.node("node-1"), builders.device_class())
    w.add(builders.slice_(*(slow_device(f"device-{i}", "a", "b") for i in range(3))))
    w.add(builders.claim(builders.device_request(count=2), name="two"), builders.claim(name="one"))
    w.add(builders.pod("two", "one"))
    w.settle()
    missing = [(ref, r.device, kind) for ref, c in w.claims.items() for r in c.results for kind in ("a", "b")]
    assert len(missing) == 6
    for ref, device, kind in missing:
        assert not w.pod().spec.node_name
        w.set_condition(ref, kind, device=device)
        w.settle()
    assert w.pod().spec.node_name


def test_conditions_must_be_true_at_the_same_time() -> None:
    w = World()
    w.add(builders.node("node-1"), builders.device_class(), builders.claim(), builders.pod("claim-1"))
    w.add(builders.slice_(slow_device("device-0", "a", "b")))
    w.settle()
    for kind, status in (("a", "True"), ("a", "False"), ("b", "True"), ("b", "Unknown"), ("a", "True")):
        w.set_condition("default/claim-1", kind, status)
        w.settle()
        assert not w.pod().spec.node_name
    w.set_condition("default/claim-1", "b")
    w.settle()
    assert w.pod().spec.node_name


def test_waiting_is_a_step_with_an_event_and_a_deadline() -> None:
    w = waiting("one")
    step = next_step(w.plans["default/pod-1"], w.pod(), w.claims, w.deadline)
    assert step.next is NextAction.WAIT
    assert isinstance(step.action, EmitEvent)
    assert step.action.reason == "BindingConditionsPending"
    assert step.action.message == "waiting for binding conditions for device on node node-1"
    assert step.deadline == NOW + timedelta(seconds=600)


def test_a_failure_condition_releases_the_device_and_is_reported() -> None:
    w = waiting("one")
    plan = w.plans["default/pod-1"]
    w.set_condition("default/one", FAILED)
    with pytest.raises(BindingFailed, match=r"device-0: attach-failed \(Test\): set by a test") as caught:
        next_step(plan, w.pod(), w.claims, w.deadline)
    assert caught.value.state is ConditionReadiness.FAILED
    release = unreserve(plan, w.pod(), w.claims, w.deadline)
    assert isinstance(release, Release)
    w.apply(release)
    claim = w.claims["default/one"]
    assert (claim.allocation, claim.status.reserved_for, claim.status.devices) == (None, [], [])
    assert unreserve(plan, w.pod(), w.claims, w.deadline) is None


def test_a_failure_condition_outweighs_all_binding_conditions() -> None:
    w = waiting("one", "two")
    w.set_condition("default/one", ATTACHED)
    w.set_condition("default/two", ATTACHED)
    w.set_condition("default/two", FAILED)
    with pytest.raises(BindingFailed, match="claim default/two"):
        next_step(w.plans["default/pod-1"], w.pod(), w.claims, w.deadline)


def test_a_ready_claim_stays_allocated_when_another_claim_fails() -> None:
    """A second attach may take minutes."""
    w = waiting("one", "two")
    w.set_condition("default/one", ATTACHED)
    w.set_condition("default/two", FAILED)
    plan = w.plans["default/pod-1"]
    release = unreserve(plan, w.pod(), w.claims, w.deadline)
    assert release is not None
    assert release.claim.ref == "default/two"
    w.apply(release)
    assert unreserve(plan, w.pod(), w.claims, w.deadline) is None
    assert w.claims["default/one"].allocation is not None


def test_a_pending_claim_stays_allocated_when_another_claim_fails() -> None:
    """Its attach continues, unless the next attempt releases it."""
    w = waiting("one", "two")
    w.set_condition("default/two", FAILED)
    plan = w.plans["default/pod-1"]
    release = unreserve(plan, w.pod(), w.claims, w.deadline)
    assert release is not None
    assert release.claim.ref == "default/two"
    w.apply(release)
    assert unreserve(plan, w.pod(), w.claims, w.deadline) is None
    one = w.claims["default/one"]
    assert one.allocation is not None
    assert [user.uid for user in one.status.reserved_for] == [w.pod().metadata.uid]


def test_each_claim_has_its_own_timeout() -> None:
    w = waiting("one", "two")
    w.set_condition("default/one", ATTACHED)
    w.pass_time(599)
    assert next_step(w.plans["default/pod-1"], w.pod(), w.claims, w.deadline).next is NextAction.WAIT
    w.pass_time(1)
    with pytest.raises(BindingFailed, match="device binding timeout: claim default/two") as caught:
        next_step(w.plans["default/pod-1"], w.pod(), w.claims, w.deadline)
    assert caught.value.state is ConditionReadiness.TIMED_OUT


def test_a_claim_that_is_ready_after_the_timeout_is_ready() -> None:
    w = waiting("one")
    w.pass_time(10_000)
    w.set_condition("default/one", ATTACHED)
    assert isinstance(next_step(w.plans["default/pod-1"], w.pod(), w.claims, w.deadline).action, Bind)


def test_without_a_timestamp_the_timeout_counts_from_the_begin_of_the_wait() -> None:
    w = waiting("one")
    claim = w.claims["default/one"]
    assert claim.allocation is not None
    undated = replace(
        claim, status=replace(claim.status, allocation=replace(claim.allocation, allocation_timestamp=None))
    )
    late = NOW + timedelta(seconds=600)
    since = {claim.metadata.uid: NOW}
    assert check_readiness(undated, BindingDeadline(late))[0] is ConditionReadiness.PENDING
    assert check_readiness(undated, BindingDeadline(late, since=since))[0] is ConditionReadiness.TIMED_OUT


def test_pods_that_share_a_claim_without_a_timestamp_have_one_deadline() -> None:
    """The timestamp cannot be added, because the API server does not let an allocation change."""
    w = waiting("one")
    claim = w.claims["default/one"]
    assert claim.allocation is not None
    undated = replace(
        claim, status=replace(claim.status, allocation=replace(claim.allocation, allocation_timestamp=None))
    )
    waits = WaitingPods(SeenConditions(Cache(cast(Client, None), CLAIMS, ResourceClaim)))
    deadlines = set()
    for pod in (builders.pod("one", name=name) for name in ("pod-1", "pod-2")):
        waits.wait_step(pod.ref, pod, [undated], Step(NextAction.WAIT))
        deadlines.add(waits.deadline().of_claim(undated))
    assert len(deadlines) == 1
    assert None not in deadlines
    waits.forget_claim(undated)
    assert waits.deadline().of_claim(undated) is None, "the next allocation starts a new wait"


def test_pods_that_share_a_claim_are_bound_together() -> None:
    w = cluster(nodes=1, slow=True)
    w.add(builders.claim(), *(builders.pod("claim-1", name=f"pod-{i}") for i in (1, 2, 3)))
    w.settle()
    assert not any(pod.spec.node_name for pod in w.pods.values())
    w.set_condition("default/claim-1", ATTACHED)
    w.settle()
    assert {pod.spec.node_name for pod in w.pods.values()} == {"node-1"}
    assert sum(isinstance(write, Allocate) for write in w.writes) == 1


def test_a_failed_shared_claim_is_deallocated_by_the_last_pod() -> None:
    w = cluster(nodes=1, slow=True)
    w.add(builders.claim(), *(builders.pod("claim-1", name=f"pod-{i}") for i in (1, 2)))
    w.settle()
    w.set_condition("default/claim-1", FAILED)
    releases = []
    for name in ("pod-1", "pod-2"):
        release = unreserve(w.plans[f"default/{name}"], w.pod(name), w.claims, w.deadline)
        assert isinstance(release, Release)
        w.apply(release)
        releases.append(release.deallocate)
    assert releases == [False, True]


def test_a_claim_that_fails_after_binding_keeps_its_pods_and_rejects_others() -> None:
    w = cluster(nodes=1, slow=True)
    w.add(builders.claim(), builders.pod("claim-1"))
    w.settle()
    w.set_condition("default/claim-1", ATTACHED)
    w.settle()
    w.set_condition("default/claim-1", FAILED)
    w.add(builders.pod("claim-1", name="pod-2"))
    w.settle()
    assert w.claims["default/claim-1"].allocation is not None
    assert w.pod("pod-1").spec.node_name
    assert "binding of resourceclaim default/claim-1 failed" in w.condition("pod-2").message


@pytest.mark.parametrize("seconds", [0, 601])
def test_a_failed_or_timed_out_claim_is_released_after_a_crash(seconds: float) -> None:
    w = waiting("one")
    if not seconds:
        w.set_condition("default/one", FAILED)
    w.pass_time(seconds)
    w.plans.clear()
    step = w.scheduling_step("default/pod-1")
    assert isinstance(step.action, Release)
    assert step.action.deallocate


def test_after_a_crash_the_wait_continues_from_the_claims() -> None:
    w = waiting("one")
    before = w.claims["default/one"]
    w.plans.clear()
    w.settle()
    assert w.claims["default/one"] == before
    w.plans.clear()
    w.set_condition("default/one", ATTACHED)
    w.settle()
    assert w.pod().spec.node_name == "node-1"
    assert not any(isinstance(write, Reserve) for write in w.writes)


def test_the_nominated_node_is_tried_first() -> None:
    """Without `bindsToNode`, only the nomination shows on which node the device is being attached."""
    w = World()
    w.add(*(builders.node(f"node-{i}") for i in (1, 2, 3)), builders.device_class(), builders.claim())
    w.add(network_attached(slow_device(binds=False)), builders.pod("claim-1"))
    w.change("pod-1", nominated_node_name="node-3")
    plan = schedule(w.pod(), w.snapshot())
    assert isinstance(plan, Plan)
    assert plan.node == "node-3"


def test_another_node_is_used_if_the_nominated_node_is_infeasible() -> None:
    w = waiting("one")
    w.plans.clear()
    w.add(builders.pod(name="pod-2", templates=["template"]))
    w.change("pod-2", nominated_node_name="node-9")
    w.settle()
    assert w.pod("pod-2").status.nominated_node_name in {"node-1", "node-2"}


def test_the_node_is_nominated_before_anything_is_allocated() -> None:
    w = waiting("one")
    kinds = [type(write) for write in w.writes]
    assert kinds.index(Nominate) < kinds.index(Allocate)


def test_a_pod_without_pending_conditions_is_not_nominated() -> None:
    w = cluster()
    w.add(builders.claim(), builders.pod("claim-1"))
    w.settle()
    assert w.pod().spec.node_name
    assert not any(isinstance(write, Nominate) for write in w.writes)


def test_devices_without_conditions_are_preferred_on_a_node() -> None:
    w = World()
    w.add(builders.node("node-1"), builders.device_class(), builders.claim(), builders.pod("claim-1"))
    w.add(builders.slice_(slow_device("fabric"), pool="a"), builders.slice_(builders.device("local"), pool="b"))
    w.settle()
    assert w.pod().spec.node_name
    assert [r.device for r in w.claims["default/claim-1"].results] == ["local"]


def test_a_node_whose_devices_are_ready_at_once_is_preferred() -> None:
    w = World()
    w.add(*(builders.node(f"node-{i}") for i in (1, 2, 3)), builders.device_class(), builders.claim())
    w.add(builders.pod("claim-1"))
    w.add(builders.slice_(builders.device("local"), node_name="node-3"), network_attached(slow_device()))
    w.settle()
    assert w.pod().spec.node_name == "node-3"


def test_the_message_names_the_pending_conditions_after_the_timeout() -> None:
    w = waiting("one")
    w.pass_time(700)
    verdict = schedule(w.pod(), w.snapshot())
    assert isinstance(verdict, Unschedulable)
    assert "binding of resourceclaim default/one took too long" in verdict.message
    assert f"device-0: {ATTACHED}" in verdict.message


def test_deleting_a_waiting_pod_releases_its_devices() -> None:
    w = waiting("one")
    pod: Pod = w.pod()
    w.pods[pod.ref] = replace(pod, metadata=replace(pod.metadata, deletion_timestamp=NOW))
    w.settle()
    assert w.claims["default/one"].allocation is None
