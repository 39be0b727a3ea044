"""A plugin on real sockets, and a kubelet's side of them."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import grpc

from dradriver.model.resource.pool import Pool
from dradriver.node.config import PluginConfig
from dradriver.node.plugin import Plugin
from dradriver.publish import OnDropped, OnStatus
from dradriver.wire import dra_v1, registration_v1
from dradriver.wire.stubs import dra_v1_grpc, registration_v1_grpc
from tests.unit.node.world import NODE, FakeApi, LampDriver


class FakePublisher:
    """Stores the wanted pools and whether it runs."""

    def __init__(self, on_dropped: OnDropped, on_status: OnStatus) -> None:
        self.on_dropped = on_dropped
        self.wanted: Sequence[Pool] = ()
        self.running = asyncio.Event()
        self.is_wanted = asyncio.Event()

    def want(self, pools: Sequence[Pool]) -> None:
        self.wanted = pools
        self.is_wanted.set()

    async def run(self) -> None:
        self.running.set()
        await asyncio.Event().wait()


@dataclass
class Node:
    """The directories of a kubelet, and the hardware and API server that its plugins share."""

    root: Path
    hardware: dict[str, tuple[str, ...]] = field(default_factory=dict)
    api: FakeApi = field(default_factory=FakeApi)

    def config(self, **settings: Any) -> PluginConfig:
        return PluginConfig(
            NODE,
            plugins_dir=self.root / "plugins",
            registry_dir=self.root / "plugins_registry",
            cdi_dir=self.root / "cdi",
            boot_id="boot-1",
            **settings,
        )

    def plugin(self, driver: LampDriver | None = None, **settings: Any) -> Plugin:
        driver = driver or LampDriver(self.hardware)
        return Plugin(driver, self.api, self.config(**settings), publisher=FakePublisher)

    @asynccontextmanager
    async def running(self, driver: LampDriver | None = None, **settings: Any) -> AsyncIterator[Plugin]:
        plugin = self.plugin(driver, **settings)
        await plugin.start()
        try:
            yield plugin
        finally:
            await plugin.stop(5)


@asynccontextmanager
async def dial(path: str | Path) -> AsyncIterator[grpc.aio.Channel]:
    async with grpc.aio.insecure_channel(f"unix:{path}") as channel:
        yield channel


async def info(plugin: Plugin) -> registration_v1.PluginInfo:
    async with dial(plugin.sockets.registrar) as channel:
        stub = registration_v1_grpc.RegistrationStub(channel)
        return cast(registration_v1.PluginInfo, await stub.GetInfo(registration_v1.InfoRequest()))


async def notify(plugin: Plugin, error: str = "") -> None:
    status = registration_v1.RegistrationStatus(plugin_registered=not error, error=error)
    async with dial(plugin.sockets.registrar) as channel:
        await registration_v1_grpc.RegistrationStub(channel).NotifyRegistrationStatus(status)


def request(*claims: Any) -> dra_v1.NodePrepareResourcesRequest:
    return dra_v1.NodePrepareResourcesRequest(
        claims=[
            dra_v1.Claim(namespace=c.metadata.namespace, name=c.metadata.name, uid=c.metadata.uid)
            for c in claims
        ]
    )


async def prepare(plugin: Plugin, *claims: Any) -> dict[str, Any]:
    async with dial(plugin.sockets.service) as channel:
        response = await dra_v1_grpc.DRAPluginStub(channel).NodePrepareResources(request(*claims))
    return dict(response.claims)


async def unprepare(plugin: Plugin, *claims: Any) -> dict[str, Any]:
    async with dial(plugin.sockets.service) as channel:
        response = await dra_v1_grpc.DRAPluginStub(channel).NodeUnprepareResources(
            dra_v1.NodeUnprepareResourcesRequest(claims=request(*claims).claims)
        )
    return dict(response.claims)
