"""A driver for tests against API servers, with its plugin on a node without kubelet."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from dradriver import AllocatedDevice, Claim, Config, ContainerEdits, Driver, PreparedDevice
from dradriver.kube import CLAIMS, EVENTS, NODES, SLICES, AlreadyExists, Client, PatchKind
from dradriver.model.quantity import Quantity
from dradriver.model.resource.claim import DeviceResult, ResourceClaim
from dradriver.model.resource.counters import CounterConsumption, CounterSet
from dradriver.model.resource.device import Capacity, CapacityRequestPolicy, Device, Taint
from dradriver.model.resource.pool import Pool
from dradriver.model.resource.slices import ResourceSlice
from dradriver.node import Plugin, PluginConfig
from dradriver.node.reporting.pool_file import read_pools
from dradriver.publish import PoolState, PoolStatus
from dradriver.testing.builders import allocated, claim
from tests.e2e.bed.api_server_bed import NODE, ApiServerBed
from tests.unit.node.plugin_world import notify, prepare

DRIVER: Final = "rack.example.com"
ONE, TEN = Quantity("1"), Quantity("10")
COUNTERS: Final = CounterSet("gpu", {"memory": 4})
PARTS: Final = Pool(
    "parts",
    (
        *(Device(f"part-{n}", consumes_counters=[CounterConsumption("gpu", {"memory": 1})]) for n in range(2)),
        Device("plain"),
    ),
    (COUNTERS,),
)
GROUPED: Final = Pool(
    "grouped",
    (Device("mig", consumes_counters=[CounterConsumption("gpu", {"memory": 1}, ["mig"])]), Device("plain")),
    (COUNTERS,),
)
BOUND: Final = Pool(
    "bound",
    (Device("fabric", binding_conditions=["Ready"], binding_failure_conditions=["Failed"]), Device("plain")),
)
TAINTED: Final = Pool(
    "tainted", (Device("bad", taints=[Taint(key="example.com/broken", effect="NoSchedule")]), Device("plain"))
)
SHARED: Final = Pool(
    "shared",
    (
        Device(
            "nic",
            capacity={"bandwidth": Capacity(TEN, CapacityRequestPolicy(default=ONE, valid_values=[ONE, TEN]))},
            allow_multiple_allocations=True,
        ),
    ),
)
LISTED: Final = Pool("listed", (Device("numa", {"nodes": [0, 1], "model": "x"}),))
POOLS: Final = (PARTS, GROUPED, BOUND, TAINTED, SHARED, LISTED)


class Mode(Config):
    """Opaque parameters of a device."""

    api_version = "rack.example.com/v1"
    kind = "Mode"
    words: list[str] = []


class StaticDriver(Driver):
    """Offer the pools that the test sets."""

    name = DRIVER
    rescan_seconds = None
    configs = (Mode,)

    def __init__(self, *pools: Pool, fallback: Sequence[Pool] | None = None) -> None:
        self.pools = pools
        self.asked: list[Collection[str]] = []
        self._fallback = fallback

    def discover(self) -> Sequence[Pool]:
        """Return the pools."""
        return self.pools

    def fallback(self, dropped: Collection[str]) -> Sequence[Pool] | None:
        """Return the fallback that the test set."""
        self.asked.append(dropped)
        return self._fallback

    def prepare(self, claim: Claim) -> Mapping[AllocatedDevice, PreparedDevice]:
        """Return variables for the container, and data for the claim's status."""
        return {device: self._prepared(device) for device in claim.devices}

    def _prepared(self, device: AllocatedDevice) -> PreparedDevice:
        mode = device.config(Mode) or Mode()
        return PreparedDevice(
            ContainerEdits(env={"DEVICE": device.name, "WORDS": " ".join(mode.words)}),
            data={"name": device.name},
        )


@dataclass
class RunningPlugin:
    """A plugin that the kubelet has registered, and an administrator's view of the cluster.

    Attributes:
        plugin: the plugin.
        driver: the driver of the plugin.
        own: the client of the plugin.
        client: the administrator, who reads and writes in the version that the client chooses.
        folder: the node's folders.
    """

    plugin: Plugin
    driver: StaticDriver
    own: Client
    client: Client
    folder: Path

    async def wait_for_state(self, pool: str, state: PoolState) -> PoolStatus:
        """Wait until `dradriver node status` shows this state of a pool; return the status."""
        found: list[PoolStatus] = []

        async def there() -> bool:
            known = [each.status for each in read_pools(self.folder / "p" / DRIVER)]
            found[:] = [status for status in known if (status.pool, status.state) == (pool, state)]
            return bool(found)

        await until(there)
        return found[0]

    def offer(self, *pools: Pool) -> None:
        """Change the pools of the driver."""
        self.driver.pools = pools
        self.driver.rediscover()

    def prepared(self) -> set[str]:
        """Return the names of the prepared claims."""
        return {row.record.name for row in self.plugin.prepared()}

    async def prepare(self, claim: ResourceClaim) -> str:
        """Prepare a claim as the kubelet does; return the error, "" if there is none."""
        return str((await prepare(self.plugin, claim))[claim.metadata.uid].error)

    async def devices(self, pool: str) -> dict[str, Device]:
        """Return the devices of a pool on the server, by name."""
        listed = (await self.client.list(SLICES, into=ResourceSlice)).items
        return {d.name: d for item in listed if item.spec.pool.name == pool for d in item.spec.devices}

    async def wait_for_devices(self, pool: str, *names: str) -> None:
        """Wait until the server has exactly these devices of a pool."""
        await until(lambda: self._has(pool, set(names)))

    async def _has(self, pool: str, names: set[str]) -> bool:
        return set(await self.devices(pool)) == names

    async def wait_for_events(self, reason: str) -> list[str]:
        """Wait for events of the Node with this reason; return their messages."""
        found: list[str] = []

        async def there() -> bool:
            listed = (await self.client.list(EVENTS, "default", into=dict)).items
            found[:] = [event["message"] for event in listed if event["reason"] == reason]
            return bool(found)

        await until(there)
        return found

    async def allocate_claim(self, pool: str, device: str, name: str = "mine") -> ResourceClaim:
        """Create a claim that is allocated a device of a pool."""
        wanted = claim(name=name)
        request = wanted.spec.devices.requests[0].name
        result = DeviceResult(request=request, driver=DRIVER, pool=pool, device=device)
        wanted = allocated(wanted, result, node_name=NODE)
        await self.client.create(CLAIMS, wanted, "default", into=dict)
        consumer = {"resource": "pods", "name": "pod", "uid": "pod-uid"}
        status = {"status": {"allocation": wanted.status.allocation, "reservedFor": [consumer]}}
        return await self.client.patch(
            CLAIMS, name, "default", status, PatchKind.MERGE, into=ResourceClaim, subresource="status"
        )


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait until the condition is true."""
    async with asyncio.timeout(60):
        while not await condition():
            await asyncio.sleep(0.02)


@asynccontextmanager
async def run_plugin(
    bed: ApiServerBed,
    folder: Path,
    driver: StaticDriver,
    *,
    user: str = "admin",
    patience: float = 30,
    **settings: Any,
) -> AsyncIterator[RunningPlugin]:
    """Run a plugin on a bed whose server runs.

    Args:
        bed: the bed.
        folder: the parent of the node's folders.
        driver: its driver.
        user: the plugin's user, one of `credentials.USERS`.
        patience: the time limit of the plugin's client, in seconds.
        settings: settings of the plugin's configuration.
    """
    async with AsyncExitStack() as stack:
        admin, own = [
            await stack.enter_async_context(await Client.connect(bed.kubeconfig(who), timeout=seconds))
            for who, seconds in (("admin", 30), (user, patience))
        ]
        with suppress(AlreadyExists):
            await admin.create(NODES, {"metadata": {"name": NODE}}, into=dict)
        config = PluginConfig(
            NODE,
            plugins_dir=folder / "p",
            registry_dir=folder / "r",
            cdi_dir=folder / "cdi",
            boot_id="boot-1",
            **settings,
        )
        plugin = Plugin(driver, own, config)
        await plugin.start()
        try:
            await notify(plugin)
            yield RunningPlugin(plugin, driver, own, admin, folder)
        finally:
            await plugin.stop(1)
