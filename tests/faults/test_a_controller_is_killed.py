"""kill -9 of a controller of classic DRA: no allocation leaks, and the hardware holds what the claims say.

The controller is a process with a Lease, `tests/e2e/classic/link_controller.py`, whose hardware is a folder. It
allocates claims of pods, and immediate claims. Each round creates pods, ends some, and kills the process at a
random moment of its work. The next process takes over when the Lease has expired. The number of kills is a 16th
of KILLS in the environment, which `make faults` sets; SEED repeats the random choices.
"""

import asyncio
import os
import random
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from dradriver.cluster.apiserver import ApiServer
from dradriver.control.controllers import Controllers
from dradriver.control.settings import SchedulerSettings
from dradriver.kube import (
    CLAIMS,
    CLASSES,
    CONTROLLER_ALLOCATIONS,
    NODES,
    PODS,
    TEMPLATES,
    Cache,
    Client,
    NotFound,
)
from dradriver.kube.definitions import install_definitions
from dradriver.model.classic.allocation_records import ControllerAllocation
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import ResourceClaim
from dradriver.testing import builders
from tests.e2e.classic import link_controller
from tests.seeds import choose_seed
from tests.unit.control.world import template

KILLS: Final = max(1, int(os.environ.get("KILLS", "0")) // 16)
SEED: Final = choose_seed()
CONTROLLER: Final = "links.example.com"
NODE_NAMES: Final = ("node-1", "node-2")
LINKS: Final = 3
"""Links of each node; there are never more pods than links."""
LEASE_SECONDS: Final = 2
"""The next process waits for so long. A killed process needs no longer Lease."""


class Stage:
    """A cluster with a scheduler, and the hardware of a controller whose process is killed."""

    def __init__(self, client: Client, kubeconfig: Path) -> None:
        self.client = client
        self.kubeconfig = kubeconfig
        self.random = random.Random(SEED)
        self.hardware = kubeconfig.parent / "hardware"
        self.pods = Cache(client, PODS, Pod)
        self.claims = Cache(client, CLAIMS, ResourceClaim)
        self.records = Cache(client, CONTROLLER_ALLOCATIONS, ControllerAllocation)
        self.writes = 0
        self._names = 0
        self.claims.subscribe(self._count_claim)
        self.records.subscribe(self._count)
        for node in NODE_NAMES:
            free = self.hardware / CONTROLLER / "free" / node
            free.parent.mkdir(parents=True, exist_ok=True)
            free.write_text(str(LINKS))
        (self.hardware / CONTROLLER / "claims").mkdir()

    def _count(self, *_: object) -> None:
        self.writes += 1

    def _count_claim(self, _kind: object, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        """Count the writes of the controller only."""
        if old is None or new is None:
            return
        if (old.allocation, old.metadata.finalizers) != (new.allocation, new.metadata.finalizers):
            self.writes += 1

    @property
    def held(self) -> dict[str, str]:
        """Return the node of each claim that has a link, by UID; empty for an immediate claim."""
        found = {}
        for each in (self.hardware / CONTROLLER / "claims").iterdir():
            with suppress(FileNotFoundError):  # the controller has just returned its link
                found[each.name] = each.read_text()
        return found

    @property
    def allocated(self) -> dict[str, str]:
        """Return what `held` must be, by the allocations of the claims."""
        found = {}
        for claim in self.claims.items.values():
            if claim.allocation is not None:
                selector = claim.allocation.node_selector
                found[claim.metadata.uid] = selector.only_node if selector is not None else ""
        return found

    async def start(self, lease_seconds: int = LEASE_SECONDS) -> asyncio.subprocess.Process:
        environment = {
            **os.environ,
            "HARDWARE": str(self.hardware),
            "LINK_CONTROLLER": CONTROLLER,
            "LINK_PLUGINS": "plugin.example.com",
        }
        with (self.kubeconfig.parent / "log").open("ab") as log:
            return await asyncio.create_subprocess_exec(
                *(sys.executable, link_controller.__file__, f"--kubeconfig={self.kubeconfig}"),
                *("--lease-namespace=default", f"--lease-seconds={lease_seconds}"),
                env=environment,
                stdout=log,
                stderr=log,
            )

    async def run_and_kill(self) -> None:
        """Start the controller, let it do some of the work, and kill it."""
        process = await self.start()
        goal = self.writes + self.random.randrange(1, 12)
        with suppress(TimeoutError):
            async with asyncio.timeout(LEASE_SECONDS + 3):
                while self.writes < goal and process.returncode is None:
                    await asyncio.sleep(0.002)
        await asyncio.sleep(self.random.choice([0, 0.002, 0.01, 0.05]))
        await end(process)

    async def make_pods(self) -> None:
        for _ in range(self.random.randrange(1, 4)):
            if len(self.pods.items) >= LINKS:
                return
            self._names += 1
            name, claims = f"pod-{self._names}", []
            if self.random.random() < 0.3:
                claims.append(f"immediate-{self._names}")
                config = builders.controller_claim("Immediate")
                claim = builders.claim(builders.device_request(CONTROLLER), name=claims[0], configs=[config])
                await self.client.create(CLAIMS, claim, "default", into=bytes)
            pod = builders.pod(*claims, name=name, templates=[] if claims else ["template"])
            self.pods.apply_written(await self.client.create(PODS, pod, "default", into=Pod))

    async def end_pods(self, most: int) -> None:
        """Delete pods, and the immediate claims that no pod needs any more."""
        pods = list(self.pods.items.values())
        for pod in self.random.sample(pods, min(most, len(pods))):
            await self.client.delete(PODS, pod.metadata.name, "default", grace_seconds=0)
            for wanted in pod.spec.resource_claims:
                if wanted.resource_claim_name:
                    with suppress(NotFound):
                        await self.client.delete(CLAIMS, wanted.resource_claim_name, "default")

    async def until(self, done: Callable[[], bool]) -> None:
        """Wait until the test's time limit."""
        while not done():
            await asyncio.sleep(0.02)


async def end(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        process.kill()
    await process.wait()


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    print(f"SEED={SEED} KILLS={KILLS}")
    server = ApiServer(tmp_path / "api")
    await server.start()
    kubeconfig = tmp_path / "kubeconfig"
    await asyncio.to_thread(server.write_kubeconfig, kubeconfig)
    async with await Client.connect(str(kubeconfig)) as client:
        await install_definitions(client)
        for name in NODE_NAMES:
            await client.create(NODES, builders.node(name), into=bytes)
        device_class = builders.controller_class(CONTROLLER, controller=CONTROLLER)
        await client.create(CLASSES, device_class, into=bytes)
        made = template(claim=builders.claim(builders.device_request(CONTROLLER)))
        await client.create(TEMPLATES, made, "default", into=bytes)
        stage = Stage(client, kubeconfig)
        settings = SchedulerSettings(pod_backoff=(0.05, 0.2))
        async with stage.pods, stage.claims, stage.records, Controllers(client, settings):
            yield stage
    await server.stop()


@pytest.mark.skipif("KILLS" not in os.environ, reason="make faults runs it")
@pytest.mark.timeout(90 + KILLS * 15)
async def test_no_allocation_leaks_and_the_hardware_holds_what_the_claims_say(stage: Stage) -> None:
    for _ in range(KILLS):
        await stage.make_pods()
        await stage.run_and_kill()
        await stage.end_pods(stage.random.randrange(3))
    process = await stage.start(lease_seconds=15)
    try:
        await stage.make_pods()
        await stage.until(lambda: all(pod.spec.node_name for pod in stage.pods.items.values()))
        await stage.until(lambda: stage.held == stage.allocated)
        await stage.end_pods(1000)
        await stage.until(lambda: not stage.pods.items and not stage.claims.items and not stage.records.items)
        assert stage.held == {}
        assert process.returncode is None
    finally:
        await end(process)
