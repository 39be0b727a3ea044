"""The processes of both drivers of a fabric, on two nodes with simulated hardware in any cluster."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final, TypeAlias

import yaml

from dradriver.conditions.releases.release_check import ReleaseCheck
from dradriver.kube import CLASSES, CONFIG_MAPS, NODES, SLICES, AlreadyExists, Client, PatchKind
from dradriver.kube.definitions import install_definitions
from dradriver.kube.leader import Leader
from dradriver.kube.leading import new_identity
from dradriver.model.core.lease import LeaseTiming
from dradriver.node import PluginConfig
from dradriver.node.usage.note import note_name
from dradriver.runner.binding_node import BindingPlugin
from dradriver.runner.controllers import BindingControllerProcess
from dradriver.runner.leading import LeadingProcess
from dradriver.testing import builders
from dradriver_fabric_cxl import FabricCxlDriver, FabricPoolsDriver
from dradriver_fabric_cxl.fabric import FabricPace
from dradriver_fabric_cxl.names import DRIVER
from dradriver_fabric_cxl.pools.simulated import SimulatedFabricOfNodes
from tests.drivers.fabric_cxl.both_halves.hardware_of_halves import HardwareOfHalves
from tests.unit.conditions.fabric import Lab
from tests.unit.node.plugin_world import notify

Json: TypeAlias = dict[str, Any]

CLASSES_FILES: Final = [
    Path(__file__).parents[4] / "drivers/fabric_cxl/manifests" / name
    for name in ("classes.yaml", "controller-classes.yaml")
]
MEMORY: Final = "cxl-memory.example.com"
ACCELERATOR: Final = "cxl-accelerator.example.com"
PACE: Final = FabricPace(attach=120, poll=0.05, look=0.05, appear=0.5)
_ROOM: Final = {"pods": "20", "cpu": "8", "memory": "8Gi"}
_LOOK_SECONDS: Final = 0.05


class ProcessesOfHalves(HardwareOfHalves):
    """The processes of both drivers, and the objects of the cluster that they need.

    Args:
        lab: the cluster.
        folder: for the simulation and the folders of the nodes.
        name: the first part of the names of the nodes.
        seconds: maximum time of each wait.
        prepare_deadline: seconds after which a prepare is answered even if its work continues.

    Attributes:
        client, folder, lab, name: see above.
        plugins: the running plugins, by node and UID.
    """

    def __init__(
        self, lab: Lab, folder: Path, name: str, seconds: float, *, prepare_deadline: float = 40
    ) -> None:
        super().__init__(folder / "simulation", (f"{name}-a", f"{name}-b"))
        self._prepare_deadline = prepare_deadline
        self.lab = lab
        self.client = lab.client
        self.name = name
        self.folder = folder
        self.plugins: dict[str, BindingPlugin] = {}
        self._seconds = seconds
        self._processes: dict[str, AsyncExitStack] = {}

    async def start_nodes(self) -> None:
        """Create the nodes and start the driver on each; return when both have reported."""
        await install_definitions(self.client)
        for file in CLASSES_FILES:
            for body in yaml.safe_load_all(file.read_text()):
                with suppress(AlreadyExists):
                    await self.client.create(CLASSES, body, into=dict)
        for node in self.nodes:
            labels = {"kubernetes.io/hostname": node, "case": self.name}
            await self.client.create(NODES, builders.node(node, **labels), into=dict)
            status = {"capacity": _ROOM, "allocatable": _ROOM, "nodeInfo": {"bootID": "boot-1"}}
            body = {"status": status}
            await self.client.patch(NODES, node, "", body, PatchKind.MERGE, into=dict, subresource="status")
            await self.start_node(node)
        await self.until(self._have_reported)

    async def start_node(self, node: str, uid: str = "first") -> None:
        """Start the driver on a node, in a pod of this UID."""
        await self._start(f"{node}/{uid}", self._run_node(node, uid))

    async def start_pools(
        self, uid: str = "first", driver: Callable[[], FabricPoolsDriver] | None = None
    ) -> None:
        """Start the pool driver, as a candidate for its Lease."""
        await self._start(f"pools/{uid}", self._run_pools(driver or self._make_pools_driver))

    async def stop(self, process: str) -> None:
        """Stop a process as SIGTERM does: `NODE/UID` or `pools/UID`."""
        self.plugins.pop(process, None)
        await self._processes.pop(process).aclose()

    async def close(self) -> None:
        """Stop all processes, the latest first, and remove the objects from the cluster."""
        for process in list(reversed(self._processes)):
            await self.stop(process)
        for each in (await self.client.list(SLICES, fields=f"spec.driver={DRIVER}", into=dict[str, Any])).items:
            await self.client.delete(SLICES, each["metadata"]["name"])
        for node in self.nodes:
            await self.client.delete(CONFIG_MAPS, note_name(DRIVER, node), "default")
            await self.client.delete(NODES, node)

    async def until(self, done: Callable[[], bool | Awaitable[bool]]) -> None:
        """Wait until something holds."""
        async with asyncio.timeout(self._seconds):
            while True:
                result = done()
                if result if isinstance(result, bool) else await result:
                    return
                await asyncio.sleep(_LOOK_SECONDS)

    async def _start(self, process: str, running: Any) -> None:
        stack = AsyncExitStack()
        plugin = await stack.enter_async_context(running)
        self._processes[process] = stack
        if plugin is not None:
            self.plugins[process] = plugin

    @asynccontextmanager
    async def _run_node(self, node: str, uid: str) -> AsyncIterator[BindingPlugin]:
        folder = self.folder / node
        (folder / "registry").mkdir(parents=True, exist_ok=True)
        driver = FabricCxlDriver(f"{{waitSeconds: 480, simulator: {{folder: {self.simulation}}}}}")
        driver.simulate = "always"
        config = PluginConfig(
            node,
            plugins_dir=folder / "plugins",
            registry_dir=folder / "registry",
            cdi_dir=folder / "cdi",
            boot_id="boot-1",
            pod_uid=uid,
            prepare_deadline=self._prepare_deadline,
        )
        async with await Client.connect(self.lab.kubeconfig) as client:
            plugin = BindingPlugin(driver, client, config)
            await plugin.start()
            await notify(plugin)
            try:
                yield plugin
            finally:
                await plugin.stop(5)

    @asynccontextmanager
    async def _run_pools(self, make: Callable[[], FabricPoolsDriver]) -> AsyncIterator[None]:
        stop = asyncio.Event()
        async with await Client.connect(self.lab.kubeconfig) as client:
            leader = Leader(client, DRIVER, "default", new_identity(), LeaseTiming())
            driver, guarded = make(), client.with_guard(leader.limit_write)
            lease = f"default/{DRIVER}"
            process = BindingControllerProcess(driver, driver, guarded, lease=lease, guard=leader.check)
            task = asyncio.create_task(LeadingProcess(process, leader).run(stop, 5.0))
            try:
                yield
            finally:
                stop.set()
                await task

    def _make_pools_driver(self) -> FabricPoolsDriver:
        return FabricPoolsDriver("sizes: [1Gi]", SimulatedFabricOfNodes(self.simulation, pace=PACE))

    async def _have_reported(self) -> bool:
        return set(self.nodes) <= set(await ReleaseCheck(self.client, DRIVER).read_reports())
