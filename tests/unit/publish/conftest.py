"""A real (embedded) API server with one node, and publishers that are stopped at the end."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dradriver.cluster.apiserver import ApiServer
from dradriver.kube import NODES, SLICES, Cache, Client
from dradriver.model.core.meta import OwnerReference
from dradriver.model.resource.pool import Pool
from dradriver.model.resource.slices import ResourceSlice
from dradriver.publish import DroppedField, NodeRef, OnDropped, PoolStatus, PublishController

DRIVER = "d.example.com"


def offers(*pools: Pool) -> OnDropped:
    """Return the callback of a driver that offers these pools as its fallback."""

    async def on_dropped(_pool: str, _dropped: frozenset[DroppedField]) -> Sequence[Pool]:
        return pools

    return on_dropped


class Reports:
    """Records every status that a publisher reports; tests wait for the expected one."""

    def __init__(self) -> None:
        self.all: list[PoolStatus] = []
        self._more = asyncio.Event()

    def __call__(self, status: PoolStatus) -> None:
        self.all.append(status)
        self._more.set()

    async def until(self, condition: Callable[[PoolStatus], bool]) -> PoolStatus:
        """Return the next status that meets the condition, including earlier ones."""
        async with asyncio.timeout(40):
            while True:
                while self.all:
                    status = self.all.pop(0)
                    if condition(status):
                        return status
                self._more.clear()
                await self._more.wait()


@dataclass
class World:
    """An API server, its state folder, and the test's own client."""

    server: ApiServer
    client: Client
    folder: Path
    kubeconfig: str

    async def slices(self) -> list[ResourceSlice]:
        listed = (await self.client.list(SLICES, into=ResourceSlice)).items
        return sorted(listed, key=lambda item: item.metadata.name)

    async def devices(self) -> list[str]:
        return [device.name for item in await self.slices() for device in item.spec.devices]

    async def until(self, condition: Callable[[list[ResourceSlice]], bool]) -> list[ResourceSlice]:
        """Wait until the slices on the server meet the condition; return them by name."""
        changed = asyncio.Event()
        async with asyncio.timeout(40), Cache(self.client, SLICES, ResourceSlice) as cache:
            cache.subscribe(lambda *_: changed.set())
            await cache.wait_synced()
            while not condition(list(cache.items.values())):
                changed.clear()
                await changed.wait()
            return sorted(cache.items.values(), key=lambda item: item.metadata.name)

    async def regate(self, **gates: bool) -> None:
        """Restart the server with other feature gates, and the same state and address."""
        await self.server.stop()
        self.server = ApiServer(self.folder, feature_gates=gates)
        await self.server.start()

    @asynccontextmanager
    async def publisher(self, **options: Any) -> AsyncIterator[PublishController]:
        """Run a publisher of the node, with its own connection. `timeout` is the limit of its requests."""
        node, timeout = options.pop("node", NodeRef("node")), options.pop("timeout", 20)
        async with await Client.connect(self.kubeconfig, timeout=timeout) as client:
            publisher = PublishController(client, DRIVER, node=node, **options)
            task = asyncio.create_task(publisher.run())
            try:
                yield publisher
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def add_node(self, name: str = "node") -> OwnerReference:
        node: Mapping[str, Any] = await self.client.create(NODES, {"metadata": {"name": name}}, into=dict)
        uid = node["metadata"]["uid"]
        return OwnerReference(api_version="v1", kind="Node", name=name, uid=uid, controller=True)


@asynccontextmanager
async def a_world(folder: Path, **gates: bool) -> AsyncIterator[World]:
    async with AsyncExitStack() as stack:
        server = ApiServer(folder / "api", feature_gates=gates)
        await server.start()
        kubeconfig = folder / "kubeconfig"
        server.write_kubeconfig(kubeconfig, "admin")
        client = await stack.enter_async_context(await Client.connect(str(kubeconfig), timeout=20))
        world = World(server, client, folder / "api", str(kubeconfig))
        try:
            await world.add_node()
            yield world
        finally:
            await world.server.stop()


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with a_world(tmp_path) as made:
        yield made
