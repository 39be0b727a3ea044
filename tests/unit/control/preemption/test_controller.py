"""The embedded scheduler evicts pods of lower priority, on an API server without kubelets."""

from collections.abc import Mapping

from msgspec.structs import replace

from dradriver.control.controllers import Controllers
from dradriver.control.runtime.caches import Caches
from dradriver.control.runtime.executor import Executor
from dradriver.control.scheduler.scheduler import Scheduler
from dradriver.control.settings import SchedulerSettings
from dradriver.kube import CLAIMS, DISRUPTION_BUDGETS, PODS, SLICES, EventRecorder, PatchKind
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import ResourceClaim
from dradriver.testing import builders
from tests.unit.control.conftest import Lab
from tests.unit.control.events import wait_for_event
from tests.unit.control.running_pods import with_priority
from tests.unit.control.world import slow_device


def low(name: str, priority: int = 0) -> Pod:
    made = with_priority(builders.pod(name=name, templates=["template"]), priority)
    return replace(made, metadata=replace(made.metadata, labels={"app": name}))


def high(count: int = 1, name: str = "high") -> Pod:
    return with_priority(builders.pod(name, name=name), 10)


async def add_high(lab: Lab, count: int = 1, name: str = "high") -> None:
    await lab.client.create(
        CLAIMS, builders.claim(builders.device_request(count=count), name=name), "default", into=dict
    )
    await lab.pods(high(count, name))


def leaving(pods: Mapping[str, Pod]) -> list[str]:
    return sorted(pod.metadata.name for pod in pods.values() if pod.metadata.deletion_timestamp is not None)


async def end(lab: Lab, *names: str) -> None:
    """Confirm that pods have ended, as their kubelet does."""
    for name in names:
        await lab.client.delete(PODS, name, "default", grace_seconds=0)


async def test_a_pod_of_higher_priority_gets_the_device_of_a_pod_of_lower_priority(lab: Lab) -> None:
    """All four devices are held. A budget protects one pod, and the pods of node-1 are more important."""
    await lab.client.delete(SLICES, f"node-2-{builders.DRIVER}")
    budget = {
        "metadata": {"name": "low-1"},
        "spec": {"selector": {"matchLabels": {"app": "low-1"}}},
    }
    await lab.client.create(DISRUPTION_BUDGETS, budget, "default", into=dict)
    async with Controllers(lab.client):
        await lab.pods(low("low-1"), low("low-2", 1))
        await lab.until_bound(2)
        await add_high(lab)
        await lab.until(lambda pods, _: leaving(pods) == ["low-2"])
        await lab.pods(low("low-3"))
        await lab.until(
            lambda pods, _: "default/low-3" in pods and bool(pods["default/low-3"].status.conditions)
        )
        waiting = lab.seen.pods.items["default/high"]
        assert waiting.status.nominated_node_name == "node-1"
        victim = lab.seen.pods.items["default/low-2"]
        (target,) = [each for each in victim.status.conditions if each.type == "DisruptionTarget"]
        event = await wait_for_event(lab.client, f"Preempted by pod {waiting.metadata.uid} on node node-1")
        await end(lab, "low-2")
        await lab.until(lambda pods, _: bool(pods["default/high"].spec.node_name))
        assert leaving(lab.seen.pods.items) == []
        assert not lab.seen.pods.items["default/low-3"].spec.node_name
    assert (target.status, target.reason) == ("True", "PreemptionByScheduler")
    assert target.message == "default-scheduler: preempting to accommodate a higher priority pod"
    assert (event.reason, event.involved_object.name) == ("Preempted", "low-2")
    assert event.source["component"] == "default-scheduler"
    assert len(lab.held()) == len(set(lab.held())) == 2


async def test_pods_that_preempt_at_once_evict_different_pods(lab: Lab) -> None:
    names = [f"low-{number}" for number in range(4)]
    async with Controllers(lab.client):
        await lab.pods(*map(low, names))
        await lab.until_bound(4)
        for name in ("high-1", "high-2", "high-3"):
            await add_high(lab, name=name)
        await lab.until(lambda pods, _: len(leaving(pods)) == 3)
        await end(lab, *leaving(lab.seen.pods.items))
        await lab.until(
            lambda pods, _: all(pod.spec.node_name for pod in pods.values() if pod.metadata.name[0] == "h")
        )
        assert leaving(lab.seen.pods.items) == []
        assert len(lab.held()) == len(set(lab.held())) == 4


async def test_a_pod_that_waits_for_binding_conditions_gives_up_its_plan_and_is_not_deleted(lab: Lab) -> None:
    for node in ("node-1", "node-2"):
        await lab.client.delete(SLICES, f"{node}-{builders.DRIVER}")
    await lab.client.create(SLICES, builders.slice_(slow_device()), into=dict)

    def is_reserved(pods: Mapping[str, Pod], claims: Mapping[str, ResourceClaim]) -> bool:
        return any(claim.status.reserved_for for claim in claims.values())

    def has_device(pods: Mapping[str, Pod], claims: Mapping[str, ResourceClaim]) -> bool:
        claim = claims.get("default/high")
        return claim is not None and bool(claim.status.reserved_for)

    async with Controllers(lab.client):
        await lab.pods(low("low-1"))
        await lab.until(is_reserved)
        await add_high(lab)
        await lab.until(has_device)
        assert leaving(lab.seen.pods.items) == []
        assert len(lab.held()) == 1


async def test_a_restarted_scheduler_waits_for_the_victims_of_its_predecessor(lab: Lab) -> None:
    names = [f"low-{number}" for number in range(4)]
    async with Controllers(lab.client):
        await lab.pods(*map(low, names))
        await lab.until_bound(4)
        await add_high(lab)
        await lab.until(lambda pods, _: len(leaving(pods)) == 1)
    (victim,) = leaving(lab.seen.pods.items)
    async with Controllers(lab.client, SchedulerSettings()):
        body = {"metadata": {"annotations": {"example.com/changed": "true"}}}
        await lab.client.patch(PODS, "high", "default", body, PatchKind.MERGE, into=dict)
        await end(lab, victim)
        await lab.until(lambda pods, _: bool(pods["default/high"].spec.node_name))
    assert sum(name in {pod.metadata.name for pod in lab.seen.pods.items.values()} for name in names) == 3


async def test_the_victims_of_another_scheduler_are_checked_against_the_newest_objects(lab: Lab) -> None:
    caches = Caches(lab.client)
    async with EventRecorder(lab.client, "test") as recorder:
        scheduler = Scheduler(caches, Executor(lab.client, caches, recorder))
        own = Lab(lab.server, lab.folder, lab.client, caches)
        async with caches, scheduler:
            for name in ("low-1", "low-2"):
                claim = builders.claim(builders.device_request(count=2), name=name)
                await lab.client.create(CLAIMS, claim, "default", into=dict)
                await lab.pods(with_priority(builders.pod(name, name=name), 0))
            await own.until_bound(2)
            await add_high(lab)
            await own.until(lambda pods, claims: "default/high" in pods and "default/high" in claims)
            pods = caches.pods.items
            victims = {"node-1": [pods["default/low-1"]], "gone": [pods["default/low-2"]]}
            trimmed = await scheduler.scheduling.trim_victims(pods["default/high"], victims)
    assert {node: [pod.metadata.name for pod in kept.pods] for node, kept in trimmed.items()} == {
        "node-1": ["low-1"]
    }
