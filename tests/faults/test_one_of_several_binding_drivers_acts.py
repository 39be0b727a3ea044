"""Processes of one binding driver: the leader is killed, or stopped and continued, and one at a time acts.

Who acts is in the hardware's own log. A twelfth as often as KILLS in the environment says (default 12).
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
from dradriver.kube import CLAIMS, CLASSES, LEASES, NODES, PODS, Client
from dradriver.model.core.lease import Lease
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import ResourceClaim
from dradriver.testing import builders

ROUNDS: Final = max(1, int(os.environ.get("KILLS", "12")) // 12)
PROGRAM: Final = Path(__file__).with_name("fabric_driver.py")
LEASE_SECONDS: Final = 4
SECONDS: Final = 30.0


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
        """What the hardware was asked for: process, method, device."""
        log = self.folder / "log"
        lines = log.read_text().splitlines() if log.exists() else []
        return [(int(pid), method, device) for pid, method, device in map(str.split, lines)]

    def acting(self) -> list[int]:
        """The processes in the order in which they began to act; one that acts again is named again."""
        found: list[int] = []
        for pid, _, _ in self.calls():
            if found[-1:] != [pid]:
                found.append(pid)
        return found

    async def start_beside(self, leader: asyncio.subprocess.Process) -> asyncio.subprocess.Process:
        """Another process, which runs and does nothing while the leader does."""
        said = self.said("is held by")
        process = await self.start()
        await self.until(lambda: self.said("is held by") > said)
        await self.pod(f"beside-{process.pid}")
        assert self.acting()[-1] == leader.pid
        return process

    def said(self, words: str) -> int:
        """How often the processes' logs have these words."""
        return (self.folder / "output").read_text().count(words)

    async def until(self, done: Callable[[], bool]) -> None:
        async with asyncio.timeout(SECONDS):
            while not done():
                await asyncio.sleep(0.02)

    async def pod(self, name: str) -> None:
        """A pod that gets a device, and gives it back."""
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
    async with await Client.connect(str(kubeconfig)) as client, Controllers(client, setback=(0.05, 0.2)):
        await client.create(NODES, builders.node(), into=dict)
        await client.create(CLASSES, builders.device_class(), into=dict)
        made = Fabric(client, kubeconfig, folder)
        yield made
        for process in made.processes:
            if process.returncode is None:
                process.kill()
                await process.wait()
    await server.stop()


@pytest.mark.timeout(60 + 30 * ROUNDS)
async def test_a_process_takes_over_from_one_that_was_killed_and_one_that_stops_as_asked_releases_the_lease(
    fabric: Fabric,
) -> None:
    leader = await fabric.start()
    await fabric.pod("first")
    for number in range(ROUNDS):
        standby = await fabric.start_beside(leader)
        leader.kill()
        await leader.wait()
        await fabric.pod(f"pod-{number}")
        leader = standby
    assert not [call for call in fabric.calls() if call[1] == "VIOLATION"]
    assert fabric.acting() == [process.pid for process in fabric.processes]
    assert (await fabric.lease()).spec.lease_transitions == ROUNDS
    leader.terminate()
    assert await asyncio.wait_for(leader.wait(), SECONDS) == 0
    spec = (await fabric.lease()).spec
    assert (spec.holder_identity, spec.lease_duration_seconds) == ("", 1), "the next one leads at once"


@pytest.mark.timeout(60 + 30 * ROUNDS)
async def test_a_leader_that_was_stopped_meanwhile_ends_and_does_nothing_more(fabric: Fabric) -> None:
    leader = await fabric.start()
    await fabric.pod("first")
    for number in range(ROUNDS):
        standby = await fabric.start_beside(leader)
        leader.send_signal(signal.SIGSTOP)
        await fabric.pod(f"pod-{number}")
        assert fabric.acting()[-1] == standby.pid
        leader.send_signal(signal.SIGCONT)
        assert await asyncio.wait_for(leader.wait(), SECONDS) == 1
        leader = standby
    assert fabric.acting() == [process.pid for process in fabric.processes]
    assert fabric.said("not renewed in time") + fabric.said("not stopped in time") >= ROUNDS
