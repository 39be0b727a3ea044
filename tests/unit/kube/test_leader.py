"""Leader election on a Lease: acquire, renew, release and take over."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest

from dradriver.cluster.apiserver import ApiServer
from dradriver.kube import LEASES, PODS, Client, Forbidden, Unavailable
from dradriver.kube.leader import Leader, LeaseLostError
from dradriver.model.core.lease import Candidate, Lease, LeaseSpec, LeaseTiming
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
    async with await Client.connect(str(tmp_path / "kubeconfig")) as client:
        yield client
    await server.stop()


def not_sent() -> Unavailable:
    error = Unavailable("connection refused")
    error.sent = False
    return error


def leader(client: Client, name: str, clock: Clock) -> Leader:
    return Leader(client, builders.DRIVER, "default", name, TIMING, clock=clock)


def test_a_leader_stops_before_another_one_may_start() -> None:
    assert TIMING.renew_deadline < TIMING.kill_deadline < TIMING.duration
    assert (TIMING.renew_deadline, TIMING.retry_period) == (10, 2), "the timing of kube-controller-manager"


def test_a_lease_is_taken_over_only_if_it_does_not_change() -> None:
    """The waiting process measures with its own clock; the times in the lease are only informative."""
    candidate = Candidate("b", TIMING)
    held = LeaseSpec(holder_identity="a", lease_duration_seconds=15, renew_time="1999-01-01T00:00:00.000000Z")
    candidate.observe(held, 100)
    assert candidate.claim(114.9, NOW) is None
    candidate.observe(LeaseSpec(holder_identity="a", lease_duration_seconds=15, renew_time="later"), 114.9)
    assert candidate.claim(115.1, NOW) is None
    claimed = candidate.claim(129.9, NOW)
    assert claimed is not None
    assert (claimed.holder_identity, claimed.lease_transitions) == ("b", 1)


def test_the_longer_of_two_durations_counts() -> None:
    candidate = Candidate("b", TIMING)
    candidate.observe(LeaseSpec(holder_identity="a", lease_duration_seconds=60), 0)
    assert candidate.claim(59, NOW) is None
    assert candidate.claim(60, NOW)


async def test_the_second_candidate_leads_after_the_first_has_released(client: Client) -> None:
    clock = Clock()
    first, second = leader(client, "first", clock), leader(client, "second", clock)
    await first.acquire()
    assert not await second._attempt(40)
    await first.release()
    with pytest.raises(LeaseLostError):
        first.check()
    await second.acquire()
    lease = await client.get(LEASES, builders.DRIVER, "default", into=Lease)
    assert lease.spec.holder_identity == "second"
    assert lease.spec.lease_duration_seconds == 15


async def test_a_process_that_observes_the_lease_waits_no_longer_than_the_lease_is_valid(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LeaseTiming, "retry_period", 0.0)
    clock = Clock()
    first, second = leader(client, "first", clock), leader(client, "second", clock)
    await first.acquire()
    observing = asyncio.create_task(second.observe())
    while second.holder != "first":
        await asyncio.sleep(0)
    clock.now += TIMING.duration
    assert not second.is_leading
    observing.cancel()
    assert await second._attempt(40)


async def test_one_of_many_concurrent_candidates_leads(client: Client) -> None:
    clock = Clock()
    candidates = [leader(client, f"candidate-{number}", clock) for number in range(8)]
    assert sum(await asyncio.gather(*(each._attempt(40) for each in candidates))) == 1


async def test_a_leader_that_cannot_renew_ends_at_the_renew_deadline(
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
    assert not one.is_leading
    assert one.seconds_left == 2.5


async def test_a_stopped_process_may_not_write(client: Client) -> None:
    clock = Clock()
    one = leader(client, "one", clock)
    guarded = client.with_guard(one.limit_write)
    with pytest.raises(LeaseLostError):
        await guarded.create(PODS, builders.pod(), "default", into=dict)
    await one.acquire()
    await guarded.create(PODS, builders.pod(), "default", into=dict)
    clock.now += 10
    await guarded.get(PODS, "pod-1", "default", into=dict)
    with pytest.raises(LeaseLostError):
        await guarded.delete(PODS, "pod-1", "default")


async def test_a_write_ends_before_another_process_may_lead(client: Client) -> None:
    clock = Clock()
    one = leader(client, "one", clock)
    await one.acquire()
    acquired = clock.now
    for seconds in (0, 5, 9.9):
        clock.now = acquired + seconds
        with one.limit_write() as allowed:
            assert 2.5 <= allowed <= TIMING.duration - seconds - 2.5
    clock.now = acquired + 10
    with pytest.raises(LeaseLostError), one.limit_write():
        pytest.fail("the write was sent")


UNANSWERED: Final[Mapping[str, BaseException]] = {
    "canceled": asyncio.CancelledError(),
    "no answer": Unavailable("no answer in time"),
    "an unexpected error": ValueError(),
}
ANSWERED: Final[Mapping[str, BaseException]] = {
    "rejected": Forbidden("no", status=403),
    "never sent": not_sent(),
}


@pytest.mark.parametrize("error", UNANSWERED.values(), ids=UNANSWERED)
async def test_a_lease_is_not_released_while_a_write_may_still_be_stored(
    client: Client, error: BaseException
) -> None:
    clock = Clock()
    one = leader(client, "one", clock)
    await one.acquire()
    with pytest.raises(type(error)), one.limit_write():
        raise error
    await one.release()
    assert not one.is_leading
    lease = await client.get(LEASES, builders.DRIVER, "default", into=Lease)
    assert (lease.spec.holder_identity, lease.spec.lease_duration_seconds) == ("one", TIMING.duration)


@pytest.mark.parametrize("error", ANSWERED.values(), ids=ANSWERED)
async def test_a_lease_is_released_if_no_write_may_still_be_stored(
    client: Client, error: BaseException
) -> None:
    one = leader(client, "one", Clock())
    await one.acquire()
    with pytest.raises(type(error)), one.limit_write():
        raise error
    await one.release()
    assert (await client.get(LEASES, builders.DRIVER, "default", into=Lease)).spec.holder_identity == ""


async def test_a_write_without_an_answer_is_over_when_the_lease_of_its_time_has_expired(
    client: Client,
) -> None:
    clock = Clock()
    one = leader(client, "one", clock)
    await one.acquire()
    with pytest.raises(Unavailable), one.limit_write():
        raise Unavailable("no answer in time")
    clock.now += 8
    await one._attempt(40)
    clock.now += 8
    await one.release()
    assert (await client.get(LEASES, builders.DRIVER, "default", into=Lease)).spec.holder_identity == ""


async def test_missing_permissions_are_reported(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*_: Any, **__: Any) -> None:
        raise Forbidden("leases is forbidden", status=403)

    monkeypatch.setattr(client, "get", refuse)
    one = leader(client, "one", Clock())
    assert not await one._attempt(40)
    assert "leases is forbidden" in one.problem
