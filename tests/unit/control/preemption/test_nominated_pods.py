"""While a nominated pod waits for its victims, no pod of lower or equal priority gets its devices."""

import pytest
from msgspec.structs import replace

from dradriver.control.scheduler.pipeline import schedule
from dradriver.control.scheduler.snapshot import Plan, Unschedulable
from dradriver.model.core.workload import Pod
from dradriver.model.resource.deviceclass import DeviceClass
from dradriver.testing import builders
from tests.unit.control import extended_pods
from tests.unit.control.running_pods import leave, pending, run, victims, with_priority
from tests.unit.control.world import World, cluster


def nominated(world: World, pod: Pod, node: str = "node-1") -> Pod:
    world.change(pod.metadata.name, nominated_node_name=node)
    return world.pods[pod.ref]


def with_nominated(devices: int = 1, count: int = 1) -> tuple[World, Pod]:
    """Return a cluster whose devices are free, and a pod of priority 10 that is nominated for them."""
    world = cluster(nodes=1, devices=devices)
    return world, nominated(world, pending(world, count=count))


@pytest.mark.parametrize(("priority", "gets_it"), [(9, False), (10, False), (11, True)])
def test_the_device_of_a_nominated_pod_goes_only_to_pods_of_higher_priority(
    priority: int, gets_it: bool
) -> None:
    world, _ = with_nominated()
    other = pending(world, priority=priority, name="other")
    assert isinstance(schedule(other, world.snapshot()), Plan) is gets_it


def test_the_nominated_pod_gets_its_device_itself() -> None:
    world, pod = with_nominated()
    assert isinstance(schedule(pod, world.snapshot()), Plan)


def test_devices_beyond_those_of_the_nominated_pod_are_free() -> None:
    world, _ = with_nominated(devices=3, count=2)
    assert isinstance(schedule(pending(world, priority=0, name="one"), world.snapshot()), Plan)
    assert isinstance(
        schedule(pending(world, priority=0, name="two", count=2), world.snapshot()), Unschedulable
    )


def test_a_device_that_one_of_two_victims_has_left_is_kept() -> None:
    world, _ = with_nominated(devices=2, count=2)
    run(world, "victim", "device-0")
    leave(world, "victim")
    low = pending(world, priority=0, name="low")
    assert isinstance(schedule(low, world.snapshot()), Unschedulable)


def test_a_nominated_pod_does_not_count_on_a_claim_that_it_uses_itself() -> None:
    """Its other claim needs the only free device, although the pod that shares a claim with it is leaving."""
    world = cluster(nodes=1, devices=2)
    run(world, "shared", "device-0")
    leave(world, "shared")
    world.add(builders.claim(name="own"))
    pod = with_priority(builders.pod("shared", "own", name="high"), 10)
    world.add(pod)
    nominated(world, pod)
    low = pending(world, priority=0, name="low")
    assert isinstance(schedule(low, world.snapshot()), Unschedulable)


def test_a_leaving_claim_counts_for_a_nominated_pod_although_a_waiting_pod_of_lower_priority_names_it() -> None:
    world, _ = with_nominated(devices=2, count=2)
    run(world, "victim", "device-0")
    leave(world, "victim")
    world.add(with_priority(builders.pod("victim", name="waiting"), 9))
    low = pending(world, priority=0, name="low")
    assert isinstance(schedule(low, world.snapshot()), Unschedulable)


def test_a_second_pod_does_not_count_on_the_victim_of_the_first() -> None:
    world = cluster(nodes=1, devices=2)
    run(world, "low-1", "device-0", started=1)
    run(world, "low-2", "device-1", started=2)
    first = pending(world, name="first")
    assert victims(world, first) == ("node-1", ["low-2"])
    nominated(world, first)
    leave(world, "low-2")
    assert victims(world, pending(world, name="second")) == ("node-1", ["low-1"])


def test_a_refusal_because_of_a_nominated_pod_does_not_hold_for_pods_of_higher_priority() -> None:
    world, _ = with_nominated()
    for priority, expected in ((0, Unschedulable), (11, Plan)):
        pod = pending(world, priority=priority, name=f"other-{priority}")
        assert isinstance(schedule(pod, world.snapshot()), expected)


def test_a_nominated_pod_whose_claims_do_not_fit_keeps_nothing() -> None:
    world = cluster(nodes=1, devices=2)
    run(world, "important", "device-0", priority=20)
    nominated(world, pending(world, count=2))
    assert isinstance(schedule(pending(world, priority=0, name="low"), world.snapshot()), Plan)


@pytest.mark.parametrize("node", ["node-2", "gone"])
def test_a_nomination_for_another_node_keeps_nothing_on_this_node(node: str) -> None:
    world = cluster(nodes=1, devices=1)
    nominated(world, pending(world), node)
    assert isinstance(schedule(pending(world, priority=0, name="low"), world.snapshot()), Plan)


def test_a_nominated_pod_whose_claim_is_missing_or_wrong_keeps_nothing() -> None:
    world, pod = with_nominated()
    del world.claims[pod.ref]
    world.add(builders.claim(builders.device_request("missing"), name="wrong"))
    wrong = with_priority(builders.pod("wrong", name="wrong"), 10)
    world.add(wrong)
    nominated(world, wrong)
    assert isinstance(schedule(pending(world, priority=0, name="low"), world.snapshot()), Plan)


def test_the_devices_for_extended_resources_of_a_nominated_pod_are_kept() -> None:
    world = World()
    classes: DeviceClass = extended_pods.gpu_class()
    world.add(builders.node("node-1"), builders.slice_(builders.device()), classes)
    high = with_priority(extended_pods.pod("high", gpu=1), 10)
    world.add(high)
    nominated(world, high)
    low = with_priority(extended_pods.pod("low", gpu=1), 0)
    assert isinstance(schedule(low, world.snapshot()), Unschedulable)
    world.pods[high.ref] = replace(high, spec=replace(high.spec, priority=-1))
    nominated(world, world.pods[high.ref])
    assert isinstance(schedule(low, world.snapshot()), Plan)


def test_no_device_is_kept_after_the_decision() -> None:
    world, _ = with_nominated()
    schedule(pending(world, priority=0, name="low"), world.snapshot())
    assert world.snapshot().cluster.placer.holders_on("node-1") == set()
