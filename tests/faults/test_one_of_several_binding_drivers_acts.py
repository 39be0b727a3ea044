"""Processes of one binding driver: the leader is killed, or stopped and continued, and only one acts at a time.

The hardware's log names the acting process. The number of runs is a twelfth of KILLS in the environment
(default 12).
"""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Final

import pytest

from dradriver.cluster.apiserver import ApiServer
from dradriver.control.controllers import Controllers
from dradriver.control.settings import SchedulerSettings
from dradriver.kube import CLAIMS, CLASSES, LEASES, NODES, PODS, Client
from dradriver.model.core.lease import Lease
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import ResourceClaim
from dradriver.testing import builders

ROUNDS: Final = max(1, int(os.environ.get("KILLS", "12")) // 12)
PROGRAM: Final = Path(__file__).with_name("fabric_driver.py")
LEASE_SECONDS: Final = 10
SECONDS: Final = 60.0


class Fabric:
    """A cluster, the hardware's folder, and the driver's processes."""

    def __init__(self, client: Client, kubeconfig: Path, folder: Path) -> None:
        self.client = client
        self.kubeconfig = kubeconfig
        self.folder = folder
        self.processes: list[asyncio.subprocess.Process] = []

    async def start(self) -> asyncio.subprocess.Process:
        with (self.folder / "output").open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, str(PROGRAM), f"--kubeconfig={self.kubeconfig}"),
                f"--lease-seconds={LEASE_SECONDS}",
                env={**os.environ, "HARDWARE": str(self.folder)},
                stdout=log,
                stderr=log,
            )
        self.processes.append(process)
        return process

    def calls(self) -> list[tuple[int, str, str]]:
        """Return the calls in the hardware's log: process, method, device."""
        log = self.folder / "log"
        lines = log.read_text().splitlines() if log.exists() else []
        return [(int(pid), method, device) for pid, method, device in map(str.split, lines)]

    def acting(self) -> list[int]:
        """Return the processes in the order in which they began to act, once for each begin."""
        found: list[int] = []
        for pid, _, _ in self.calls():
            if found[-1:] != [pid]:
                found.append(pid)
        return found

    async def start_standby(self, leader: asyncio.subprocess.Process) -> asyncio.subprocess.Process:
        """Start another process, which is idle while the leader acts."""
        before = self.count_in_logs("is held by")
        process = await self.start()
        await self.until(lambda: self.count_in_logs("is held by") > before)
        await self.run_pod(f"beside-{process.pid}")
        assert self.acting()[-1] == leader.pid
        return process

    def count_in_logs(self, words: str) -> int:
        """Return how often the processes' logs contain these words."""
        return (self.folder / "output").read_text().count(words)

    async def until(self, done: Callable[[], bool]) -> None:
        async with asyncio.timeout(SECONDS):
            while not done():
                await asyncio.sleep(0.02)

    async def run_pod(self, name: str) -> None:
        """Create a pod that gets a device, and delete it."""
        await self.client.create(CLAIMS, builders.claim(name=name), "default", into=dict)
        await self.client.create(PODS, builders.pod(name, name=name), "default", into=dict)
        async with asyncio.timeout(SECONDS):
            while not (await self.client.get(PODS, name, "default", into=Pod)).spec.node_name:
                await asyncio.sleep(0.02)
            await self.client.delete(PODS, name, "default", grace_seconds=0)
            while (await self.client.get(CLAIMS, name, "default", into=ResourceClaim)).metadata.finalizers:
                await asyncio.sleep(0.02)

    async def lease(self) -> Lease:
        return await self.client.get(LEASES, builders.DRIVER, "default", into=Lease)


@pytest.fixture
async def fabric(tmp_path: Path) -> AsyncIterator[Fabric]:
    server = ApiServer(tmp_path / "api")
    await server.start()
    kubeconfig = tmp_path / "kubeconfig"
    await asyncio.to_thread(server.write_kubeconfig, kubeconfig)
    (folder := tmp_path / "hardware").mkdir()
    async with (
        await Client.connect(str(kubeconfig)) as client,
        Controllers(client, SchedulerSettings(pod_backoff=(0.05, 0.2))),
    ):
        await client.create(NODES, builders.node(), into=dict)
        await client.create(CLASSES, builders.device_class(), into=dict)
        made = Fabric(client, kubeconfig, folder)
        yield made
        for process in made.processes:
            if process.returncode is None:
                process.kill()
                await process.wait()
    await server.stop()


@pytest.mark.timeout(120 + 30 * ROUNDS)
async def test_a_standby_takes_over_after_a_kill_and_a_graceful_stop_releases_the_lease(
    fabric: Fabric,
) -> None:
    leader = await fabric.start()
    await fabric.run_pod("first")
    for number in range(ROUNDS):
        standby = await fabric.start_standby(leader)
        leader.kill()
        await leader.wait()
        await fabric.run_pod(f"pod-{number}")
        leader = standby
    assert not [call for call in fabric.calls() if call[1] == "VIOLATION"]
    assert fabric.acting() == [process.pid for process in fabric.processes]
    assert (await fabric.lease()).spec.lease_transitions == ROUNDS
    leader.terminate()
    assert await asyncio.wait_for(leader.wait(), SECONDS) == 0
    spec = (await fabric.lease()).spec
    assert (spec.holder_identity, spec.lease_duration_seconds) == ("", 1), "the next one leads at once"


@pytest.mark.timeout(120 + 30 * ROUNDS)
async def test_a_leader_that_was_suspended_ends_without_another_call(fabric: Fabric) -> None:
    leader = await fabric.start()
    await fabric.run_pod("first")
    for number in range(ROUNDS):
        standby = await fabric.start_standby(leader)
        leader.send_signal(signal.SIGSTOP)
        await fabric.run_pod(f"pod-{number}")
        assert fabric.acting()[-1] == standby.pid
        leader.send_signal(signal.SIGCONT)
        assert await asyncio.wait_for(leader.wait(), SECONDS) == 1
        leader = standby
    assert fabric.acting() == [process.pid for process in fabric.processes]
    assert fabric.count_in_logs("not renewed in time") + fabric.count_in_logs("did not stop in time") >= ROUNDS
