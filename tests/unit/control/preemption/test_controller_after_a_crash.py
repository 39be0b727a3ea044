"""A preemption evicts the same pods if the process dies after any write."""

from typing import cast

import pytest
from msgspec.structs import replace

from dradriver.control.preemption.controller import PreemptionController, preemption_step
from dradriver.control.preemption.victims import Preemption
from dradriver.control.runtime.actions import Evict, NextAction, Nominate
from dradriver.control.runtime.caches import Caches
from dradriver.control.runtime.executor import Executor
from dradriver.kube import Client, EventRecorder
from dradriver.model.core.workload import Pod
from dradriver.testing import builders
from tests.unit.control.running_pods import leave, pending, run
from tests.unit.control.world import NOW, World, cluster


def preempting() -> World:
    """Return a pod that needs three devices of a node, one of which is free, and a waiting pod."""
    world = cluster(nodes=2, devices=4)
    run(world, "other", *[f"device-{number}" for number in range(4)], node="node-2", priority=5)
    for number in range(3):
        run(world, f"low-{number}", f"device-{number}", started=number)
    pending(world, count=3)
    pending(world, priority=0, name="waiting")
    return world


def end_leaving(world: World) -> None:
    """Remove the pods that are leaving, one after the other, as their kubelets do."""
    while leaving := sorted(ref for ref, pod in world.pods.items() if pod.metadata.deletion_timestamp):
        world.delete_pod(leaving[0].partition("/")[2])
        world.settle()


def run_preemption(world: World) -> list[str]:
    """Return the names of the pods that were deleted, in order."""
    world.settle()
    assert world.pod("high").status.nominated_node_name == "node-1"
    end_leaving(world)
    assert world.pod("high").spec.node_name == "node-1"
    assert len(world.claims["default/high"].results) == 3
    return [write.pod.metadata.name for write in world.writes if isinstance(write, Evict)]


def test_victims_are_evicted_and_the_pod_gets_their_devices() -> None:
    world = preempting()
    assert sorted(run_preemption(world)) == ["low-1", "low-2"]
    assert not world.pod("waiting").spec.node_name
    assert not world.preemptions


@pytest.mark.parametrize("writes", range(1, 10))
def test_no_other_pod_is_evicted_after_a_crash(writes: int) -> None:
    world = preempting()
    world.crash_after = writes
    evicted = run_preemption(world)
    assert {pod.ref for pod in world.pods.values()} == {
        f"default/{name}" for name in ("high", "low-0", "other", "waiting")
    }
    assert set(evicted) == {"low-1", "low-2"}


def test_the_pod_is_nominated_before_the_first_eviction_and_again_if_the_nomination_was_cleared() -> None:
    world = preempting()
    world.settle()
    kinds = [type(write) for write in world.writes if isinstance(write, (Nominate, Evict))]
    assert kinds[-2:] == [Evict, Evict]
    victims = tuple(world.pod(name) for name in ("low-1", "low-2"))
    world.change("high", nominated_node_name="")
    step = preemption_step(world.pod("high"), Preemption("node-1", victims), world.pods.get, lambda *_: True)
    assert step.action == Nominate(world.pod("high"), "node-1")


def test_pods_that_have_ended_or_are_leaving_or_are_replaced_are_not_evicted() -> None:
    world = cluster(nodes=1, devices=4)
    victims = tuple(run(world, f"low-{number}", f"device-{number}") for number in range(4))
    high = replace(builders.pod(name="high"))
    high = replace(high, status=replace(high.status, nominated_node_name="node-1"))
    leave(world, "low-0")
    world.change("low-1", phase="Failed")
    world.delete_pod("low-2")
    world.add(builders.pod(name="low-3"))
    step = preemption_step(high, Preemption("node-1", victims), world.pods.get, lambda *_: True)
    assert (step.next, step.action) == (NextAction.DONE, None)


def test_a_victim_without_a_node_only_loses_its_plan() -> None:
    world = cluster(nodes=1, devices=1)
    low, high = pending(world, priority=0, name="low"), pending(world)
    world.change("high", nominated_node_name="node-1")
    canceled: list[str] = []

    def cancel(ref: str, reason: str) -> bool:
        assert reason == f"preempted by pod {high.ref} on node node-1"
        canceled.append(ref)
        return len(canceled) > 1

    preemption = Preemption("node-1", (low,))
    for expected in (NextAction.RETRY, NextAction.DONE):
        step = preemption_step(world.pod("high"), preemption, world.pods.get, cancel)
        assert (step.next, step.action) == (expected, None)
    assert canceled == [low.ref] * 2


def controller_of(*pods: Pod) -> tuple[PreemptionController, Caches, list[tuple[str, str]]]:
    """Return a controller without an API server, and the nominations that it reports."""
    client = cast(Client, None)
    caches, nominations = Caches(client), list[tuple[str, str]]()
    executor = Executor(client, caches, EventRecorder(client, "test"))
    for number, pod in enumerate(pods, 1):
        caches.pods.apply_written(replace(pod, metadata=replace(pod.metadata, resource_version=str(number))))

    def nominate(pod: Pod, node: str) -> None:
        nominations.append((pod.metadata.name, node))

    return PreemptionController(caches, executor, nominate, lambda *_: True), caches, nominations


async def test_the_nomination_counts_in_memory_until_it_and_the_evictions_are_written() -> None:
    pod, victim = builders.pod(name="high"), builders.pod(name="low", node_name="node-1")
    controller, caches, nominations = controller_of(pod, victim)
    controller.begin(pod, Preemption("node-1", (victim,)))
    assert nominations == [("high", "node-1")]
    assert isinstance((await controller.decide(pod.ref)).action, Nominate)
    written = caches.pods.items[pod.ref]
    caches.pods.apply_written(
        replace(
            written,
            metadata=replace(written.metadata, resource_version="3"),
            status=replace(written.status, nominated_node_name="node-1"),
        )
    )
    controller.begin(pod, Preemption("node-1"))
    assert isinstance((await controller.decide(pod.ref)).action, Evict), "waiting drops no eviction"
    caches.pods.apply_deleted(caches.pods.items[victim.ref])
    assert (await controller.decide(pod.ref)).next is NextAction.DONE
    assert nominations[-1] == ("high", "")
    assert (await controller.decide(pod.ref)).action is None


def write(caches: Caches, pod: Pod, version: int, node: str = "") -> None:
    """Let the caches see a pod that is nominated for a node, or for none."""
    meta = replace(pod.metadata, resource_version=str(version))
    caches.pods.apply_written(replace(pod, metadata=meta, status=replace(pod.status, nominated_node_name=node)))


async def test_the_nomination_is_written_again_after_the_last_eviction_until_the_victims_have_left() -> None:
    """kube-scheduler may clear the nomination late, as the result of an attempt before the evictions."""
    pod, victim = builders.pod(name="high"), builders.pod(name="low", node_name="node-1")
    controller, caches, nominations = controller_of(pod, victim)
    controller.begin(pod, Preemption("node-1", (victim,)))
    write(caches, pod, 3, "node-1")
    assert isinstance((await controller.decide(pod.ref)).action, Evict)
    write(caches, replace(victim, metadata=replace(victim.metadata, deletion_timestamp=NOW)), 4)
    step = await controller.decide(pod.ref)
    assert (step.next, step.action) == (NextAction.WAIT, None)
    write(caches, pod, 5)
    assert isinstance((await controller.decide(pod.ref)).action, Nominate)
    assert nominations == [("high", "node-1")], "the nomination counts in memory, too"
    write(caches, pod, 6, "node-1")
    caches.pods.apply_deleted(caches.pods.items[victim.ref])
    assert (await controller.decide(pod.ref)).next is NextAction.DONE
    assert nominations[-1] == ("high", "")
    write(caches, pod, 7)
    assert (await controller.decide(pod.ref)).action is None


async def test_a_nomination_that_is_cleared_after_the_victims_have_left_is_not_written_again() -> None:
    """No filter of kube-scheduler may pass any more, so the devices must be free for other pods."""
    pod, victim = builders.pod(name="high"), builders.pod(name="low", node_name="node-1")
    controller, caches, nominations = controller_of(pod, victim)
    controller.begin(pod, Preemption("node-1", (victim,)))
    write(caches, pod, 3, "node-1")
    write(caches, replace(victim, metadata=replace(victim.metadata, deletion_timestamp=NOW)), 4)
    assert (await controller.decide(pod.ref)).next is NextAction.WAIT
    queue = controller._loop.queue
    queue.done(await queue.get())
    caches.pods.apply_deleted(caches.pods.items[victim.ref])
    assert list(queue.queued) == [pod.ref], "the end of a victim is noticed"
    write(caches, pod, 5)
    step = await controller.decide(pod.ref)
    assert (step.next, step.action) == (NextAction.DONE, None)
    assert nominations[-1] == ("high", "")


async def test_a_victim_that_gave_up_its_plan_is_spared_when_it_is_bound_later() -> None:
    pod = builders.pod(name="high")
    bound, waiting = builders.pod(name="bound", node_name="node-1"), builders.pod(name="waiting")
    controller, caches, _ = controller_of(pod, bound, waiting)
    write(caches, pod, 4, "node-1")
    write(caches, replace(bound, metadata=replace(bound.metadata, deletion_timestamp=NOW)), 5)
    controller.begin(pod, Preemption("node-1", (bound, waiting)))
    assert (await controller.decide(pod.ref)).next is NextAction.WAIT
    write(caches, replace(waiting, spec=replace(waiting.spec, node_name="node-2")), 6)
    step = await controller.decide(pod.ref)
    assert (step.next, step.action) == (NextAction.WAIT, None)


async def test_a_pod_that_waits_on_another_node_drops_the_evictions_on_the_first_node() -> None:
    pod, victim = builders.pod(name="high"), builders.pod(name="low", node_name="node-1")
    controller, caches, nominations = controller_of(pod, victim)
    controller.begin(pod, Preemption("node-1", (victim,)))
    controller.begin(pod, Preemption("node-2"))
    assert (await controller.decide(pod.ref)).action == Nominate(caches.pods.items[pod.ref], "node-2")
    write(caches, pod, 3, "node-2")
    assert (await controller.decide(pod.ref)).action is None
    assert nominations == [("high", "node-1"), ("high", "node-2"), ("high", "")]


async def test_evictions_are_dropped_if_the_pod_no_longer_needs_them() -> None:
    pod, victim = builders.pod(name="high"), builders.pod(name="low", node_name="node-1")
    for change in ("plan", "deleted", "replaced", "bound"):
        controller, caches, _ = controller_of(pod, victim)
        controller.begin(pod, Preemption("node-1", (victim,)))
        if change == "plan":
            controller.begin(pod, None)
        elif change == "deleted":
            caches.pods.apply_deleted(caches.pods.items[pod.ref])
        else:
            meta = replace(
                pod.metadata, resource_version="3", uid="new" if change == "replaced" else pod.metadata.uid
            )
            node = "node-2" if change == "bound" else ""
            caches.pods.apply_written(replace(pod, metadata=meta, spec=replace(pod.spec, node_name=node)))
        step = await controller.decide(pod.ref)
        assert (step.next, step.action) == (NextAction.DONE, None), change
