"""An API server, and caches of its objects."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import TypeVar

import pytest

from dradriver.cluster.apiserver import ApiServer
from dradriver.control.runtime.caches import Caches
from dradriver.kube import CLASSES, NODES, PODS, SLICES, TEMPLATES, Client
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import ResourceClaim
from dradriver.testing import builders
from tests.caches import until_current
from tests.unit.control.world import template

T = TypeVar("T", Pod, ResourceClaim)


class Lab:
    """An API server with two nodes with two devices each, a class and a template."""

    def __init__(self, server: ApiServer, folder: Path, client: Client, seen: Caches) -> None:
        self.server = server
        self.folder = folder
        self.client = client
        self.seen = seen

    async def pods(self, *pods: Pod) -> None:
        for pod in pods:
            await self.client.create(PODS, pod, "default", into=dict)

    async def change_gates(self, **gates: bool) -> None:
        """Restart the server with other feature gates, and the same state and address."""
        await self.server.stop()
        self.server = ApiServer(self.folder, feature_gates=gates)
        await self.server.start()

    async def until(self, done: Callable[[Mapping[str, Pod], Mapping[str, ResourceClaim]], bool]) -> None:
        """Wait until the objects are as wanted, or until the test's time limit."""
        changed = asyncio.Event()
        stop = [cache.subscribe(lambda *_: changed.set()) for cache in (self.seen.pods, self.seen.claims)]
        while not done(self.seen.pods.items, self.seen.claims.items):
            changed.clear()
            await changed.wait()
        for each in stop:
            each()

    async def until_bound(self, count: int) -> None:
        """Wait until so many pods have a node, and until their claims are seen too."""
        await self.until(lambda pods, _: sum(bool(pod.spec.node_name) for pod in pods.values()) == count)
        await self.until_current()

    async def until_current(self) -> None:
        """Wait until the pods and claims are seen as they are now."""
        await until_current(self.client, self.seen.pods, self.seen.claims)

    def held(self) -> list[str]:
        """Return the devices of all allocated claims."""
        return [str(result.id) for claim in self.seen.claims.items.values() for result in claim.results]


@pytest.fixture
async def lab(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Lab]:
    """A lab. The optional parameter is the feature gates of the API server."""
    server = ApiServer(tmp_path / "api", feature_gates=getattr(request, "param", None))
    await server.start()
    await asyncio.to_thread(server.write_kubeconfig, tmp_path / "kubeconfig")
    async with await Client.connect(str(tmp_path / "kubeconfig")) as client, Caches(client) as seen:
        for name in ("node-1", "node-2"):
            devices = [builders.device(f"device-{number}") for number in range(2)]
            await client.create(NODES, builders.node(name), into=dict)
            await client.create(SLICES, builders.slice_(*devices, node_name=name), into=dict)
        await client.create(CLASSES, builders.device_class(), into=dict)
        await client.create(TEMPLATES, template(), "default", into=dict)
        made = Lab(server, tmp_path / "api", client, seen)
        yield made
    await made.server.stop()
