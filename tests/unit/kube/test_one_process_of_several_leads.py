"""Leader election on a Lease: who leads, since when, and until when."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from dradriver.cluster.apiserver import ApiServer
from dradriver.kube import LEASES, PODS, Client, Forbidden, Unavailable
from dradriver.kube.leader import Leader, LeaseLostError
from dradriver.model.core.lease import Candidate, Lease, LeaseSpec, LeaseTiming
from dradriver.runner.leading import Watchdog
from dradriver.testing import builders

TIMING = LeaseTiming(15)
NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    server = ApiServer(tmp_path / "api")
    await server.start()
    await asyncio.to_thread(server.write_kubeconfig, tmp_path / "kubeconfig")
    async with await Client.connect(str(tmp_path / "kubeconfig")) as made:
        yield made
    await server.stop()


def leader(client: Client, name: str, clock: Clock) -> Leader:
    return Leader(client, builders.DRIVER, "default", name, TIMING, clock=clock)


def test_the_leader_stops_before_another_one_may_begin() -> None:
    assert TIMING.renew_deadline < TIMING.last_moment < TIMING.duration
    assert (TIMING.renew_deadline, TIMING.retry_period) == (10, 2), "as kube-controller-manager has it"


def test_a_lease_that_changes_is_waited_for_and_one_that_does_not_is_taken_over() -> None:
    """By the clock of whoever waits; the times in the lease are for people."""
    candidate = Candidate("b", TIMING)
    held = LeaseSpec(holder_identity="a", lease_duration_seconds=15, renew_time="1999-01-01T00:00:00.000000Z")
    candidate.see(held, 100)
    assert candidate.claim(114.9, NOW) is None
    candidate.see(LeaseSpec(holder_identity="a", lease_duration_seconds=15, renew_time="later"), 114.9)
    assert candidate.claim(115.1, NOW) is None
    claimed = candidate.claim(129.9, NOW)
    assert claimed is not None
    assert (claimed.holder_identity, claimed.lease_transitions) == ("b", 1)


def test_the_longer_of_two_durations_is_waited_for() -> None:
    candidate = Candidate("b", TIMING)
    candidate.see(LeaseSpec(holder_identity="a", lease_duration_seconds=60), 0)
    assert candidate.claim(59, NOW) is None
    assert candidate.claim(60, NOW)


async def test_the_second_leads_when_the_first_has_released(client: Client) -> None:
    clock = Clock()
    first, second = leader(client, "first", clock), leader(client, "second", clock)
    await first.acquire()
    assert not await second._try(5)
    await first.release()
    with pytest.raises(LeaseLostError):
        first.check()
    await second.acquire()
    lease = await client.get(LEASES, builders.DRIVER, "default", into=Lease)
    assert lease.spec.holder_identity == "second"
    assert lease.spec.lease_duration_seconds == 15


async def test_of_many_at_once_one_leads(client: Client) -> None:
    clock = Clock()
    candidates = [leader(client, f"candidate-{number}", clock) for number in range(8)]
    assert sum(await asyncio.gather(*(each._try(5) for each in candidates))) == 1


async def test_a_leader_that_can_not_renew_ends_at_the_renew_deadline(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    one = leader(client, "one", clock)
    await one.acquire()

    async def away(*_: Any, **__: Any) -> None:
        clock.now += 10
        raise Unavailable("away")

    monkeypatch.setattr(client, "get", away)
    monkeypatch.setattr(LeaseTiming, "retry_period", 0.0)
    with pytest.raises(LeaseLostError):
        await one.keep()
    assert not one.leads
    assert one.seconds_left == 2.5


async def test_a_process_that_was_stopped_may_write_nothing_more(client: Client) -> None:
    clock = Clock()
    one = leader(client, "one", clock)
    guarded = client.guarded(one.check)
    with pytest.raises(LeaseLostError):
        await guarded.create(PODS, builders.pod(), "default", into=dict)
    await one.acquire()
    await guarded.create(PODS, builders.pod(), "default", into=dict)
    clock.now += 10
    await guarded.get(PODS, "pod-1", "default", into=dict)
    with pytest.raises(LeaseLostError):
        await guarded.delete(PODS, "pod-1", "default")


async def test_missing_rights_are_told(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*_: Any, **__: Any) -> None:
        raise Forbidden("leases is forbidden", status=403)

    monkeypatch.setattr(client, "get", refuse)
    one = leader(client, "one", Clock())
    assert not await one._try(5)
    assert "leases is forbidden" in one.problem


async def test_the_watchdog_ends_a_process_that_does_not_stop(client: Client) -> None:
    clock, killed = Clock(), asyncio.Event()
    loop = asyncio.get_running_loop()
    one = Leader(client, builders.DRIVER, "default", "one", LeaseTiming(1), clock=clock)
    await one.acquire()
    with Watchdog(one, lambda _: loop.call_soon_threadsafe(killed.set)):
        clock.now += 1
        await killed.wait()
