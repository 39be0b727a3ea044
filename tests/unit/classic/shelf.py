"""A shelf of slots that outlives processes, a controller driver for it, and a cluster."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import dradriver as dra
from dradriver.cluster.apiserver import ApiServer
from dradriver.kube import (
    CLAIMS,
    CLASSES,
    CONTROLLER_ALLOCATIONS,
    EVENTS,
    NODES,
    PODS,
    SCHEDULING_CONTEXTS,
    Cache,
    Client,
    PatchKind,
)
from dradriver.kube.definitions import install_definitions
from dradriver.model.classic.allocation_records import ControllerAllocation
from dradriver.model.classic.names import API_VERSION, GROUP, finalizer
from dradriver.model.classic.scheduling import PodSchedulingContext, SchedulingSpec
from dradriver.model.core.meta import ObjectMeta, OwnerReference
from dradriver.model.core.workload import Pod
from dradriver.model.resource.claim import ResourceClaim
from dradriver.runner.controllers import ControllerProcess
from dradriver.testing import builders

CONTROLLER = "shelf.example.com"
PLUGIN = "slot.example.com"
CLASS = "slots"
FINALIZER = finalizer(CONTROLLER)
NODES_OF_TEST = ("node-1", "node-2")

T = TypeVar("T")


class SlotClass(dra.Config):
    """Parameters of a class."""

    api_version = "shelf.example.com/v1"
    kind = "SlotClass"
    color: str = ""


class SlotClaim(dra.Config):
    """Parameters of a claim."""

    api_version = "shelf.example.com/v1"
    kind = "SlotClaim"
    slots: int = 1


@dataclass
class Shelf:
    """The hardware: slots on nodes. A claim has slots of one node only.

    Attributes:
        free: the number of slots by node.
        held: (node, slots) by UID of the claim.
        log: the calls of the driver, by method and UID.
        open: `allocate` waits until this is set.
        broken: the methods that raise, by name.
    """

    free: dict[str, int] = field(default_factory=lambda: dict.fromkeys(NODES_OF_TEST, 8))
    held: dict[str, tuple[str, int]] = field(default_factory=dict)
    log: list[tuple[str, str]] = field(default_factory=list)
    open: asyncio.Event = field(default_factory=asyncio.Event)
    broken: dict[str, Exception] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.open.set()

    def use(self, node: str) -> int:
        return sum(slots for held, slots in list(self.held.values()) if held == node)

    def take(self, uid: str, node: str, slots: int) -> None:
        self.log.append(("allocate", uid))
        if uid in self.held:
            assert self.held[uid] == (node, slots), f"{uid} has {self.held[uid]}, not {node}"
            return
        if self.use(node) + slots > self.free[node]:
            raise dra.AllocationError(f"node {node} has not {slots} free slots")
        self.held[uid] = (node, slots)

    def give(self, uid: str) -> None:
        self.log.append(("deallocate", uid))
        self.held.pop(uid, None)

    def calls(self, method: str) -> list[str]:
        return [uid for name, uid in self.log if name == method]


class ShelfDriver(dra.ControllerDriver):
    """Allocates slots."""

    name = CONTROLLER
    class_configs: ClassVar[Sequence[type[dra.Config]]] = (SlotClass,)
    claim_configs: ClassVar[Sequence[type[dra.Config]]] = (SlotClaim,)

    def __init__(self, shelf: Shelf) -> None:
        self.shelf = shelf

    async def allocate(
        self, claims: Sequence[dra.PendingClaim], node: str | None
    ) -> Mapping[str, dra.ControllerAllocationResult | dra.AllocationError]:
        await self.begin(claims)
        await self.shelf.open.wait()
        if error := self.shelf.broken.get("allocate"):
            raise error
        found: dict[str, dra.ControllerAllocationResult | dra.AllocationError] = {}
        for claim in claims:
            place = node or self._place(claim)
            try:
                self.shelf.take(claim.uid, place, slots_of(claim))
            except dra.AllocationError as error:
                found[claim.uid] = error
            else:
                found[claim.uid] = self.result(claim, place)
        return found

    async def begin(self, claims: Sequence[dra.PendingClaim]) -> None:
        """Called first in `allocate`; tests override it."""

    def _place(self, claim: dra.PendingClaim) -> str:
        held = self.shelf.held.get(claim.uid)
        return held[0] if held else max(self.shelf.free, key=lambda n: self.shelf.free[n] - self.shelf.use(n))

    def result(self, claim: dra.PendingClaim, node: str) -> dra.ControllerAllocationResult:
        devices = [
            dra.ControllerDevice(request.name, PLUGIN, f"{CONTROLLER}/{node}", f"slot-{claim.uid[:8]}-{index}")
            for index, request in enumerate(claim.requests)
        ]
        selector = dra.NodeSelector.for_node(node)
        return dra.ControllerAllocationResult(devices, {PLUGIN: node.encode()}, node_selector=selector)

    async def deallocate(self, claim: dra.RecordedClaim) -> None:
        if error := self.shelf.broken.get("deallocate"):
            raise error
        self.shelf.give(claim.uid)

    def unsuitable_nodes(
        self, pod: dra.PendingPod, claims: Sequence[dra.PendingClaim], nodes: Sequence[str]
    ) -> Mapping[str, Collection[str]]:
        if error := self.shelf.broken.get("unsuitable_nodes"):
            raise error
        needed = sum(map(slots_of, claims))
        full = [n for n in nodes if self.shelf.use(n) + needed > self.shelf.free.get(n, 0)]
        return {claim.uid: full for claim in claims}

    async def allocations(self) -> Collection[str]:
        return list(self.shelf.held)


def slots_of(claim: dra.PendingClaim) -> int:
    wanted = (request.claim_parameters for request in claim.requests)
    return sum(each.slots if isinstance(each, SlotClaim) else 1 for each in wanted)


@asynccontextmanager
async def laboratory(folder: Path) -> AsyncIterator["ShelfLab"]:
    """An API server with the definitions, two nodes and a class of the controller."""
    server = ApiServer(folder / "api")
    await server.start()
    kubeconfig = folder / "kubeconfig"
    await asyncio.to_thread(server.write_kubeconfig, kubeconfig)
    async with await Client.connect(str(kubeconfig)) as client:
        await install_definitions(client)
        for name in NODES_OF_TEST:
            await client.create(NODES, builders.node(name), into=dict)
        await client.create(CLASSES, class_of(), into=dict)
        async with ShelfLab(str(kubeconfig), client, server) as lab:
            yield lab
    await server.stop()


def class_of(name: str = CLASS, controller: str = CONTROLLER, **fields: object) -> dict[str, Any]:
    """Return a class of a controller."""
    parameters = {"apiVersion": API_VERSION, "kind": "ControllerClass", "controllerName": controller, **fields}
    return {
        "metadata": {"name": name},
        "spec": {
            "selectors": [{"cel": {"expression": "false"}}],
            "config": [{"opaque": {"driver": GROUP, "parameters": parameters}}],
        },
    }


def claim_of(
    name: str = "claim-1", *, immediate: bool = False, device_class: str = CLASS, **fields: object
) -> dict[str, Any]:
    """Return a claim for one slot."""
    mode = {"allocationMode": "Immediate"} if immediate else {}
    parameters = {"apiVersion": API_VERSION, "kind": "ControllerClaim", **mode, **fields}
    requests = [{"name": "slot", "exactly": {"deviceClassName": device_class}}]
    config = [{"opaque": {"driver": GROUP, "parameters": parameters}}] if mode or fields else []
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"devices": {"requests": requests, "config": config}},
    }


class ShelfLab:
    """An API server, and methods that create objects and wait for changes.

    Attributes:
        server: the API server, for faults.
        client: for the test's own writes.
        claims, pods, contexts, records: caches.
    """

    def __init__(self, kubeconfig: str, client: Client, server: ApiServer) -> None:
        self.kubeconfig = kubeconfig
        self.client = client
        self.server = server
        self.claims = Cache(client, CLAIMS, ResourceClaim)
        self.pods = Cache(client, PODS, Pod)
        self.contexts = Cache(client, SCHEDULING_CONTEXTS, PodSchedulingContext)
        self.records = Cache(client, CONTROLLER_ALLOCATIONS, ControllerAllocation)

    async def __aenter__(self) -> "ShelfLab":
        for cache in (self.claims, self.pods, self.contexts, self.records):
            await cache.__aenter__()
            await cache.wait_synced()
        return self

    async def __aexit__(self, *_: object) -> None:
        for cache in (self.claims, self.pods, self.contexts, self.records):
            await cache.__aexit__(None, None, None)

    @asynccontextmanager
    async def driver(
        self, driver: dra.ControllerDriver, lease: str = "", client: type[Client] = Client
    ) -> AsyncIterator[ControllerProcess]:
        """Run the driver's process; at the end it is canceled, as after a kill."""
        async with await client.connect(self.kubeconfig) as session:
            process = ControllerProcess(driver, session, lease)
            task = asyncio.create_task(process.run(asyncio.Event()))
            try:
                yield process
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def create_claim(self, name: str = "claim-1", **settings: Any) -> ResourceClaim:
        stored = await self.client.create(CLAIMS, claim_of(name, **settings), "default", into=ResourceClaim)
        self.claims.apply_written(stored)
        return stored

    async def create_pod(self, *claims: str, name: str = "pod-1", node: str = "") -> Pod:
        pod = builders.pod(*claims, name=name, node_name=node)
        stored = await self.client.create(PODS, pod, "default", into=Pod)
        self.pods.apply_written(stored)
        return stored

    async def negotiate(self, pod: Pod, node: str = "", potential: Sequence[str] = NODES_OF_TEST) -> None:
        """Create the context of a pod, or select another node in it, as the scheduler does."""
        meta = pod.metadata
        owner = OwnerReference(api_version="v1", kind="Pod", name=meta.name, uid=meta.uid)
        context = PodSchedulingContext(
            metadata=ObjectMeta(name=meta.name, namespace=meta.namespace, owner_references=[owner]),
            spec=SchedulingSpec(selected_node=node, potential_nodes=list(potential)),
        )
        await self.client.patch(
            *(SCHEDULING_CONTEXTS, meta.name, meta.namespace, context, PatchKind.APPLY),
            into=PodSchedulingContext,
            field_manager="scheduler",
            force=True,
        )

    async def release(self, name: str = "claim-1") -> None:
        """Empty `reservedFor`, as the resource claim controller does when the pod has ended."""
        body: dict[str, Any] = {"status": {"reservedFor": []}}
        await self.client.patch(
            *(CLAIMS, name, "default", body, PatchKind.MERGE), into=dict, subresource="status"
        )

    async def clear(self, name: str = "claim-1") -> None:
        """Clear the allocation, as kube-scheduler's PostFilter does."""
        body: dict[str, Any] = {"status": {"allocation": None, "reservedFor": []}}
        await self.client.patch(
            *(CLAIMS, name, "default", body, PatchKind.MERGE), into=dict, subresource="status"
        )

    def claim(self, name: str = "claim-1") -> ResourceClaim | None:
        return self.claims.items.get(f"default/{name}")

    async def until(self, done: Callable[[], T | None]) -> T:
        """Wait until the result is true, and return it; until the test's time limit."""
        changed = asyncio.Event()
        stop = [
            self.claims.subscribe(lambda *_: changed.set()),
            self.pods.subscribe(lambda *_: changed.set()),
            self.contexts.subscribe(lambda *_: changed.set()),
            self.records.subscribe(lambda *_: changed.set()),
        ]
        try:
            while not (result := done()):
                changed.clear()
                await changed.wait()
            return result
        finally:
            for each in stop:
                each()

    async def allocated(self, name: str = "claim-1") -> ResourceClaim:
        """Wait until the claim is allocated."""
        return await self.until(lambda: c if (c := self.claim(name)) and c.allocation else None)

    async def idle(self, name: str = "claim-1") -> ResourceClaim:
        """Wait until the claim has neither allocation nor finalizer nor record."""
        return await self.until(
            lambda: c if (c := self.claim(name)) and not c.allocation and self.is_clean(c) else None
        )

    def is_clean(self, claim: ResourceClaim) -> bool:
        return FINALIZER not in claim.metadata.finalizers and not self.record(claim)

    def record(self, claim: ResourceClaim) -> ControllerAllocation | None:
        return self.records.items.get(f"default/{claim.metadata.uid}")

    async def gone(self, name: str = "claim-1") -> None:
        """Wait until the claim and all records are gone."""
        await self.until(lambda: self.claim(name) is None and not self.records.items)

    async def answer(self, pod: str = "pod-1") -> list[list[str]]:
        """Wait until the controller has answered, and return the unsuitable nodes of each claim."""
        ref = f"default/{pod}"
        context = await self.until(
            lambda: c if (c := self.contexts.items.get(ref)) and c.status.resource_claims else None
        )
        return [each.unsuitable_nodes for each in context.status.resource_claims]

    async def event(self, reason: str) -> str:
        """Wait until an Event with the reason exists, and return its message."""
        while True:
            listing = await self.client.list(EVENTS, "default", into=dict)
            for item in listing.items:
                if item["reason"] == reason:
                    return str(item["message"])
            await asyncio.sleep(0.02)
