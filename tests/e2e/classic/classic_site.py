"""A namespace of a real cluster with a class of a controller, and kubelet plugins of its devices."""

import asyncio
import contextlib
import shutil
import signal
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import aiohttp

from dradriver.kube import CLAIMS, CLASSES, CONTROLLER_ALLOCATIONS, NAMESPACES, PODS, SLICES, Client, PatchKind
from dradriver.model.classic.parameters import AllocationTime
from dradriver.model.encoding.codec import builtins
from dradriver.model.resource.claim import DeviceResult, ResourceClaim
from dradriver.testing import builders
from tests.e2e.bed.cluster import Cluster
from tests.e2e.bed.nodes.node import Node
from tests.e2e.chart.chart_accounts import chart_accounts, write_account_kubeconfig
from tests.e2e.classic.controller_writes import CONTROLLER, ControllerWrites
from tests.e2e.classic.link_fabric import LinkFabric
from tests.e2e.node.site import WAIT, DriverProcess, Site, card_container
from tests.e2e.node.site_setup import create_driver_account, delete_driver_account, write_driver_kubeconfig
from tests.ports import reserve_port

__all__ = ["FPGA", "NIC", "POOL", "ClassicSite", "LinkControllerProcess", "create_classic_site", "device"]

Json = dict[str, Any]
FPGA: Final = "fpga.example.com"
NIC: Final = "nic.example.com"
POOL: Final = f"{CONTROLLER}/rack-1"
_PROGRAM: Final = Path(__file__).with_name("link_driver.py")


def device(driver: str, name: str = "device-0") -> DeviceResult:
    """Return a device of a controller's allocation; its pool is in no slice."""
    return DeviceResult(request="device", driver=driver, pool=POOL, device=name)


class LinkControllerProcess(LinkFabric):
    """A controller in its own process, as a Deployment's pod runs it.

    Args:
        site: the folders and the namespace.
        name: the controller's name.
        plugins: the kubelet plugins of its devices.
        kubeconfig: the kubeconfig of its account.
    """

    def __init__(self, site: "ClassicSite", name: str, plugins: Sequence[str], kubeconfig: Path) -> None:
        super().__init__(site.hardware, name, plugins)
        self._site, self._kubeconfig = site, kubeconfig
        self._port = reserve_port()
        self.log = site.folder / f"controller-{name}.log"
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start the process, and wait until it is the leader."""
        command = self.command(self._kubeconfig, self._site.namespace, self._port)
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *command, env=self.environment, stdout=log, stderr=log, start_new_session=True
            )
        await self._site.until(f"ready controller {self.name}", self._ready)

    async def _ready(self) -> bool:
        url = f"http://127.0.0.1:{self._port}/readyz"
        with contextlib.suppress(aiohttp.ClientError):
            async with aiohttp.ClientSession() as session, session.get(url) as answer:
                return answer.status == 200
        return False

    async def end(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End the process with a signal."""
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(how)
            await self._process.wait()


@dataclass
class ClassicSite(Site):
    """The objects that tests of classic DRA use.

    Attributes:
        cluster: the cluster.
        plugins: the names of the kubelet plugins that were started, each with its nodes.
        controllers: the controllers that were started, by the name of their class.
        accounts: the accounts of the controllers, which the end of the test deletes.
    """

    cluster: Cluster = field(kw_only=True)
    plugins: dict[str, list[Node]] = field(default_factory=dict)
    controllers: dict[str, LinkControllerProcess] = field(default_factory=dict)
    accounts: ExitStack = field(default_factory=ExitStack)

    @property
    def writes(self) -> ControllerWrites:
        """Return the controller's writes."""
        return ControllerWrites(self.client, self.namespace)

    @property
    def class_name(self) -> str:
        """Return the name of the class of the controller."""
        return self.namespace

    async def start_plugin(self, driver: str, node: Node | None = None) -> DriverProcess:
        """Start a kubelet plugin with the rights of a driver on its node, and wait until it is ready."""
        node = node or self.node
        label = f"{driver.partition('.')[0]}-{node.name}"
        own = self.folder / f"{label}.kubeconfig"
        await write_driver_kubeconfig(self.client, self.cluster, self.namespace, node.name, own)
        process = DriverProcess(
            self, label, "", program=_PROGRAM, node=node, kubeconfig=own, LINK_DRIVER=driver
        )
        self.drivers.append(process)
        await process.start()
        self.plugins.setdefault(driver, []).append(node)
        await self.until(f"ready plugin {driver}", process.ready)
        return process

    async def start_controller(self, label: str, plugins: Sequence[str], **free: int) -> LinkControllerProcess:
        """Start a controller with a class of its own and the rights of the chart; it ends with the test.

        Args:
            label: the first part of the names of controller and class.
            plugins: the kubelet plugins of its devices.
            free: the number of links of each node (`__` stands for a hyphen).
        """
        name, class_name = f"{label}.{self.namespace}.example.com", f"{label}-{self.namespace}"
        kubeconfig = await asyncio.to_thread(self._create_account, label, name, plugins)
        process = LinkControllerProcess(self, name, plugins, kubeconfig)
        process.set_free(**free)
        self.controllers[class_name] = process
        await self.client.create(CLASSES, builders.controller_class(class_name, controller=name), into=bytes)
        await process.start()
        return process

    def _create_account(self, label: str, name: str, plugins: Sequence[str]) -> Path:
        """Create the account of a controller, and return its kubeconfig."""
        bed = self.cluster.bed
        driver = {"enabled": True, "kind": "controller", "driverName": name, "kubeletPlugins": plugins}
        values = {f"drivers.{label}": driver}
        self.accounts.enter_context(chart_accounts(bed, self.namespace, self.namespace, values))
        return write_account_kubeconfig(bed, self.namespace, f"{self.namespace}-{label}")

    async def classic_claim(
        self, name: str, mode: AllocationTime = "Immediate", *, label: str = ""
    ) -> ResourceClaim:
        """Create a claim of the class without a process, or of the class of a controller that was started."""
        claim = builders.claim(
            builders.device_request(f"{label}-{self.namespace}" if label else self.class_name),
            name=name,
            namespace=self.namespace,
            configs=[builders.controller_claim(mode)],
        )
        body = builtins(claim)
        body["metadata"].pop("uid")
        return await self.client.create(CLAIMS, body, self.namespace, into=ResourceClaim)

    async def classic_pod(self, name: str, *claims: str, script: str = WAIT, **more: Any) -> Json:
        """Create a pod that uses claims."""
        used = [{"name": each} for each in claims]
        container = card_container(script, resources={"claims": used})
        uses = [{"name": each, "resourceClaimName": each} for each in claims]
        return await self.create_pod_with_spec(
            name, {"containers": [container], "resourceClaims": uses, **more}
        )

    def prepared(self, driver: str, node: Node | None = None) -> dict[str, Sequence[str]]:
        """Return the digests of the handles of each claim that a plugin has prepared, by UID."""
        folder = self.hardware / (node or self.node).name / driver
        found: dict[str, Sequence[str]] = {}
        for each in folder.glob("*"):
            with contextlib.suppress(FileNotFoundError):  # unprepared meanwhile
                found[each.name] = each.read_text().split()
        return found

    async def until_released(self, driver: str) -> None:
        """Wait until a plugin has unprepared all claims."""

        async def released() -> bool:
            return not self.prepared(driver)

        await self.until(f"unprepare of {driver}", released)


@asynccontextmanager
async def create_classic_site(cluster: Cluster, folder: Path) -> AsyncIterator[ClassicSite]:
    """Create the namespace and the class; remove everything at the end."""
    async with await Client.connect(str(cluster.kubeconfig())) as client:
        namespace = f"classic-{uuid.uuid4().hex[:8]}"
        site = ClassicSite(client, cluster.node(), folder, cluster.kubeconfig(), namespace, cluster=cluster)
        site.hardware.mkdir()
        await client.create(NAMESPACES, {"metadata": {"name": namespace}}, into=bytes)
        await create_driver_account(client, namespace, FPGA, NIC)
        await client.create(CLASSES, builders.controller_class(namespace, controller=CONTROLLER), into=bytes)
        try:
            yield site
        finally:
            await _remove(site)


async def _remove(site: ClassicSite) -> None:
    """Remove pods while the plugins run, claims while the controllers run, then all other objects."""
    await _remove_pods(site)
    if site.controllers:
        await _remove_claims_of_controllers(site)
    for process in site.drivers:
        await process.end()
    for driver, nodes in site.plugins.items():
        for node in nodes:
            shutil.rmtree(node.plugins / driver, ignore_errors=True)
        for item in (await site.client.list(SLICES, fields=f"spec.driver={driver}", into=Json)).items:
            await site.client.delete(SLICES, item["metadata"]["name"])
    for claim in (await site.client.list(CLAIMS, site.namespace, into=ResourceClaim)).items:
        await _remove_claim(site, claim.metadata.name)
    for record in (await site.client.list(CONTROLLER_ALLOCATIONS, site.namespace, into=Json)).items:
        await site.client.delete(CONTROLLER_ALLOCATIONS, record["metadata"]["name"], site.namespace)
    for name in (site.class_name, *site.controllers):
        await site.client.delete(CLASSES, name)
    await delete_driver_account(site.client, site.namespace)
    await site.client.delete(NAMESPACES, site.namespace)


async def _remove_pods(site: ClassicSite) -> None:
    for pod in (await site.client.list(PODS, site.namespace, into=Json)).items:
        await site.delete_pod(pod["metadata"]["name"])

    async def no_pods() -> bool:
        return not (await site.client.list(PODS, site.namespace, into=Json)).items

    await site.until("removal of the pods", no_pods)


async def _remove_claims_of_controllers(site: ClassicSite) -> None:
    """Delete the claims, wait until the controllers have deallocated them, and end the controllers."""
    for claim in (await site.client.list(CLAIMS, site.namespace, into=ResourceClaim)).items:
        await site.client.delete(CLAIMS, claim.metadata.name, site.namespace)

    async def no_claims() -> bool:
        return not (await site.client.list(CLAIMS, site.namespace, into=Json)).items

    await site.until("removal of the claims by their controllers", no_claims)
    for controller in site.controllers.values():
        await controller.end()
    await asyncio.to_thread(site.accounts.close)


async def _remove_claim(site: ClassicSite, name: str) -> None:
    """Remove a claim without a controller."""
    status: Json = {"status": {"allocation": None, "reservedFor": None}}
    free: Json = {"metadata": {"finalizers": None}}
    patch = partial(site.client.patch, CLAIMS, name, site.namespace, into=bytes)
    await patch(status, PatchKind.MERGE, subresource="status")
    await patch(free, PatchKind.MERGE)
    await site.client.delete(CLAIMS, name, site.namespace)
