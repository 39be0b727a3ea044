"""A simulated fabric that outlives processes, a driver for it, and a cluster."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dradriver.allocator import Features
from dradriver.cluster.apiserver import ApiServer, Faults
from dradriver.control.controllers import Controllers
from dradriver.control.runtime.caches import Caches
from dradriver.control.settings import SchedulerSettings
from dradriver.driver import AllocatedDevice, AttachError, Attachment, BindingClaim, BindingDriver
from dradriver.kube import CLAIMS, CLASSES, NODES, PODS, TEMPLATES, Client, PatchKind
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import ResourceClaim
from dradriver.model.resource.device import Device
from dradriver.model.resource.pool import Pool
from dradriver.runner.binding import BindingProcess
from dradriver.testing import builders
from tests.caches import until_current
from tests.unit.control.world import template

DRIVER = builders.DRIVER
POOL = "fabric"
ATTACHED = f"{DRIVER}/attached"
READY = f"{DRIVER}/ready"
FAILED = f"{DRIVER}/attach-failed"


def gpu(name: str, *conditions: str) -> Device:
    return Device(
        name,
        binds_to_node=True,
        binding_conditions=list(conditions or (ATTACHED,)),
        binding_failure_conditions=[FAILED],
    )


@dataclass
class Hardware:
    """The attached devices. A second attachment of a device is an assertion error.

    Attributes:
        attached: (claim UID, node) by device.
        bad: devices that cannot be attached.
        log: the calls.
        open: `attach` waits until this is set.
    """

    attached: dict[str, tuple[str, str]] = field(default_factory=dict)
    bad: set[str] = field(default_factory=set)
    log: list[tuple[str, str]] = field(default_factory=list)
    open: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.open.set()

    def attach(self, device: str, uid: str, node: str) -> None:
        self.log.append(("attach", device))
        holder = self.attached.get(device, (uid, node))
        assert holder == (uid, node), f"{device} is attached for {holder}"
        if device in self.bad:
            raise AttachError("no link", reason="NoLink")
        self.attached[device] = (uid, node)

    def detach(self, device: str, uid: str) -> None:
        self.log.append(("detach", device))
        if self.attached.get(device, ("", ""))[0] == uid:
            del self.attached[device]


class FabricDriver(BindingDriver):
    name = DRIVER
    rescan_seconds = None

    def __init__(self, hardware: Hardware, devices: Sequence[Device] = (gpu("gpu-0"), gpu("gpu-1"))) -> None:
        self.hardware = hardware
        self.pools = [Pool(name=POOL, devices=tuple(devices), all_nodes=True)]

    def discover(self) -> Sequence[Pool]:
        return self.pools

    async def attach(self, claim: BindingClaim, device: AllocatedDevice) -> None:
        await self.hardware.open.wait()
        self.hardware.attach(device.name, claim.uid, claim.node)

    async def detach(self, attachment: Attachment) -> None:
        self.hardware.detach(attachment.device, attachment.claim_uid)


@asynccontextmanager
async def laboratory(folder: Path, **gates: bool) -> AsyncIterator["Lab"]:
    """An API server with two nodes, a class and a template."""
    async with restarted(folder, **gates) as lab:
        for name in ("node-1", "node-2"):
            await lab.client.create(NODES, builders.node(name), into=dict)
        await lab.client.create(CLASSES, builders.device_class(), into=dict)
        await lab.client.create(TEMPLATES, template(), "default", into=dict)
        yield lab


@asynccontextmanager
async def restarted(folder: Path, **gates: bool) -> AsyncIterator["Lab"]:
    """An API server with the objects of an earlier one in the folder, and with other feature gates."""
    server = ApiServer(folder / "api", feature_gates=gates)
    await server.start()
    kubeconfig = folder / "kubeconfig"
    await asyncio.to_thread(server.write_kubeconfig, kubeconfig)
    try:
        async with await Client.connect(str(kubeconfig)) as client, Caches(client) as seen:
            yield Lab(str(kubeconfig), client, seen, Features.of_gates(gates), server.faults)
    finally:
        await server.stop()


class Lab:
    """An API server, and methods that create objects and wait for changes.

    Attributes:
        seen: caches of the API server's objects.
        kubeconfig: for processes of drivers.
        features: the features of the scheduler.
        faults: makes requests to an embedded API server fail or wait.
    """

    def __init__(
        self,
        kubeconfig: str,
        client: Client,
        seen: Caches,
        features: Features,
        faults: Faults | None = None,
    ) -> None:
        self.faults = faults or Faults()
        self.features = features
        self.kubeconfig = kubeconfig
        self.client = client
        self.seen = seen

    @asynccontextmanager
    async def scheduler(self) -> AsyncIterator[Controllers]:
        async with (
            await Client.connect(self.kubeconfig) as client,
            Controllers(
                client, SchedulerSettings(features=self.features, pod_backoff=(0.05, 0.2))
            ) as controllers,
        ):
            yield controllers

    @asynccontextmanager
    async def driver(self, driver: BindingDriver) -> AsyncIterator[BindingProcess]:
        """Run the driver's process; at the end it is canceled, as after a kill."""
        async with await Client.connect(self.kubeconfig) as client:
            process = BindingProcess(driver, client)
            task = asyncio.create_task(process.run(asyncio.Event()))
            try:
                yield process
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def pod(self, name: str = "pod-1", **settings: Any) -> None:
        """Create a pod and a claim with its name."""
        await self.client.create(CLAIMS, builders.claim(name=name, **settings), "default", into=dict)
        await self.client.create(PODS, builders.pod(name, name=name), "default", into=dict)

    async def delete_pod(self, name: str = "pod-1") -> None:
        await self.client.delete(PODS, name, "default", grace_seconds=0)

    async def set_condition(self, name: str, kind: str, status: str = "True") -> None:
        """Set a condition of the claim's devices, as an external controller does."""
        claim = self.claim(name)
        condition = {"type": kind, "status": status, "reason": "Test", "message": ""}
        condition["lastTransitionTime"] = "2026-01-01T00:00:00Z"
        entries = [
            {"driver": r.driver, "pool": r.pool, "device": r.device, "conditions": [condition]}
            for r in claim.results
        ]
        body = {"status": {"devices": entries}}
        await self.client.patch(
            *(CLAIMS, name, "default", body, PatchKind.MERGE), into=dict, subresource="status"
        )

    def claim(self, name: str = "pod-1") -> ResourceClaim:
        return self.seen.claims.items[f"default/{name}"]

    async def until(self, done: Callable[[Mapping[str, Pod], Mapping[str, ResourceClaim]], bool]) -> None:
        """Wait until the objects are as wanted, or until the test's time limit."""
        changed = asyncio.Event()
        caches = (self.seen.pods, self.seen.claims, self.seen.slices)
        stop = [cache.subscribe(lambda *_: changed.set()) for cache in caches]
        try:
            while not done(self.seen.pods.items, self.seen.claims.items):
                changed.clear()
                await changed.wait()
        finally:
            for each in stop:
                each()

    async def bound(self, name: str = "pod-1") -> str:
        """Wait until the pod has a node, and no claim is seen late; return the device of the pod."""
        await self.until(
            lambda pods, _: f"default/{name}" in pods and bool(pods[f"default/{name}"].spec.node_name)
        )
        await until_current(self.client, self.seen.claims)
        return self.claim(name).results[0].device

    async def waits(self, name: str = "pod-1") -> None:
        """Wait until the pod's claim is allocated and its node nominated."""
        ref = f"default/{name}"
        await self.until(
            lambda pods, claims: (
                ref in claims
                and claims[ref].allocation is not None
                and ref in pods
                and bool(pods[ref].status.nominated_node_name)
            )
        )

    def tainted(self) -> set[str]:
        """Return the devices that are published with a taint."""
        return {name for name, device in self.devices().items() if device.taints}

    def devices(self) -> dict[str, Device]:
        """Return the published devices by name."""
        slices = self.seen.slices.items.values()
        return {device.name: device for item in slices for device in item.spec.devices}
