"""Work is done only by the leader, and a process that is late is killed."""

import asyncio
import signal
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dradriver.cluster.apiserver import ApiServer
from dradriver.cluster.apiserver.faults import Fault
from dradriver.kube import Client, leading
from dradriver.kube.leader import Leader, LeaseLostError
from dradriver.kube.leading import Leadership, Watchdog
from dradriver.model.core.lease import LeaseTiming
from dradriver.testing import builders
from tests.unit.kube.test_leader import Clock


class Bench:
    """An API server, and the candidates for one lease."""

    def __init__(self, server: ApiServer, client: Client) -> None:
        self.server = server
        self.client = client
        self.clock = Clock()
        self.done: list[str] = []
        self.began = asyncio.Event()

    def leader(self, name: str, timing: LeaseTiming | None = None) -> Leader:
        return Leader(self.client, builders.DRIVER, "default", name, timing or LeaseTiming(), clock=self.clock)

    async def work_forever(self) -> None:
        self.began.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.done.append("canceled")


@pytest.fixture
async def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    monkeypatch.setattr(LeaseTiming, "retry_period", 0.01)
    server = ApiServer(tmp_path / "api")
    await server.start()
    await asyncio.to_thread(server.write_kubeconfig, tmp_path / "kubeconfig")
    async with await Client.connect(str(tmp_path / "kubeconfig")) as client:
        yield Bench(server, client)
    await server.stop()


async def test_a_standby_works_after_the_work_of_the_leader_has_ended(bench: Bench) -> None:
    first, second = Leadership(bench.leader("first")), Leadership(bench.leader("second"))
    stop_first, stop_second = asyncio.Event(), asyncio.Event()

    async def work_first() -> None:
        bench.began.set()
        await stop_first.wait()
        bench.done.append("first")

    async def work_second() -> None:
        bench.done.append("second")

    first_task = asyncio.create_task(first.run(work_first, stop_first))
    await bench.began.wait()
    second_task = asyncio.create_task(second.run(work_second, stop_second))
    while "held by first" not in second.standby:
        await asyncio.sleep(0)
    assert (first.is_working, first.standby) == (True, "")
    assert (second.is_working, second.standby) == (False, f"lease default/{builders.DRIVER} is held by first")
    assert second.problem == "", "a standby that only waits has no problem"
    stop_first.set()
    await asyncio.gather(first_task, second_task)
    assert bench.done == ["first", "second"]


async def test_a_stop_ends_the_wait_for_the_lease(bench: Bench) -> None:
    await bench.leader("other").acquire()
    standby, stop = Leadership(bench.leader("standby")), asyncio.Event()
    stop.set()
    await standby.run(bench.work_forever, stop)
    assert not bench.began.is_set()


async def test_an_unreadable_lease_is_a_problem(bench: Bench) -> None:
    bench.server.faults.add(Fault("get", "leases", code=403, count=-1))
    standby, stop = Leadership(bench.leader("standby")), asyncio.Event()
    task = asyncio.create_task(standby.run(bench.work_forever, stop))
    while not standby.problem:
        await asyncio.sleep(0)
    assert standby.standby == standby.problem
    assert standby.problem.startswith(f"lease default/{builders.DRIVER}: fault injected")
    stop.set()
    await task


async def test_work_is_canceled_at_the_renew_deadline(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LeaseTiming, "kill_deadline", 3600.0)
    leader = bench.leader("one")
    leadership = Leadership(leader)
    task = asyncio.create_task(leadership.run(bench.work_forever, asyncio.Event()))
    await bench.began.wait()
    bench.clock.now += LeaseTiming().renew_deadline
    with pytest.raises(LeaseLostError):
        await task
    assert bench.done == ["canceled"]
    assert leadership.is_working
    assert leadership.standby, "a process without the lease is not ready, even if its work has begun"


async def test_the_watchdog_kills_a_process_after_the_machine_has_slept(bench: Bench) -> None:
    """The thread's own wait would last for most of an hour, but the leader's clock has advanced."""
    killed = asyncio.Event()
    loop = asyncio.get_running_loop()
    one = bench.leader("one", LeaseTiming(3600))
    await one.acquire()
    with Watchdog(one, lambda _: loop.call_soon_threadsafe(killed.set)):
        bench.clock.now += 3600
        await killed.wait()


async def test_a_process_that_has_released_its_lease_is_not_killed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed: list[int] = []
    monkeypatch.setattr(leading, "Watchdog", lambda leader: Watchdog(leader, killed.append))
    leader = bench.leader("one")
    release = leader.release

    async def release_slowly() -> None:
        await release()
        await asyncio.sleep(0.2)  # twenty retry periods

    async def work() -> None:
        bench.done.append("one")

    monkeypatch.setattr(leader, "release", release_slowly)
    await Leadership(leader).run(work, asyncio.Event())
    assert (bench.done, killed) == (["one"], [])


PROGRAM = """
import os, signal, sys
from dradriver.kube.leader import boot_time
from dradriver.kube.leading import Watchdog

class Held:
    start = boot_time()
    retry_period = 0.5

    @property
    def seconds_left(self):
        duration = 0 if os.path.exists(sys.argv[1]) else 3600
        return self.start + duration - boot_time()

with Watchdog(Held()):
    os.kill(os.getpid(), signal.SIGSTOP)
    signal.pause()
"""


async def test_a_process_that_was_suspended_past_its_lease_is_killed_although_its_loop_is_blocked(
    tmp_path: Path,
) -> None:
    expired = tmp_path / "expired"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PROGRAM, str(expired)), stdout=PIPE, stderr=PIPE
    )
    status = Path(f"/proc/{process.pid}/status")
    while "(stopped)" not in status.read_text():
        await asyncio.sleep(0.01)
    expired.touch()
    process.send_signal(signal.SIGCONT)
    _, log = await process.communicate()
    assert process.returncode == 1
    assert b"did not stop in time" in log
