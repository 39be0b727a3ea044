"""The extender follows the Lease of the kube-scheduler beside it."""

import asyncio
from typing import Any

import pytest

from dradriver.extender.serving import kube_scheduler_lease
from dradriver.extender.serving.kube_scheduler_lease import KubeSchedulerLease
from dradriver.kube import Client, Forbidden
from tests.unit.extender.serving.leases import KUBE_SCHEDULER, NAMESPACE, hold

HERE = "scheduler-5d8f-a_b1946ac9-2ed8-4d73-a9b1-7d5a3a3e7a64"


@pytest.fixture
def lease(client: Client, monkeypatch: pytest.MonkeyPatch) -> KubeSchedulerLease:
    monkeypatch.setattr(kube_scheduler_lease, "_READ_SECONDS", 3600)
    return KubeSchedulerLease(client, KUBE_SCHEDULER, NAMESPACE, "scheduler-5d8f-a", period=0.001)


async def test_it_waits_until_the_kube_scheduler_of_its_host_leads(
    client: Client, lease: KubeSchedulerLease
) -> None:
    waiting = asyncio.create_task(lease.wait_until_held())
    for other in ("scheduler-5d8f-b_1", "scheduler-5d8f-a-b_1", "scheduler-5d8f_1", ""):
        await hold(client, KUBE_SCHEDULER, other)
        await lease._read()
        assert not lease.is_held_here
        assert lease.standby.endswith(f"default/{KUBE_SCHEDULER} is held by {other or 'no process'}")
    await hold(client, KUBE_SCHEDULER, HERE)
    await waiting
    assert lease.standby == ""


async def test_a_lease_that_does_not_exist_is_held_by_no_process(lease: KubeSchedulerLease) -> None:
    await lease._read()
    assert (lease.problem, lease.standby.partition("is held by ")[2]) == ("", "no process")


async def test_it_notices_that_another_kube_scheduler_leads(client: Client, lease: KubeSchedulerLease) -> None:
    await hold(client, KUBE_SCHEDULER, HERE)
    await lease.wait_until_held()
    waiting = asyncio.create_task(lease.wait_until_lost())
    # The kube-scheduler of this host was restarted and has a new identity.
    await hold(client, KUBE_SCHEDULER, "scheduler-5d8f-a_2")
    await lease._read()
    assert not waiting.done()
    await hold(client, KUBE_SCHEDULER, "scheduler-5d8f-b_1")
    await waiting


async def test_a_failed_read_changes_nothing_and_is_reported(
    client: Client, lease: KubeSchedulerLease, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def refuse(*_: Any, **__: Any) -> None:
        raise Forbidden("leases is forbidden", status=403)

    await hold(client, KUBE_SCHEDULER, HERE)
    await lease.wait_until_held()
    with monkeypatch.context() as patch:
        patch.setattr(client, "get", refuse)
        await lease._read()
        await lease._read()
    assert lease.is_held_here
    assert lease.problem == f"lease default/{KUBE_SCHEDULER}: leases is forbidden"
    assert caplog.text.count("leases is forbidden") == 1
    await lease._read()
    assert lease.problem == ""


async def test_a_read_without_an_answer_ends(
    client: Client, lease: KubeSchedulerLease, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection is broken, and the other side does not close it."""

    async def hang(*_: Any, **__: Any) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(client, "get", hang)
    monkeypatch.setattr(kube_scheduler_lease, "_READ_SECONDS", 0.001)
    await lease._read()
    assert lease.problem == f"lease default/{KUBE_SCHEDULER}: no answer in time"
