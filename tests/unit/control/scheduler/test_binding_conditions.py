"""KEP-5007, decision by decision: PreFilter, Score, PreBind, Unreserve for devices with conditions."""

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
from dradriver.control.scheduler.binding import BindingFailed, next_step, unreserve
from dradriver.control.scheduler.binding_conditions import BindingDeadline, ConditionReadiness, readiness
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
    """A pod with these claims, whose devices are allocated and not ready."""
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


def test_what_the_slice_says_is_copied_into_the_allocation_with_the_time() -> None:
    w = waiting("one")
    claim = w.claims["default/one"]
    assert claim.allocation is not None
    assert [r.binding_conditions for r in claim.results] == [[ATTACHED]]
    assert [r.binding_failure_conditions for r in claim.results] == [[FAILED]]
    assert claim.allocation.allocation_timestamp == NOW


def test_a_device_that_binds_to_its_node_ties_the_claim_to_exactly_that_node() -> None:
    w = World()
    w.add(builders.node("node-1"), builders.node("node-2"), builders.device_class(), builders.claim())
    w.add(network_attached(slow_device()), builders.pod("claim-1"))
    w.settle()
    assert node_of(w, "default/claim-1") == NodeSelector.for_node("node-1")


def test_a_network_device_that_does_not_bind_is_good_for_every_node() -> None:
    w = World()
    w.add(builders.node("node-1"), builders.node("node-2"), builders.device_class(), builders.claim())
    w.add(network_attached(slow_device(binds=False)), builders.pod("claim-1"))
    w.settle()
    assert w.claims["default/claim-1"].allocation is not None
    assert node_of(w, "default/claim-1") is None


def test_the_pod_names_its_node_waits_and_is_bound_when_the_last_condition_is_true() -> None:
    w = waiting("one")
    assert w.pod().status.nominated_node_name == "node-1"
    w.set_condition("default/one", ATTACHED, "False")
    w.settle()
    assert not w.pod().spec.node_name
    w.set_condition("default/one", ATTACHED)
    w.settle()
    assert w.pod().spec.node_name == "node-1"
    assert not w.pod().status.nominated_node_name


def test_every_condition_of_every_device_of_every_claim_has_to_be_true() -> None:
    w = World()
    w.add(builders.node("node-1"), builders.device_class())
    w.add(builders.slice_(*(slow_device(f"device-{i}", "a", "b") for i in range(3))))
    w.add(builders.claim(builders.device_request(count=2), name="two"), builders.claim(name="one"))
    w.add(builders.pod("two", "one"))
    w.settle()
    todo = [(ref, r.device, kind) for ref, c in w.claims.items() for r in c.results for kind in ("a", "b")]
    assert len(todo) == 6
    for ref, device, kind in todo:
        assert not w.pod().spec.node_name
        w.set_condition(ref, kind, device=device)
        w.settle()
    assert w.pod().spec.node_name


def test_conditions_that_flap_have_to_be_true_at_the_same_time() -> None:
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


def test_waiting_is_a_step_without_a_write_that_says_until_when() -> None:
    w = waiting("one")
    step = next_step(w.plans["default/pod-1"], w.pod(), w.claims, w.patience)
    assert step.then is NextAction.WAIT
    assert isinstance(step.action, EmitEvent)
    assert step.action.reason == "BindingConditionsPending"
    assert step.action.message == "waiting for binding conditions for device on node node-1"
    assert step.deadline == NOW + timedelta(seconds=600)


def test_a_failure_condition_frees_the_device_and_names_it() -> None:
    w = waiting("one")
    plan = w.plans["default/pod-1"]
    w.set_condition("default/one", FAILED)
    with pytest.raises(BindingFailed, match=r"device-0: attach-failed \(Told\): by a test") as caught:
        next_step(plan, w.pod(), w.claims, w.patience)
    assert caught.value.state is ConditionReadiness.FAILED
    release = unreserve(plan, w.pod(), w.claims, w.patience)
    assert isinstance(release, Release)
    w.apply(release)
    claim = w.claims["default/one"]
    assert (claim.allocation, claim.status.reserved_for, claim.status.devices) == (None, [], [])
    assert unreserve(plan, w.pod(), w.claims, w.patience) is None


def test_a_failure_outweighs_conditions_that_are_true_also_of_another_device() -> None:
    w = waiting("one", "two")
    w.set_condition("default/one", ATTACHED)
    w.set_condition("default/two", ATTACHED)
    w.set_condition("default/two", FAILED)
    with pytest.raises(BindingFailed, match="claim default/two"):
        next_step(w.plans["default/pod-1"], w.pod(), w.claims, w.patience)


def test_what_is_ready_stays_with_the_pod_when_another_claim_fails() -> None:
    """Attaching it again may take minutes."""
    w = waiting("one", "two")
    w.set_condition("default/one", ATTACHED)
    w.set_condition("default/two", FAILED)
    plan = w.plans["default/pod-1"]
    release = unreserve(plan, w.pod(), w.claims, w.patience)
    assert release is not None
    assert release.claim.ref == "default/two"
    w.apply(release)
    assert unreserve(plan, w.pod(), w.claims, w.patience) is None
    assert w.claims["default/one"].allocation is not None


def test_what_is_being_attached_stays_with_the_pod_when_another_claim_fails() -> None:
    """It need not be attached again, unless the next try takes it back."""
    w = waiting("one", "two")
    w.set_condition("default/two", FAILED)
    plan = w.plans["default/pod-1"]
    release = unreserve(plan, w.pod(), w.claims, w.patience)
    assert release is not None
    assert release.claim.ref == "default/two"
    w.apply(release)
    assert unreserve(plan, w.pod(), w.claims, w.patience) is None
    one = w.claims["default/one"]
    assert one.allocation is not None
    assert [user.uid for user in one.status.reserved_for] == [w.pod().metadata.uid]


def test_each_claim_has_until_its_own_timeout() -> None:
    w = waiting("one", "two")
    w.set_condition("default/one", ATTACHED)
    w.pass_time(599)
    assert next_step(w.plans["default/pod-1"], w.pod(), w.claims, w.patience).then is NextAction.WAIT
    w.pass_time(1)
    with pytest.raises(BindingFailed, match="device binding timeout: claim default/two") as caught:
        next_step(w.plans["default/pod-1"], w.pod(), w.claims, w.patience)
    assert caught.value.state is ConditionReadiness.TIMED_OUT


def test_who_is_ready_at_the_last_moment_is_not_timed_out() -> None:
    w = waiting("one")
    w.pass_time(10_000)
    w.set_condition("default/one", ATTACHED)
    assert isinstance(next_step(w.plans["default/pod-1"], w.pod(), w.claims, w.patience).action, Bind)


def test_an_allocation_without_a_time_is_waited_for_since_its_pod_waits() -> None:
    w = waiting("one")
    claim = w.claims["default/one"]
    assert claim.allocation is not None
    undated = replace(
        claim, status=replace(claim.status, allocation=replace(claim.allocation, allocation_timestamp=None))
    )
    late = NOW + timedelta(seconds=600)
    since = {claim.metadata.uid: NOW}
    assert readiness(undated, BindingDeadline(late))[0] is ConditionReadiness.PENDING
    assert readiness(undated, BindingDeadline(late, since=since))[0] is ConditionReadiness.TIMED_OUT


def test_pods_that_share_an_allocation_without_a_time_wait_until_the_same_moment() -> None:
    """Nobody can add the time: the API server lets no allocation change."""
    w = waiting("one")
    claim = w.claims["default/one"]
    assert claim.allocation is not None
    undated = replace(
        claim, status=replace(claim.status, allocation=replace(claim.allocation, allocation_timestamp=None))
    )
    waits = WaitingPods(SeenConditions(Cache(cast(Client, None), CLAIMS, ResourceClaim)))
    deadlines = set()
    for pod in (builders.pod("one", name=name) for name in ("pod-1", "pod-2")):
        waits.go_on(pod.ref, pod, [undated], Step(NextAction.WAIT))
        deadlines.add(waits.patience().deadline(undated))
    assert len(deadlines) == 1
    assert None not in deadlines
    waits.let_go(undated)
    assert waits.patience().deadline(undated) is None, "the next allocation has a time of its own"


def test_pods_that_share_a_claim_wait_for_it_together() -> None:
    w = cluster(nodes=1, slow=True)
    w.add(builders.claim(), *(builders.pod("claim-1", name=f"pod-{i}") for i in (1, 2, 3)))
    w.settle()
    assert not any(pod.spec.node_name for pod in w.pods.values())
    w.set_condition("default/claim-1", ATTACHED)
    w.settle()
    assert {pod.spec.node_name for pod in w.pods.values()} == {"node-1"}
    assert sum(isinstance(write, Allocate) for write in w.writes) == 1


def test_a_shared_claim_that_failed_is_free_when_the_last_pod_gave_it_back() -> None:
    w = cluster(nodes=1, slow=True)
    w.add(builders.claim(), *(builders.pod("claim-1", name=f"pod-{i}") for i in (1, 2)))
    w.settle()
    w.set_condition("default/claim-1", FAILED)
    releases = []
    for name in ("pod-1", "pod-2"):
        release = unreserve(w.plans[f"default/{name}"], w.pod(name), w.claims, w.patience)
        assert isinstance(release, Release)
        w.apply(release)
        releases.append(release.deallocate)
    assert releases == [False, True]


def test_a_claim_that_fails_later_keeps_its_running_pods_and_takes_no_other() -> None:
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
def test_a_claim_that_failed_or_timed_out_before_a_crash_is_free_after_it(seconds: float) -> None:
    w = waiting("one")
    if not seconds:
        w.set_condition("default/one", FAILED)
    w.pass_time(seconds)
    w.plans.clear()
    step = w.scheduling_step("default/pod-1")
    assert isinstance(step.action, Release)
    assert step.action.deallocate


def test_after_a_crash_the_claims_alone_say_what_is_waited_for() -> None:
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
    """A network device that does not bind: nothing but the nomination says where it is being attached."""
    w = World()
    w.add(*(builders.node(f"node-{i}") for i in (1, 2, 3)), builders.device_class(), builders.claim())
    w.add(network_attached(slow_device(binds=False)), builders.pod("claim-1"))
    w.change("pod-1", nominated_node_name="node-3")
    plan = schedule(w.pod(), w.snapshot())
    assert isinstance(plan, Plan)
    assert plan.node == "node-3"


def test_another_node_is_taken_when_the_nominated_one_does_not_suit() -> None:
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


def test_a_pod_that_has_nothing_to_wait_for_nominates_no_node() -> None:
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


def test_a_refusal_names_what_kept_a_claim_from_getting_ready() -> None:
    w = waiting("one")
    w.pass_time(700)
    verdict = schedule(w.pod(), w.snapshot())
    assert isinstance(verdict, Unschedulable)
    assert "binding of resourceclaim default/one took too long" in verdict.message
    assert f"device-0: {ATTACHED}" in verdict.message


def test_a_pod_that_is_deleted_while_it_waits_frees_its_devices() -> None:
    w = waiting("one")
    pod: Pod = w.pod()
    w.pods[pod.ref] = replace(pod, metadata=replace(pod.metadata, deletion_timestamp=NOW))
    w.settle()
    assert w.claims["default/one"].allocation is None
