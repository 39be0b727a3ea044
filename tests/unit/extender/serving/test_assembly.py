"""The process is built from its settings, with the real verbs."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from dradriver.control.settings import SchedulerSettings
from dradriver.extender.serving import assembly
from dradriver.extender.serving.assembly import LeaderSettings, build_process, verbs_factory
from dradriver.extender.serving.process import SchedulerProcess
from dradriver.kube import LEASES, Client
from dradriver.model.core.lease import Lease
from dradriver.testing import builders
from tests.unit.extender.serving.fakes import FakeVerbs
from tests.unit.extender.serving.leases import EXTENDER, KUBE_SCHEDULER, hold, holder

pytestmark = pytest.mark.usefixtures("tasks_left")

SETTINGS = SchedulerSettings()
PENDING = b'scheduler_pending_pods{queue="unschedulable"}'


async def test_the_metrics_of_the_verbs_are_served_once_in_each_term(client: Client) -> None:
    registry = CollectorRegistry()
    start = verbs_factory(["dradriver"], SETTINGS, registry)
    for _ in range(2):
        async with start(client) as verbs:
            assert (await verbs.filter(builders.pod("claim-a"), [])).node_names == []
            metrics = generate_latest(registry)
            assert metrics.count(PENDING) == 1
            assert b'extension_point="PreEnqueue",profile="dradriver"' in metrics
        assert PENDING not in generate_latest(registry)


async def run_until_ready(process: SchedulerProcess) -> None:
    """Run the process until it answers calls."""
    stop = asyncio.Event()
    task = asyncio.create_task(process.run(stop, 1))
    while process.readiness and not task.done():
        await asyncio.sleep(0.001)
    stop.set()
    await task


async def test_leases_are_in_the_namespace_of_the_client_by_default(client: Client) -> None:
    await hold(client, KUBE_SCHEDULER, f"{socket.gethostname()}_1")
    election = LeaderSettings(name=EXTENDER, kube_scheduler=("", KUBE_SCHEDULER))
    await run_until_ready(build_process(client, ["dradriver"], SETTINGS, election))
    assert await holder(client, EXTENDER) == ""


async def test_without_election_there_is_no_lease(client: Client) -> None:
    await run_until_ready(build_process(client, ["dradriver"], SETTINGS, None))
    assert (await client.list(LEASES, into=dict)).items == []


async def test_the_scheduler_was_installed_when_its_lease_was_created(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[object] = []

    @asynccontextmanager
    async def run(*arguments: object) -> AsyncIterator[FakeVerbs]:
        given.append(arguments[-1])
        yield FakeVerbs()

    monkeypatch.setattr(assembly, "run_verbs", run)
    for _ in range(2):
        await run_until_ready(build_process(client, ["dradriver"], SETTINGS, LeaderSettings(name=EXTENDER)))
    lease = await client.get(LEASES, EXTENDER, client.namespace, into=Lease)
    assert given == [lease.metadata.creation_timestamp] * 2
