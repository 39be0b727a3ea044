"""The process answers calls only in its terms as leader."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from dradriver.extender.protocol import BindArgs, Verbs
from dradriver.extender.serving.kube_scheduler_lease import KubeSchedulerLease
from dradriver.extender.serving.process import SchedulerProcess
from dradriver.extender.serving.verb_calls import NotLeadingError
from dradriver.kube import PODS, Client, Unavailable
from dradriver.kube.leader import Leader, LeaseLostError
from dradriver.kube.leading import new_identity
from dradriver.model.core.lease import LeaseTiming
from dradriver.testing import builders
from tests.unit.extender.serving.fakes import FakeVerbs
from tests.unit.extender.serving.leases import EXTENDER, KUBE_SCHEDULER, NAMESPACE, hold, holder

pytestmark = pytest.mark.usefixtures("tasks_left")

HERE, THERE = "pod-a_1", "pod-b_1"


@dataclass
class Factory:
    """Starts fake verbs.

    Attributes:
        log: what happened, in this order.
        client: the client of the last term.
        ready: the caches are read when this is set.
        fails: a background task of the verbs fails when this is set.
    """

    verbs: FakeVerbs = field(default_factory=FakeVerbs)
    log: list[str] = field(default_factory=list)
    client: Client | None = None
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    fails: asyncio.Event = field(default_factory=asyncio.Event)

    @asynccontextmanager
    async def start(self, client: Client) -> AsyncIterator[Verbs]:
        self.client = client
        self.log.append("start")
        try:
            await self.ready.wait()
            async with asyncio.TaskGroup() as group:
                failing = group.create_task(self._fail())
                yield self.verbs
                failing.cancel()
        finally:
            self.log.append("stop")

    async def _fail(self) -> None:
        await self.fails.wait()
        raise ZeroDivisionError


@dataclass
class Clock:
    """The clock of the process."""

    now: float = 100.0


@dataclass
class Running:
    """A process that runs."""

    process: SchedulerProcess
    factory: Factory
    stop: asyncio.Event
    task: "asyncio.Task[None]"
    clock: Clock

    async def until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            assert not self.task.done(), self.task
            await asyncio.sleep(0.001)


@asynccontextmanager
async def running(
    client: Client, *, elects: bool = True, follows: bool = False, ready: bool = True, grace: float = 3600
) -> AsyncIterator[Running]:
    def new_leader() -> Leader:
        return Leader(client, EXTENDER, NAMESPACE, new_identity(), LeaseTiming(15), clock=lambda: clock.now)

    factory, stop, clock = Factory(), asyncio.Event(), Clock()
    if ready:
        factory.ready.set()
    lease = KubeSchedulerLease(client, KUBE_SCHEDULER, NAMESPACE, "pod-a", period=0.001) if follows else None
    process = SchedulerProcess(
        client, factory.start, new_leader=new_leader if elects else None, kube_scheduler=lease
    )
    task = asyncio.create_task(process.run(stop, grace))
    try:
        yield Running(process, factory, stop, task, clock)
    finally:
        stop.set()
        await asyncio.gather(task, return_exceptions=True)


async def bind(verbs: Verbs) -> None:
    await verbs.bind(BindArgs(pod_name="pod", pod_namespace="default", pod_uid="u", node="node-1"))


async def test_a_leader_answers_calls_and_releases_its_lease_at_the_end(client: Client) -> None:
    async with running(client) as one:
        await one.until(lambda: one.process.readiness == "")
        assert one.process.standby_readiness == ""
        assert one.process.metrics.registry.get_sample_value("dradriver_extender_leading") == 1
        await one.process.calls.run(bind)
        one.stop.set()
        await one.task
        assert one.factory.log == ["start", "stop"]
        assert one.process.readiness == "this process stops"
        assert one.process.metrics.registry.get_sample_value("dradriver_extender_leading") == 0
    assert await holder(client, EXTENDER) == ""


async def test_a_standby_starts_no_verbs_and_is_not_ready(client: Client) -> None:
    await hold(client, EXTENDER, "another")
    async with running(client) as one:
        await one.until(lambda: one.process.readiness.endswith(f"{EXTENDER} is held by another"))
        assert one.process.standby_readiness == ""
        with pytest.raises(NotLeadingError, match=f"{EXTENDER} is held by another"):
            await one.process.calls.run(bind)
    assert one.factory.log == []


async def test_a_process_that_reads_the_cluster_is_not_ready(client: Client) -> None:
    async with running(client, ready=False) as one:
        await one.until(lambda: one.process.readiness == "this process has not read the cluster yet")
        await one.until(lambda: one.factory.log == ["start"])
        assert one.process.standby_readiness
        with pytest.raises(NotLeadingError):
            await one.process.calls.run(bind)
        one.stop.set()
        await one.task
    assert one.factory.log == ["start", "stop"]


async def test_without_election_it_leads_at_once(client: Client) -> None:
    async with running(client, elects=False) as one:
        await one.until(lambda: one.process.readiness == "")


async def test_a_stop_waits_for_calls_in_progress(client: Client) -> None:
    async with running(client) as one:
        await one.until(lambda: one.process.readiness == "")
        verbs = one.factory.verbs
        verbs.held = asyncio.Event()
        call = asyncio.create_task(one.process.calls.run(bind))
        await verbs.binding.wait()
        one.stop.set()
        await one.until(lambda: not one.process.calls.is_open)
        assert one.factory.log == ["start"]
        verbs.held.set()
        await call
        await one.task
    assert len(verbs.bound) == 1


async def test_failing_verbs_end_the_process(client: Client) -> None:
    async with running(client) as one:
        await one.until(lambda: one.process.readiness == "")
        one.factory.fails.set()
        with pytest.raises(ExceptionGroup, match="unhandled errors"):
            await one.task
    assert not one.process.calls.is_open


async def test_a_lost_lease_cancels_calls_and_ends_the_process(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LeaseTiming, "retry_period", 0.001)
    async with running(client) as one:

        async def away(*_: object, **__: object) -> None:
            one.clock.now += LeaseTiming(15).renew_deadline
            raise Unavailable("away")

        await one.until(lambda: one.process.readiness == "")
        one.factory.verbs.held = asyncio.Event()
        call = asyncio.create_task(one.process.calls.run(bind))
        await one.factory.verbs.binding.wait()
        with monkeypatch.context() as patch:
            patch.setattr(client, "get", away)
            with pytest.raises(LeaseLostError):
                await one.task
        with pytest.raises(NotLeadingError):
            await call
    assert one.factory.log == ["start", "stop"]
    assert await holder(client, EXTENDER), "not released: another process waits until the lease has expired"


async def test_it_competes_only_while_the_kube_scheduler_beside_it_leads(client: Client) -> None:
    await hold(client, KUBE_SCHEDULER, THERE)
    async with running(client, follows=True) as one:
        await one.until(lambda: one.process.readiness.endswith(f"{KUBE_SCHEDULER} is held by {THERE}"))
        assert one.process.standby_readiness == ""
        await hold(client, KUBE_SCHEDULER, HERE)
        await one.until(lambda: one.process.readiness == "")
        first = await holder(client, EXTENDER)
        await hold(client, KUBE_SCHEDULER, THERE)
        await one.until(
            lambda: one.factory.log == ["start", "stop"] and KUBE_SCHEDULER in one.process.readiness
        )
        assert await holder(client, EXTENDER) == "", (
            "released, so that the extender beside the new leader leads"
        )
        await hold(client, KUBE_SCHEDULER, HERE)
        await one.until(lambda: one.process.readiness == "")
        assert await holder(client, EXTENDER) not in {"", first}, "each term has its own identity"
    assert one.factory.log == ["start", "stop"] * 2


async def test_it_waits_for_the_extender_of_the_last_leader(client: Client) -> None:
    """The Lease of kube-scheduler says who should lead, the own Lease says when the other one has stopped."""
    await hold(client, KUBE_SCHEDULER, HERE)
    await hold(client, EXTENDER, "the extender beside pod-b")
    async with running(client, follows=True) as one:
        await one.until(lambda: one.process.readiness.endswith("is held by the extender beside pod-b"))
        assert one.factory.log == []


async def test_no_write_of_a_turn_is_possible_after_the_turn(client: Client) -> None:
    async with running(client) as one:
        await one.until(lambda: one.process.readiness == "")
        assert one.factory.client is not None
        await one.factory.client.create(PODS, builders.pod(), "default", into=dict)
        one.stop.set()
        await one.task
        with pytest.raises(LeaseLostError):
            await one.factory.client.delete(PODS, "pod-1", "default")


async def test_a_term_that_kube_scheduler_has_lost_ends_without_a_wait_for_its_calls(client: Client) -> None:
    """A call can wait for minutes, and the next leader waits until this process has released its Lease."""
    await hold(client, KUBE_SCHEDULER, HERE)
    async with running(client, follows=True, grace=3600) as one:
        await one.until(lambda: one.process.readiness == "")
        one.factory.verbs.held = asyncio.Event()
        call = asyncio.create_task(one.process.calls.run(bind))
        await one.factory.verbs.binding.wait()
        await hold(client, KUBE_SCHEDULER, THERE)
        await one.until(lambda: one.factory.log == ["start", "stop"])
        with pytest.raises(NotLeadingError):
            await call
    assert one.factory.verbs.bound == []
