"""A plugin against a real (embedded) API server, and what of its pools can be seen from outside."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from dradriver.driver import Claim, Driver
from dradriver.driver.base import Preparation
from dradriver.kube import CLAIMS, EVENTS, Client, PatchKind
from dradriver.model.resource.claim import DeviceResult, ResourceClaim
from dradriver.model.resource.pool import Pool
from dradriver.node import Plugin, PluginConfig
from dradriver.node.reporting.pool_file import KnownPool, read_pools
from dradriver.publish import PoolState
from dradriver.testing.builders import allocated, claim
from tests.unit.node.plugin_world import notify
from tests.unit.publish.conftest import DRIVER, World


class PoolDriver(Driver):
    """Offers the pools of the test."""

    name = DRIVER
    rescan_seconds = None

    def __init__(self, *pools: Pool) -> None:
        self.pools: Sequence[Pool] = pools

    def discover(self) -> Sequence[Pool]:
        return self.pools

    def prepare(self, claim: Claim) -> Preparation | Awaitable[Preparation]:
        raise NotImplementedError


def config(folder: Path, **settings: Any) -> PluginConfig:
    return PluginConfig(
        "node",
        plugins_dir=folder / "p",
        registry_dir=folder / "r",
        cdi_dir=folder / "cdi",
        boot_id="boot-1",
        **settings,
    )


@asynccontextmanager
async def registered(world: World, folder: Path, driver: Driver, **settings: Any) -> AsyncIterator[Plugin]:
    """A plugin that the kubelet has registered."""
    async with await Client.connect(world.kubeconfig) as client:
        plugin = Plugin(driver, client, config(folder, **settings))
        await plugin.start()
        try:
            await notify(plugin)
            yield plugin
        finally:
            await plugin.stop(1)


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    while not await condition():
        await asyncio.sleep(0.01)


async def reported(folder: Path, pool: str, state: PoolState) -> KnownPool:
    """The pool's entry in the status file, as soon as it is in this state."""
    data_dir = folder / "p" / DRIVER
    found: list[KnownPool] = []

    async def there() -> bool:
        found[:] = [known for known in read_pools(data_dir) if known.status.pool == pool]
        return any(known.status.state is state for known in found)

    await until(there)
    return found[0]


async def events(world: World, reason: str) -> list[dict[str, Any]]:
    """The events of the Node with this reason, as soon as there are any."""
    found: list[dict[str, Any]] = []

    async def there() -> bool:
        listed = (await world.client.list(EVENTS, "default", into=dict)).items
        found[:] = [event for event in listed if event["reason"] == reason]
        return bool(found)

    await until(there)
    assert {event["involvedObject"]["kind"] for event in found} == {"Node"}
    return found


def sample(plugin: Plugin, name: str, **labels: str) -> float | None:
    return plugin.metrics.registry.get_sample_value(f"dradriver_node_{name}", {"driver": DRIVER} | labels)


async def allocate(client: Client, device: str) -> ResourceClaim:
    """Allocates a device of the pool `gpus` to the claim `mine`."""
    wanted = claim(name="mine")
    request = wanted.spec.devices.requests[0].name
    result = DeviceResult(request=request, driver=DRIVER, pool="gpus", device=device)
    wanted = allocated(wanted, result, node_name="node")
    await client.create(CLAIMS, wanted, "default", into=dict)
    consumer = {"resource": "pods", "name": "pod", "uid": "pod-uid"}
    status = {"status": {"allocation": wanted.status.allocation, "reservedFor": [consumer]}}
    return await client.patch(
        CLAIMS, "mine", "default", status, PatchKind.MERGE, into=ResourceClaim, subresource="status"
    )
