"""The leading scheduler is stopped while the API server delays one of its writes, and continued later.

The write is stored after another process has begun to lead, and allocates devices that this process has
allocated to another pod. KILLS in the environment sets the number of rounds to a twelfth of its value (`make
faults`; without it, the test is skipped, because it waits for Leases).
"""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import pytest

from dradriver.cluster.apiserver import ApiServer, Fault
from dradriver.kube import CLAIMS, CLASSES, NODES, PODS, SLICES, Cache, Client
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import ResourceClaim
from dradriver.testing import builders

ROUNDS: Final = int(os.environ.get("KILLS", "0")) // 12
PROGRAM: Final = Path(__file__).with_name("control_plane.py")
LEASE_SECONDS: Final = 10
SECONDS: Final = 60.0


class Stage:
    """An API server with one node with two devices, and the processes of the scheduler."""

    def __init__(self, server: ApiServer, client: Client, folder: Path) -> None:
        self.server = server
        self.client = client
        self.folder = folder
        self.pods = Cache(client, PODS, Pod)
        self.claims = Cache(client, CLAIMS, ResourceClaim)
        self.were_allocated: set[str] = set()
        self.processes: list[asyncio.subprocess.Process] = []
        self.claims.subscribe(self._record_allocation)

    def _record_allocation(self, _kind: object, _old: object, new: ResourceClaim | None) -> None:
        if new is not None and new.allocation is not None:
            self.were_allocated.add(new.metadata.name)

    async def start_leader(self) -> asyncio.subprocess.Process:
        """Start the first process, and wait until it leads."""
        process = await self._start()
        await self.until(lambda: self._count_in_logs("this process leads") > 0)
        return process

    async def start_standby(self) -> asyncio.subprocess.Process:
        """Start another process, and wait until it waits for the Lease."""
        before = self._count_in_logs("is held by")
        process = await self._start()
        await self.until(lambda: self._count_in_logs("is held by") > before)
        return process

    async def _start(self) -> asyncio.subprocess.Process:
        with (self.folder / "log").open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, str(PROGRAM), str(self.folder / "kubeconfig"), str(LEASE_SECONDS)),
                stdout=asyncio.subprocess.DEVNULL,
                stderr=log,
            )
        self.processes.append(process)
        return process

    def _count_in_logs(self, words: str) -> int:
        return (self.folder / "log").read_text().count(words)

    async def until(self, done: Callable[[], bool]) -> None:
        async with asyncio.timeout(SECONDS):
            while not done():
                await asyncio.sleep(0.02)

    async def make_pod(self, name: str) -> None:
        """Create a pod that needs both devices."""
        claim = builders.claim(builders.device_request(count=2), name=name)
        await self.client.create(CLAIMS, claim, "default", into=bytes)
        await self.client.create(PODS, builders.pod(name, name=name), "default", into=bytes)

    async def remove_pod(self, name: str) -> None:
        await self.client.delete(PODS, name, "default", grace_seconds=0)
        await self.until(lambda: not self.claims.items[f"default/{name}"].metadata.finalizers)
        await self.client.delete(CLAIMS, name, "default")

    async def delay_an_allocation(self, name: str) -> asyncio.Event:
        """Create a pod, and wait until the API server has received the allocation of its claim.

        Returns:
            The event that lets the API server store the allocation.
        """
        may_be_stored = asyncio.Event()
        delayed = self.server.faults.add(Fault("patch", "resourceclaims/status", until=may_be_stored))
        await self.make_pod(name)
        await self.until(lambda: delayed.count == 0)
        return may_be_stored

    async def until_bound(self, name: str) -> None:
        await self.until(lambda: self.is_bound(name))

    async def until_reverted(self, name: str) -> None:
        """Wait until the claim of a pod was allocated and is not allocated any more."""
        await self.until(lambda: name in self.were_allocated)
        await self.until(lambda: self.claims.items[f"default/{name}"].allocation is None)

    def is_bound(self, name: str) -> bool:
        pod = self.pods.items.get(f"default/{name}")
        return pod is not None and bool(pod.spec.node_name)


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    server = ApiServer(tmp_path / "api")
    await server.start()
    await asyncio.to_thread(server.write_kubeconfig, tmp_path / "kubeconfig")
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(await Client.connect(str(tmp_path / "kubeconfig")))
        await client.create(NODES, builders.node(), into=bytes)
        await client.create(CLASSES, builders.device_class(), into=bytes)
        devices = (builders.device("device-0"), builders.device("device-1"))
        await client.create(SLICES, builders.slice_(*devices), into=bytes)
        made = Stage(server, client, tmp_path)
        await stack.enter_async_context(made.pods)
        await stack.enter_async_context(made.claims)
        yield made
        for process in made.processes:
            if process.returncode is None:
                process.kill()
                await process.wait()
    await server.stop()


@pytest.mark.skipif(not ROUNDS, reason="make faults runs it")
@pytest.mark.timeout(120 + 40 * ROUNDS)
async def test_a_late_allocation_is_undone_and_the_process_that_woke_up_ends(stage: Stage) -> None:
    leader = await stage.start_leader()
    for number in range(ROUNDS):
        late, early = f"pod-{number}-late", f"pod-{number}-early"
        standby = await stage.start_standby()
        may_be_stored = await stage.delay_an_allocation(late)
        leader.send_signal(signal.SIGSTOP)
        await stage.make_pod(early)
        await stage.until_bound(early)
        may_be_stored.set()
        await stage.until_reverted(late)
        leader.send_signal(signal.SIGCONT)
        assert await asyncio.wait_for(leader.wait(), SECONDS) == 1
        assert not stage.is_bound(late)
        await stage.remove_pod(early)
        await stage.until_bound(late)
        await stage.remove_pod(late)
        leader = standby
