"""A node without a cluster: an API server in a dict, a driver with hardware in a dict, real files."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, cast
from uuid import uuid4

import msgspec

from dradriver.driver import AllocatedDevice, Claim, Config, Driver, DriverContext, PreparedDevice
from dradriver.kube.client import Listing, PatchKind
from dradriver.kube.errors import NotFound
from dradriver.kube.resources import EVENTS, SLICES, Resource
from dradriver.model.cdi import ContainerEdits
from dradriver.model.core.meta import ObjectMeta
from dradriver.model.core.node_selector import NodeSelector
from dradriver.model.encoding.codec import builtins
from dradriver.model.resource.claim import (
    Allocation,
    AllocationConfig,
    ClaimStatus,
    ConsumerReference,
    DeviceAllocation,
    DeviceResult,
    OpaqueConfig,
    ResourceClaim,
)
from dradriver.model.resource.device import Device
from dradriver.model.resource.pool import Pool
from dradriver.model.resource.slices import ResourceSlice
from dradriver.node.claims.context import ClaimContext, Stores
from dradriver.node.claims.lookup import NodeClaims
from dradriver.node.claims.prepare import prepare
from dradriver.node.claims.rebuild import Rebuilder
from dradriver.node.claims.reconcile import Reconciler
from dradriver.node.claims.unprepare import unprepare
from dradriver.node.crash_points import Observer, observe_nothing
from dradriver.node.devices.inventory import DiscoveredDevices
from dradriver.node.devices.shared_pools import look_up_pools
from dradriver.node.driver_calls import DriverCalls
from dradriver.node.files.cdi import CdiDirectory, CdiNames
from dradriver.node.files.claim_files import ClaimFiles, DeviceAnswer
from dradriver.node.files.metadata import MetadataDirectory
from dradriver.node.reporting.background_failures import BackgroundFailures
from dradriver.node.reporting.metrics import NodeMetrics
from dradriver.node.state.locks import ClaimLocks
from dradriver.node.state.records import ClaimRef, PreparedClaimRecord
from dradriver.node.state.rows import Rows
from dradriver.node.state.store import StateStore

T = TypeVar("T")

Answers: TypeAlias = dict[AllocatedDevice, PreparedDevice | ContainerEdits]

DRIVER = "lamp.example.com"
NODE = "node-1"


class LampConfig(Config):
    """The color of a lamp."""

    api_version = "lamp.example.com/v1"
    kind = "LampConfig"
    color: str = "white"


class LampDriver(Driver):
    """Its hardware is a dict that outlives it: which claim lights which lamps."""

    name = DRIVER
    configs = (LampConfig,)

    def __init__(self, hardware: dict[str, tuple[str, ...]], devices: Sequence[Device] = ()) -> None:
        self.hardware = hardware
        self.devices = devices or [Device(f"lamp-{n}") for n in range(4)]
        self.calls: list[str] = []
        self.answer: Callable[[AllocatedDevice], PreparedDevice | ContainerEdits] = lambda device: (
            ContainerEdits(env={f"LAMP_{device.name.replace('-', '_').upper()}": "on"})
        )
        self.gate: asyncio.Event | None = None
        self.entered = asyncio.Event()
        self.failure: Exception | None = None

    def discover(self) -> Sequence[Pool]:
        return [Pool(NODE, devices=tuple(self.devices))]

    async def prepare(self, claim: Claim) -> Answers:
        self.calls.append(f"prepare {claim.name}")
        self.entered.set()
        if self.gate is not None:
            await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        self.hardware[claim.uid] = tuple(device.name for device in claim.devices)
        return {device: self.answer(device) for device in claim.devices}

    async def unprepare(self, claim: Claim) -> None:
        self.calls.append(f"unprepare {claim.name}")
        if self.failure is not None:
            raise self.failure
        self.hardware.pop(claim.uid, None)

    def prepared_claims(self) -> Collection[str]:
        return set(self.hardware)


class FakeApi:
    """The part of the API server that the node side uses."""

    def __init__(self) -> None:
        self.claims: dict[tuple[str, str], ResourceClaim] = {}
        self.slices: list[ResourceSlice] = []
        self.failure: Exception | None = None
        self.failures: dict[str, Exception] = {}
        self.patches: list[tuple[PatchKind, Any]] = []
        self.events: list[dict[str, Any]] = []
        self.event_came = asyncio.Event()
        self.patch_failures: list[Exception] = []

    def add(self, claim: ResourceClaim) -> ResourceClaim:
        self.claims[claim.metadata.namespace, claim.metadata.name] = claim
        return claim

    def delete(self, claim: ResourceClaim) -> None:
        del self.claims[claim.metadata.namespace, claim.metadata.name]

    async def get(self, resource: Resource, name: str, namespace: str = "", *, into: type[T]) -> T:
        await asyncio.sleep(0)
        if failure := self.failure or self.failures.get(name):
            raise failure
        try:
            claim = self.claims[namespace, name]
        except KeyError:
            raise NotFound(f"{name} not found", status=404) from None
        return cast(T, builtins(claim) if into is dict else claim)

    async def list(
        self, resource: Resource, namespace: str = "", *, into: type[T], fields: str = ""
    ) -> Listing[T]:
        await asyncio.sleep(0)
        if self.failure is not None:
            raise self.failure
        if resource is SLICES:
            assert fields == f"spec.driver={DRIVER},spec.nodeName="
            return Listing(cast(list[T], self.slices), "1")
        return Listing(cast(list[T], list(self.claims.values())), "1")

    async def create(self, resource: Resource, body: object, namespace: str = "", *, into: type[T]) -> T:
        """Events only."""
        assert resource is EVENTS
        event = builtins(body)
        assert event["metadata"]["namespace"] == namespace
        self.events.append(event)
        self.event_came.set()
        return into()

    async def event(self, reason: str) -> dict[str, Any]:
        """The first event with this reason, as soon as there is one."""
        while True:
            if found := [event for event in self.events if event["reason"] == reason]:
                return found[0]
            self.event_came.clear()
            await self.event_came.wait()

    async def patch(
        self,
        resource: Resource,
        name: str,
        namespace: str,
        body: object,
        kind: PatchKind,
        *,
        into: type[T],
        subresource: str = "",
        field_manager: str = "",
        force: bool = False,
    ) -> T:
        await asyncio.sleep(0)
        if resource is EVENTS:
            (event,) = (each for each in self.events if each["metadata"]["name"] == name)
            event |= cast(dict[str, Any], body)
            return into()
        self.patches.append((kind, body))
        if self.patch_failures:
            raise self.patch_failures.pop(0)
        return cast(T, body) if into is dict else into()


def allocated(
    name: str,
    *devices: str | DeviceResult,
    uid: str = "",
    node: str = NODE,
    parameters: bytes | None = None,
    pod_claim: str = "",
) -> ResourceClaim:
    """A claim that is allocated and reserved; devices are names of the node's pool."""
    results = [
        device
        if isinstance(device, DeviceResult)
        else DeviceResult(request=f"request-{n}", driver=DRIVER, pool=NODE, device=device)
        for n, device in enumerate(devices)
    ]
    config = [
        AllocationConfig(source="FromClaim", opaque=OpaqueConfig(DRIVER, msgspec.Raw(parameters)))
        for _ in range(parameters is not None)
        if parameters is not None
    ]
    annotations = {"resource.kubernetes.io/pod-claim-name": pod_claim} if pod_claim else {}
    return ResourceClaim(
        metadata=ObjectMeta(
            name=name,
            namespace="default",
            uid=uid or str(uuid4()),
            resource_version="1",
            annotations=annotations,
        ),
        status=ClaimStatus(
            allocation=Allocation(
                devices=DeviceAllocation(results=results, config=config),
                node_selector=NodeSelector.for_node(node),
            ),
            reserved_for=[ConsumerReference(resource="pods", name="pod", uid=str(uuid4()))],
        ),
    )


def ref(claim: ResourceClaim) -> ClaimRef:
    return ClaimRef(claim.metadata.uid, claim.metadata.namespace, claim.metadata.name)


@dataclass
class Process:
    """One process of the plugin: the parts that end with it."""

    driver: LampDriver
    state: StateStore
    files: ClaimFiles
    locks: ClaimLocks
    claims: ClaimContext
    rebuilder: Rebuilder
    reconciler: Reconciler
    calls: DriverCalls

    async def prepare(self, claim: ResourceClaim, seconds: float | None = None) -> list[DeviceAnswer]:
        return await prepare(self.claims, claim, seconds)

    async def unprepare(self, ref: ClaimRef, seconds: float | None = None, **settings: Any) -> None:
        await unprepare(self.claims, ref, seconds, **settings)

    async def rows(self) -> list[PreparedClaimRecord]:
        return await self.state.read(Rows.all)

    async def die(self) -> None:
        """End the process: work in flight is lost, the kernel releases its locks."""
        await self.claims.drain(0)
        self.claims.close()
        self.calls.close()
        await self.state.close()
        self.locks.close()


@dataclass
class World:
    """The parts that outlive a process: files, hardware, the API server, the boot."""

    root: Path
    hardware: dict[str, tuple[str, ...]] = field(default_factory=dict)
    api: FakeApi = field(default_factory=FakeApi)
    boot_id: str = "boot-1"

    @property
    def cdi_dir(self) -> Path:
        return self.root / "cdi"

    @property
    def state_file(self) -> Path:
        return self.root / "state.db"

    def spec(self, claim: ResourceClaim) -> dict[str, Any]:
        """The claim's CDI spec as it is on disk."""
        text = (self.cdi_dir / CdiNames(DRIVER).file(claim.metadata.uid)).read_bytes()
        return cast(dict[str, Any], msgspec.json.decode(text))

    def specs(self) -> set[str]:
        """UIDs of the claims that have a CDI spec."""
        return CdiDirectory(self.cdi_dir, CdiNames(DRIVER)).uids()

    async def start(
        self,
        *,
        driver: LampDriver | None = None,
        observe: Observer = observe_nothing,
        complete: bool = True,
        deadline: float = 40.0,
    ) -> Process:
        """Starts a process on this node, without sockets; `complete` skips the rebuilding of a new state."""
        driver = driver or LampDriver(self.hardware)
        driver.set_context(DriverContext(NODE))
        calls = DriverCalls(driver)
        inventory = DiscoveredDevices(driver.discover())
        state = StateStore(self.state_file, self.boot_id)
        await state.open()
        files = ClaimFiles(
            CdiDirectory(self.cdi_dir, CdiNames(DRIVER)),
            MetadataDirectory(self.root / "metadata", DRIVER),
            observe,
        )
        locks = ClaimLocks(self.root / "claims.lock")
        claims = ClaimContext(
            calls=calls,
            node=NODE,
            inventory=inventory,
            stores=Stores(state, files, locks),
            observe=observe,
            deadline=deadline,
            look_up_pools=look_up_pools(self.api, DRIVER),
        )
        failures = BackgroundFailures(NodeMetrics(DRIVER))
        known = NodeClaims(self.api, calls, NODE, failures)
        rebuilder = Rebuilder(claims, known, failures)
        reconciler = Reconciler(claims, known, rebuilder, failures)
        if complete:
            await state.write(Rows.set_complete)
            claims.state_complete.set()
        return Process(driver, state, files, locks, claims, rebuilder, reconciler, calls)

    @asynccontextmanager
    async def running(self, **settings: Any) -> AsyncIterator[Process]:
        """A process that ends afterwards."""
        process = await self.start(**settings)
        try:
            yield process
        finally:
            await process.die()
