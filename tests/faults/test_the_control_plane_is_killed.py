"""kill -9 of controllers and scheduler: no device is held twice, no claim is left behind.

Pods use devices that must be attached (KEP-5007), several claims, a shared claim, and extended resources
(KEP-5004). A controller reports devices as ready or failed at random. The test checks every version of every
claim. The number of kills is a third of KILLS in the environment (default 12); SEED repeats the random choices.
"""

import asyncio
import os
import random
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path

import pytest

from dradriver.cluster.apiserver import ApiServer
from dradriver.kube import CLAIMS, CLASSES, NODES, PODS, SLICES, TEMPLATES, Cache, Client, PatchKind
from dradriver.kube.errors import ApiError
from dradriver.model.core.workload import Pod
from dradriver.model.encoding.codec import rfc3339
from dradriver.model.resource.claim import ResourceClaim
from dradriver.testing import builders
from tests.seeds import choose_seed
from tests.unit.control.extended_pods import gpu_class, plugin_node
from tests.unit.control.extended_pods import pod as extended_pod
from tests.unit.control.world import ATTACHED, FAILED, NOW, slow_device, template

KILLS = int(os.environ.get("KILLS", "12")) // 3
SEED = choose_seed()
PROGRAM = Path(__file__).with_name("control_plane.py")
SECONDS = 30


class Stage:
    """A cluster whose control plane is killed."""

    def __init__(self, client: Client, kubeconfig: Path, seed: int) -> None:
        self.client = client
        self.kubeconfig = kubeconfig
        self.random = random.Random(seed)
        self.pods = Cache(client, PODS, Pod)
        self.claims = Cache(client, CLAIMS, ResourceClaim)
        self.changes = 0
        self.twice: list[str] = []
        self._held: dict[str, str] = {}
        self._names = 0
        self.claims.subscribe(self._look)
        self.pods.subscribe(self._count)

    def _count(self, *_: object) -> None:
        self.changes += 1

    def _look(self, _kind: object, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        self.changes += 1
        for result in old.results if old else ():
            if old is not None and self._held.get(str(result.id)) == old.metadata.uid:
                del self._held[str(result.id)]
        for result in new.results if new else ():
            holder = self._held.setdefault(str(result.id), new.metadata.uid if new else "")
            if new is not None and holder != new.metadata.uid:
                self.twice.append(f"{result.id}: {holder} and {new.ref}")

    async def start(self) -> asyncio.subprocess.Process:
        with (self.kubeconfig.parent / "log").open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, str(PROGRAM), str(self.kubeconfig)),
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
            )
        assert process.stdout is not None
        assert await process.stdout.readline() == b"connected\n"
        return process

    async def run_and_kill(self) -> None:
        """Start the control plane, let it do some of the work, and kill it."""
        process = await self.start()
        goal = self.changes + self.random.randrange(1, 30)
        with suppress(TimeoutError):
            async with asyncio.timeout(0.7):
                while self.changes < goal:
                    await asyncio.sleep(0.002)
        process.kill()
        await process.wait()

    async def make_pods(self) -> None:
        for _ in range(self.random.randrange(1, 4)):
            self._names += 1
            name = f"pod-{self._names}"
            made = self.random.choice(
                [
                    builders.pod(name=name, templates=["template"]),
                    builders.pod(name=name, templates=["template", "template"]),
                    builders.pod("shared", name=name),
                    builders.pod("shared", name=name, templates=["template"]),
                    extended_pod(name, gpu=1),
                ]
            )
            await self.client.create(PODS, made, "default", into=bytes)

    async def end_pods(self, most: int) -> None:
        names = [pod.metadata.name for pod in self.pods.items.values()]
        for name in self.random.sample(names, min(most, len(names))):
            await self.client.delete(PODS, name, "default", grace_seconds=0)

    async def set_conditions(self) -> None:
        """Set conditions of devices as a binding driver would."""
        while True:
            for claim in list(self.claims.items.values()):
                if any(result.binding_conditions for result in claim.results) and not claim.status.devices:
                    with suppress(ApiError):
                        await self._tell(claim, FAILED if self.random.random() < 0.2 else ATTACHED)
            await asyncio.sleep(0.01)

    async def _tell(self, claim: ResourceClaim, kind: str) -> None:
        condition = {
            "type": kind,
            "status": "True",
            "reason": "Told",
            "message": "",
            "lastTransitionTime": rfc3339(NOW),
        }
        entries = [
            {"driver": r.driver, "pool": r.pool, "device": r.device, "conditions": [condition]}
            for r in claim.results
        ]
        meta = {"resourceVersion": claim.metadata.resource_version}
        body = {"metadata": meta, "status": {"devices": entries}}
        await self.client.patch(
            *(CLAIMS, claim.metadata.name, "default", body, PatchKind.MERGE), into=bytes, subresource="status"
        )

    async def until(self, done: Callable[[], bool]) -> None:
        async with asyncio.timeout(SECONDS):
            while not done():
                await asyncio.sleep(0.02)


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    print(f"SEED={SEED}")
    server = ApiServer(tmp_path / "api")
    await server.start()
    kubeconfig = tmp_path / "kubeconfig"
    await asyncio.to_thread(server.write_kubeconfig, kubeconfig)
    async with await Client.connect(str(kubeconfig)) as client:
        made = Stage(client, kubeconfig, SEED)
        for name in ("node-1", "node-2"):
            await client.create(NODES, builders.node(name), into=bytes)
            devices = [*(slow_device(f"slow-{i}") for i in range(3)), builders.device("quick")]
            await client.create(SLICES, builders.slice_(*devices, node_name=name), into=bytes)
        await client.create(NODES, plugin_node("node-3", 1), into=bytes)
        await client.create(CLASSES, gpu_class(), into=bytes)
        await client.create(TEMPLATES, template(), "default", into=bytes)
        await client.create(CLAIMS, builders.claim(name="shared"), "default", into=bytes)
        async with made.pods, made.claims:
            telling = asyncio.create_task(made.set_conditions())
            yield made
            telling.cancel()
            await asyncio.gather(telling, return_exceptions=True)
    await server.stop()


@pytest.mark.timeout(60 + KILLS * 5)
async def test_no_device_is_held_twice_and_no_claim_is_left_behind(stage: Stage) -> None:
    for _ in range(KILLS):
        await stage.make_pods()
        await stage.run_and_kill()
        await stage.end_pods(stage.random.randrange(3))
        assert not stage.twice
    process = await stage.start()
    await stage.end_pods(1000)
    await stage.until(lambda: not stage.pods.items and set(stage.claims.items) == {"default/shared"})
    await stage.until(lambda: stage.claims.items["default/shared"].allocation is None)
    process.kill()
    await process.wait()
    assert not stage.twice
