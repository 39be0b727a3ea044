"""One change to the thread decides about all pods that wait, and each decision sees the plans before it."""

import asyncio
import threading
from typing import Any, cast

import pytest
from msgspec.structs import replace

from dradriver.aio.tasks import await_thread
from dradriver.control.claims.pod_claims import consumer_of
from dradriver.control.conflicts.allocation_index import AllocationIndex
from dradriver.control.runtime.caches import Caches
from dradriver.control.scheduler import planner
from dradriver.control.scheduler.binding.binding_conditions import BindingDeadline
from dradriver.control.scheduler.cluster_view import ClusterView
from dradriver.control.scheduler.pipeline import schedule
from dradriver.control.scheduler.planner import PlanningResult, PodPlanner
from dradriver.control.scheduler.snapshot import Plan, Unschedulable
from dradriver.control.settings import SchedulerSettings
from dradriver.kube import Client
from dradriver.model.core.workload import Pod
from dradriver.testing import builders


class Cluster:
    """A node with two devices, and a planner whose batches are recorded."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.caches = Caches(cast(Client, None))
        self.view = ClusterView(self.caches, SchedulerSettings(), AllocationIndex(self.caches))
        self.freed: list[bool] = []
        self.preemptions: dict[str, str] = {}
        self.planner = PodPlanner(
            self.view,
            lambda: 0.0,
            lambda: self.freed.append(True),
            lambda pod: self.preemptions.get(pod.ref, ""),
        )
        self.batches: list[int] = []
        self.caches.nodes.apply_written(_numbered(builders.node("node-1")))
        self.caches.classes.apply_written(_numbered(builders.device_class()))
        devices = builders.slice_(builders.device("a"), builders.device("b"), node_name="node-1")
        self.caches.slices.apply_written(_numbered(devices))
        decide = planner._decide

        def record(changes: object, batch: list[object], *rest: object) -> None:
            self.batches.append(len(batch))
            decide(changes, batch, *rest)  # type: ignore[arg-type]

        monkeypatch.setattr(planner, "_decide", record)

    def pod(self, name: str, claim: str) -> Pod:
        """Return a pod, and create its claim if it is missing."""
        if f"default/{claim}" not in self.caches.claims.items:
            self.caches.claims.apply_written(_numbered(builders.claim(name=claim)))
        return builders.pod(claim, name=name)

    async def plan(self, *pods: Pod) -> list[Plan | Unschedulable | BaseException]:
        """Return the decisions about pods that wait at the same time."""
        results = await asyncio.gather(
            *(self.planner.plan(pod.ref, pod, BindingDeadline) for pod in pods), return_exceptions=True
        )
        return [each if isinstance(each, BaseException) else each.verdict for each in results]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    return Cluster(monkeypatch)


def _numbered(each: Any) -> Any:
    return replace(each, metadata=replace(each.metadata, resource_version="1"))


def devices_of(verdict: object) -> list[str]:
    assert isinstance(verdict, Plan)
    return [result.device for each in verdict.allocations.values() for result in each.devices.results]


async def test_pods_that_wait_at_the_same_time_are_decided_together_and_get_different_devices(
    cluster: Cluster,
) -> None:
    first, second, third = await cluster.plan(*(cluster.pod(name, f"claim-{name}") for name in "xyz"))
    assert cluster.batches == [1, 2]
    assert devices_of(first) + devices_of(second) == ["a", "b"]
    assert isinstance(third, Unschedulable)


async def test_a_claim_that_two_pods_share_is_planned_for_one_of_them(cluster: Cluster) -> None:
    first, second, third = await cluster.plan(
        cluster.pod("x", "own"), cluster.pod("y", "shared"), cluster.pod("z", "shared")
    )
    assert cluster.batches == [1, 2]
    assert devices_of(first) + devices_of(second) == ["a", "b"]
    assert isinstance(third, Unschedulable)
    assert "in the process of being allocated" in third.message


async def test_if_decisions_take_long_the_other_pods_wait_for_the_next_batch(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planner, "_BATCH_SECONDS", 0.0)
    verdicts = await cluster.plan(*(cluster.pod(name, f"claim-{name}") for name in "wxyz"))
    assert cluster.batches == [1, 3, 2, 1]
    assert [type(each) for each in verdicts] == [Plan, Plan, Unschedulable, Unschedulable]


async def test_a_defect_in_one_decision_fails_only_for_its_pod(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(pod: Pod, *rest: object, **options: object) -> object:
        if pod.metadata.name == "y":
            raise ZeroDivisionError
        return schedule(pod, *rest, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(planner, "schedule", fail)
    first, second, third = await cluster.plan(*(cluster.pod(name, f"claim-{name}") for name in "xyz"))
    assert isinstance(second, ZeroDivisionError)
    assert devices_of(first) + devices_of(third) == ["a", "b"]


async def test_the_plan_of_a_cancelled_call_is_dropped_and_the_others_count(cluster: Cluster) -> None:
    first, second = cluster.pod("first", "one"), cluster.pod("second", "two")
    calls = [
        asyncio.create_task(cluster.planner.plan(pod.ref, pod, BindingDeadline)) for pod in (first, second)
    ]
    await asyncio.sleep(0)  # the first call decides about both pods
    calls[0].cancel()
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(results[0], asyncio.CancelledError)
    assert cluster.view.plans.keys() == {"default/second"}
    third, fourth = cluster.pod("third", "three"), cluster.pod("fourth", "four")
    verdicts = await cluster.plan(third, fourth)
    assert [isinstance(verdict, Plan) for verdict in verdicts] == [True, False]


def run_low(cluster: Cluster) -> None:
    """Let pods of priority 0 hold both devices."""
    for number, device in enumerate("ab"):
        name = f"low-{number}"
        pod = builders.pod(name, name=name, node_name="node-1")
        claim = builders.allocated(builders.claim(name=name), device)
        cluster.caches.pods.apply_written(_numbered(pod))
        users = replace(claim.status, reserved_for=[consumer_of(pod)])
        cluster.caches.claims.apply_written(_numbered(replace(claim, status=users)))


def high(cluster: Cluster, name: str) -> Pod:
    pod = cluster.pod(name, f"claim-{name}")
    pod = replace(pod, spec=replace(pod.spec, priority=10))
    cluster.caches.pods.apply_written(_numbered(pod))
    return pod


async def test_pods_that_preempt_in_one_batch_have_different_victims(cluster: Cluster) -> None:
    run_low(cluster)
    pods = [high(cluster, name) for name in "xyz"]
    plans = (cluster.planner.plan(pod.ref, pod, BindingDeadline, preempts=True) for pod in pods)
    first, second, third = [result.verdict for result in await asyncio.gather(*plans)]
    assert cluster.batches == [1, 2]
    victims = []
    for verdict in (first, second):
        assert isinstance(verdict, Unschedulable)
        assert verdict.preemption is not None
        victims += [pod.metadata.name for pod in verdict.preemption.victims]
    assert sorted(victims) == ["low-0", "low-1"]
    assert isinstance(third, Unschedulable)
    assert third.preemption is None


@pytest.mark.parametrize("is_preempting", [False, True])
async def test_a_canceled_call_nominates_no_pod_but_keeps_the_nomination_of_a_running_preemption(
    cluster: Cluster, is_preempting: bool
) -> None:
    run_low(cluster)
    if is_preempting:
        cluster.preemptions["default/x"] = "node-1"
        cluster.view.nominate(high(cluster, "x"), "node-1")
    calls = [
        asyncio.create_task(cluster.planner.plan(pod.ref, pod, BindingDeadline, preempts=True))
        for pod in (high(cluster, "x"), high(cluster, "y"))
    ]
    while not cluster.batches:
        await asyncio.sleep(0)
    calls[0].cancel()
    await asyncio.gather(*calls, return_exceptions=True)
    for change in cluster.view.take_changes():
        change()
    snapshot = cluster.view.take_snapshot(high(cluster, "z"), BindingDeadline())
    assert sorted(snapshot.cluster.nominated) == [*cluster.preemptions, "default/y"]


async def test_victims_of_another_scheduler_are_checked_between_two_batches(cluster: Cluster) -> None:
    run_low(cluster)
    pod = high(cluster, "x")
    low = cluster.caches.pods.items["default/low-0"]
    trimmed = await cluster.planner.trim_victims(pod, BindingDeadline, {"node-1": [low], "gone": [low]})
    assert {node: kept.pods for node, kept in trimmed.items()} == {"node-1": (low,)}


async def test_a_pod_without_a_plan_is_decided_in_its_turn_beside_a_slow_decision_about_a_pod_with_a_plan(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planner, "_BATCH_SECONDS", 0.0)
    planned, late, other = (cluster.pod(name, f"claim-{name}") for name in "xyz")
    await cluster.plan(planned)
    verdicts = await cluster.plan(other, late, planned)
    assert [type(each) for each in verdicts] == [Plan, Unschedulable, Plan]


async def test_pods_that_are_decided_again_together_keep_devices_from_other_pods(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, late = (cluster.pod(name, f"claim-{name}") for name in "xyz")
    before = await cluster.plan(first, second)
    monkeypatch.setattr(planner, "_BATCH_SECONDS", 0.0)
    again, refused, other = await cluster.plan(first, late, second)
    assert [devices_of(each) for each in (again, other)] == [devices_of(each) for each in before]
    assert isinstance(refused, Unschedulable)


async def test_the_plan_of_a_call_that_is_cancelled_in_a_batch_is_dropped_and_reported(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[asyncio.Task[PlanningResult]] = []
    loop = asyncio.get_running_loop()

    async def cancel_last(work: asyncio.Future[None]) -> None:
        await await_thread(work)
        if len(cluster.batches) == 2:
            calls[2].cancel()
            await asyncio.sleep(0)

    monkeypatch.setattr(planner, "await_thread", cancel_last)
    pods = [cluster.pod(name, f"claim-{name}") for name in "wxy"]
    calls += [loop.create_task(cluster.planner.plan(pod.ref, pod, BindingDeadline)) for pod in pods]
    cluster.caches.slices.apply_deleted(cluster.caches.slices.items[next(iter(cluster.caches.slices.items))])
    devices = [builders.device(name) for name in "abc"]
    cluster.caches.slices.apply_written(_numbered(builders.slice_(*devices, node_name="node-1")))
    await asyncio.gather(*calls, return_exceptions=True)
    assert cluster.batches == [1, 2]
    assert cluster.freed == [True]
    assert cluster.view.plans.keys() == {pods[0].ref, pods[1].ref}


class Decisions:
    """Decisions about one pod, with the CPU time that they seem to take.

    Attributes:
        in_thread: for each decision, whether it was made in a thread.
        seconds: the CPU time of the next decision.
    """

    def __init__(self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
        self.in_thread: list[bool] = []
        self.seconds = 0.0
        self._cluster = cluster
        self._pod = cluster.pod("x", "claim")
        self._measure = planner._measure
        monkeypatch.setattr(planner, "_measure", self._record)

    def _record(self, *arguments: Any) -> float:
        self.in_thread.append(threading.current_thread() is not threading.main_thread())
        self._measure(*arguments)
        return self.seconds

    async def make(self, count: int = 1) -> None:
        """Decide about the pod again and again."""
        for _ in range(count):
            await self._cluster.plan(self._pod)


@pytest.fixture
def decisions(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Decisions:
    return Decisions(cluster, monkeypatch)


async def test_after_some_short_decisions_the_next_one_is_made_in_the_event_loop(decisions: Decisions) -> None:
    await decisions.make(planner._SHORT_IN_A_ROW + 2)
    assert decisions.in_thread == [True] * planner._SHORT_IN_A_ROW + [False] * 2


async def test_after_a_long_decision_the_next_ones_are_made_in_a_thread(decisions: Decisions) -> None:
    await decisions.make(planner._SHORT_IN_A_ROW)
    decisions.seconds = 1.0
    await decisions.make()
    decisions.seconds = 0.0
    await decisions.make(planner._SHORT_IN_A_ROW + 1)
    assert decisions.in_thread[planner._SHORT_IN_A_ROW :] == [
        False,
        *[True] * planner._SHORT_IN_A_ROW,
        False,
    ]


async def test_many_changes_are_processed_in_a_thread(cluster: Cluster, decisions: Decisions) -> None:
    await decisions.make(planner._SHORT_IN_A_ROW)
    for number in range(planner._FEW_CHANGES + 1):
        cluster.caches.nodes.apply_written(_numbered(builders.node(f"other-{number}")))
    await decisions.make(2)
    assert decisions.in_thread[-2:] == [True, False]
