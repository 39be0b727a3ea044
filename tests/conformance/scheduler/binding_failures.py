"""Failures while a pod waits for its devices (KEP-5007), and the state in the end.

One table for every scheduler: each case is a pod with a driver, a class and two nodes of its own, so all cases
run side by side on one cluster. The first attach of a case stops half done until it is canceled, or fails; the
case's fault happens meanwhile; every later attach works. In the end the pod has a node or its condition has the
reason, no claim is terminating, and exactly the devices of the bound pod's claims are attached. After the
deletion of the pod, none is.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import product
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import dradriver as dra
from dradriver.kube import CLAIMS, CLASSES, NODES, PODS, SLICES, ApiError, Cache, Client, PatchKind
from dradriver.model.core.workload import Pod
from dradriver.model.encoding.codec import rfc3339
from dradriver.model.resource.claim import ResourceClaim
from dradriver.node import PluginConfig
from dradriver.runner.binding import BindingProcess
from dradriver.runner.binding_node import BindingPlugin
from dradriver.testing import builders
from tests.unit.node.plugin_world import notify

Json = dict[str, Any]

_ROOM: Final = {"pods": "20", "cpu": "8", "memory": "8Gi"}
_LOOK_SECONDS: Final = 0.05


class Fault(StrEnum):
    FAILURE = "a device fails"
    TIMEOUT = "the scheduler's timeout"
    NODE_GONE = "the node is deleted"
    SIBLING = "another claim of the pod fails"
    DELETED = "a user deletes the claim"
    RESTART = "driver and scheduler are restarted"


class Use(StrEnum):
    OWN = "own claim"
    SPECIAL = "special claim"


class Setter(StrEnum):
    """The component that sets the binding conditions."""

    BINDING = "BindingDriver"
    NODE = "NodeBindingDriver"
    FOREIGN = "no finalizer"


class Case(NamedTuple):
    fault: Fault
    use: Use
    setter: Setter

    def __str__(self) -> str:
        return f"{self.fault}, {self.use}, {self.setter}"

    @property
    def name(self) -> str:
        """The name of its pod; its other objects begin with it."""
        return f"case-{CASES.index(self)}"

    @property
    def refusals(self) -> tuple[str, ...]:
        """Return the reasons that the pod's condition may have in the end; none for a pod that runs."""
        if (self.fault, self.use) == (Fault.DELETED, Use.OWN):
            # kube-scheduler does not try a pod again whose claim is missing, and leaves the last failure there.
            return (f'resourceclaim "{self.name}" not found', "device binding timeout")
        if (self.fault, self.setter) == (Fault.NODE_GONE, Setter.NODE):
            return ("nodes are available",)
        return ()


CASES: Final = [Case(*each) for each in product(Fault, Use, Setter)]


class Site(Protocol):
    """A cluster with a scheduler and a claim controller."""

    @property
    def client(self) -> Client:
        """An administrator's session."""

    @property
    def kubeconfig(self) -> str:
        """The administrator's."""

    async def restart_scheduler(self) -> None:
        """Ends it and starts it again."""


@dataclass
class Hardware:
    """The attached claims by device; the hardware survives the processes of its driver.

    Attributes:
        attached: claim UIDs by device.
        fault: what happens at the first attach; None once that is over.
        began: the first attach began.
    """

    fault: Fault | None
    attached: dict[str, str] = field(default_factory=dict)
    began: asyncio.Event = field(default_factory=asyncio.Event)

    async def attach(self, device: str, uid: str) -> None:
        assert self.attached.get(device, uid) == uid, f"{device} is attached for another claim"
        self.attached[device] = uid
        if self.fault is None:
            return
        try:
            self.began.set()
            if self.fault is Fault.FAILURE:
                raise dra.AttachError("no link", reason="NoLink")
            await asyncio.get_running_loop().create_future()
        finally:
            self.fault = None

    async def detach(self, device: str, uid: str) -> None:
        if self.attached.get(device) == uid:
            del self.attached[device]


def _devices(driver: str, *, bind: bool = True) -> tuple[dra.Device, ...]:
    return tuple(
        dra.Device(
            name,
            binds_to_node=bind or None,
            binding_conditions=[f"{driver}/ready"],
            binding_failure_conditions=[f"{driver}/failed"],
        )
        for name in ("gpu-0", "gpu-1")
    )


def binding_driver(case_name: str, hardware: Hardware) -> dra.BindingDriver:
    """Return a driver of a fabric."""

    class Fabric(dra.BindingDriver):
        name = f"{case_name}.example.com"
        rescan_seconds = None

        def discover(self) -> Sequence[dra.Pool]:
            return [dra.Pool(case_name, devices=_devices(self.name), all_nodes=True)]

        async def attach(self, claim: dra.BindingClaim, device: dra.AllocatedDevice) -> None:
            await hardware.attach(device.name, claim.uid)

        async def detach(self, attachment: dra.Attachment) -> None:
            await hardware.detach(attachment.device, attachment.claim_uid)

    return Fabric()


def node_driver(case_name: str, hardware: Hardware) -> dra.NodeBindingDriver:
    """Return a driver of a node's own devices; a change to a device stays until the next attach."""

    class Cards(dra.NodeBindingDriver):
        name = f"{case_name}.example.com"
        rescan_seconds = None

        def discover(self) -> Sequence[dra.Pool]:
            return [dra.Pool(devices=_devices(self.name, bind=False))]

        async def attach(self, claim: dra.BindingClaim, device: dra.AllocatedDevice) -> None:
            hardware.attached.clear()
            await hardware.attach(device.name, claim.uid)

        def prepare(self, claim: dra.Claim) -> Mapping[dra.AllocatedDevice, dra.PreparedDevice]:
            return {device: dra.PreparedDevice() for device in claim.devices}

    return Cards()


class Foreign:
    """Controllers of another project, which set conditions and leave no finalizer.

    Args:
        client: the API server.
        claims: all claims.
    """

    def __init__(self, client: Client, claims: Cache[ResourceClaim]) -> None:
        self._client = client
        self._claims = claims
        self._hardware: dict[str, Hardware] = {}
        self._first: dict[str, object] = {}

    def serve(self, driver: str, hardware: Hardware) -> None:
        """Set the conditions of a driver's devices from now on."""
        self._hardware[driver] = hardware

    async def run(self) -> None:
        """Run until canceled."""
        while True:
            for claim in list(self._claims.items.values()):
                for result in claim.results:
                    if result.driver in self._hardware and not claim.status.devices:
                        await self._tell(claim, result.driver)
            await asyncio.sleep(_LOOK_SECONDS)

    async def _tell(self, claim: ResourceClaim, driver: str) -> None:
        hardware = self._hardware[driver]
        assert claim.allocation is not None
        allocation = (claim.metadata.uid, claim.allocation.allocation_timestamp)
        hardware.began.set()
        if hardware.fault and self._first.setdefault(driver, allocation) == allocation:
            if hardware.fault not in {Fault.FAILURE, Fault.SIBLING}:
                return
            kind = "failed"
        else:
            kind = "ready"
        condition = {"type": f"{driver}/{kind}", "status": "True", "reason": "Set", "message": ""}
        condition["lastTransitionTime"] = rfc3339(claim.allocation.allocation_timestamp)  # type: ignore[arg-type]
        entries = [
            {"driver": r.driver, "pool": r.pool, "device": r.device, "conditions": [condition]}
            for r in claim.results
        ]
        meta = {"resourceVersion": claim.metadata.resource_version}
        body = {"metadata": meta, "status": {"devices": entries}}
        with suppress(ApiError):  # it changed meanwhile
            await self._client.patch(
                *(CLAIMS, claim.metadata.name, "default", body, PatchKind.MERGE),
                into=dict,
                subresource="status",
            )


class Stage:
    """The common state of all cases of a run."""

    def __init__(self, site: Site, folder: Path, seconds: float) -> None:
        self.site = site
        self.client = site.client
        self.folder = folder
        self.seconds = seconds
        self.pods = Cache(site.client, PODS, Pod)
        self.claims = Cache(site.client, CLAIMS, ResourceClaim)
        self.foreign = Foreign(site.client, self.claims)

    async def until(self, trouble: Callable[[], str]) -> str:
        """Wait until there is no violation; return the remaining ones after the time limit."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self.seconds):
                while trouble():
                    await asyncio.sleep(_LOOK_SECONDS)
        return trouble()


async def play(site: Site, cases: Collection[Case], folder: Path, seconds: float) -> dict[str, str]:
    """Play cases side by side; return the violations in the end, by case.

    Args:
        site: the cluster.
        cases: which.
        folder: for the folders of nodes.
        seconds: how long each is waited for.
    """
    stage = Stage(site, folder, seconds)
    played: dict[str, asyncio.Task[str]] = {}
    async with stage.pods, stage.claims:
        foreign = asyncio.create_task(stage.foreign.run())
        try:
            # A restart of the scheduler is a fault of its own: the other cases are over by then.
            for restarts in (False, True):
                async with asyncio.TaskGroup() as group:
                    for case in cases:
                        if (case.fault is Fault.RESTART) == restarts:
                            played[str(case)] = group.create_task(_Played(stage, case).run())
        finally:
            foreign.cancel()
            await asyncio.gather(foreign, return_exceptions=True)
    return {case: trouble for case, task in played.items() if (trouble := task.result())}


def _described(claim: ResourceClaim) -> str:
    users = [consumer.name for consumer in claim.status.reserved_for]
    held = "allocated" if claim.allocation is not None else "not allocated"
    return f"{claim.ref}, {held}, reserved for {users}, finalizers {claim.metadata.finalizers}"


class _Played:
    """One case."""

    def __init__(self, stage: Stage, case: Case) -> None:
        self.stage = stage
        self.client = stage.client
        self.case = case
        self.name = case.name
        self.driver = f"{case.name}.example.com"
        self.hardware = Hardware(case.fault)
        self.sibling = Hardware(Fault.SIBLING)

    async def run(self) -> str:
        await self._make_cluster()
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._process())
            await self._make_pod()
            if trouble := await self.stage.until(lambda: "" if self._waits() else "the pod never waited"):
                return trouble
            if self.case.fault is Fault.RESTART:
                await stack.aclose()
                self.hardware.fault = None
                await self.stage.site.restart_scheduler()
                await stack.enter_async_context(self._process())
            # The claim of an extended resource may be created again meanwhile.
            if trouble := await self.stage.until(lambda: "" if self._claim() else "the pod has no claim"):
                return trouble
            await self._break()
            if trouble := await self.stage.until(self._unsettled):
                return trouble
            await self.client.delete(PODS, self.name, "default", grace_seconds=0)
            return await self.stage.until(self._left)

    async def _make_cluster(self) -> None:
        for node in (f"{self.name}-a", f"{self.name}-b"):
            await self.client.create(NODES, builders.node(node, case=self.name), into=dict)
            status = {"status": {"capacity": _ROOM, "allocatable": _ROOM}}
            await self.client.patch(NODES, node, "", status, PatchKind.MERGE, into=dict, subresource="status")
        await self._make_class(self.driver, f"example.com/{self.name}")
        if self.case.fault is Fault.SIBLING:
            await self._make_foreign(f"sibling.{self.driver}", self.sibling)
            await self._make_class(f"sibling.{self.driver}", None)
        if self.case.setter is Setter.FOREIGN:
            await self._make_foreign(self.driver, self.hardware)

    async def _make_class(self, driver: str, resource: str | None) -> None:
        spec: Json = {"selectors": [{"cel": {"expression": f'device.driver == "{driver}"'}}]}
        body = {"metadata": {"name": driver}, "spec": {**spec, "extendedResourceName": resource}}
        await self.client.create(CLASSES, body, into=dict)

    async def _make_foreign(self, driver: str, hardware: Hardware) -> None:
        """Create a slice whose devices bind to their node."""
        devices = [
            {
                "name": each.name,
                "bindsToNode": True,
                "bindingConditions": each.binding_conditions,
                "bindingFailureConditions": each.binding_failure_conditions,
            }
            for each in _devices(driver)
        ]
        pool = {"name": driver, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": driver, "pool": pool, "allNodes": True, "devices": devices}
        await self.client.create(SLICES, {"metadata": {"name": driver}, "spec": spec}, into=dict)
        self.stage.foreign.serve(driver, hardware)

    async def _make_pod(self) -> None:
        claims, limits = [], {}
        if self.case.use is Use.OWN:
            claims.append((self.name, self.driver))
        else:
            limits = {f"example.com/{self.name}": "1"}
        if self.case.fault is Fault.SIBLING:
            claims.append((f"{self.name}-sibling", f"sibling.{self.driver}"))
        for name, device_class in claims:
            body = builders.claim(builders.device_request(device_class), name=name)
            await self.client.create(CLAIMS, body, "default", into=dict)
        container = {
            "name": "main",
            "image": "busybox",
            "resources": {"limits": limits, "claims": [{"name": name} for name, _ in claims]},
        }
        spec = {
            "containers": [container],
            "nodeSelector": {"case": self.name},
            "resourceClaims": [{"name": name, "resourceClaimName": name} for name, _ in claims],
        }
        await self.client.create(PODS, {"metadata": {"name": self.name}, "spec": spec}, "default", into=dict)

    @asynccontextmanager
    async def _process(self) -> AsyncIterator[None]:
        """Run the driver's process, if it is one of ours; end it as a kill does."""
        if self.case.setter is Setter.FOREIGN:
            yield
            return
        async with await Client.connect(self.stage.site.kubeconfig) as client:
            if self.case.setter is Setter.NODE:
                async with self._plugin(client):
                    yield
                return
            process = BindingProcess(binding_driver(self.name, self.hardware), client)
            task = asyncio.create_task(process.run(asyncio.Event()))
            try:
                yield
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    @asynccontextmanager
    async def _plugin(self, client: Client) -> AsyncIterator[None]:
        (registry := self.stage.folder / self.name / "r").mkdir(parents=True, exist_ok=True)
        folder = registry.parent
        config = PluginConfig(f"{self.name}-a", folder / "p", registry, folder / "c", boot_id="boot-1")
        plugin = BindingPlugin(node_driver(self.name, self.hardware), client, config)
        await plugin.start()
        try:
            await notify(plugin)
            yield
        finally:
            await plugin.stop(0)

    def _claims(self) -> list[ResourceClaim]:
        return [
            claim
            for ref, claim in self.stage.claims.items.items()
            if ref == f"default/{self.name}" or ref.startswith(f"default/{self.name}-")
        ]

    def _claim(self) -> ResourceClaim | None:
        """Return the claim for the driver's device."""
        ours = (c for c in self._claims() if not c.metadata.name.endswith("-sibling"))
        return next(ours, None)

    def _waits(self) -> bool:
        claim = self._claim()
        return claim is not None and claim.allocation is not None and self.hardware.began.is_set()

    async def _break(self) -> None:
        claim = self._claim()
        assert claim is not None
        if self.case.fault is Fault.NODE_GONE:
            assert claim.allocation is not None
            assert claim.allocation.node_selector is not None
            (node,) = claim.allocation.node_selector.node_selector_terms[0].match_fields[0].values
            await self.client.delete(NODES, node)
        elif self.case.fault is Fault.DELETED:
            await self.client.delete(CLAIMS, claim.metadata.name, "default")

    def _unsettled(self) -> str:
        pod = self.stage.pods.items.get(f"default/{self.name}", Pod())
        if ending := [c for c in self._claims() if c.metadata.deletion_timestamp is not None]:
            return f"terminating: {'; '.join(map(_described, ending))}"
        message = " ".join(condition.message for condition in pod.status.conditions)
        if refusals := self.case.refusals:
            if pod.spec.node_name or not any(words in message for words in refusals):
                return f"the pod has node {pod.spec.node_name!r} and the message {message!r}"
            return self._attached_beyond({})
        if not pod.spec.node_name:
            return f"the pod has no node and the message {message!r}"
        held = {r.device: c.metadata.uid for c in self._claims() for r in c.results if r.driver == self.driver}
        return self._attached_beyond(held)

    def _attached_beyond(self, held: Mapping[str, str]) -> str:
        if self.case.setter is not Setter.BINDING or self.hardware.attached == held:
            return ""
        return f"attached: {self.hardware.attached}, held: {held}"

    def _left(self) -> str:
        claims = self._claims()
        special = [c.ref for c in claims if c.metadata.controller is not None]
        held = f"{self.driver}/detach"
        kept = [c.ref for c in claims if c.allocation is not None or held in c.metadata.finalizers]
        if special or kept:
            return f"after the pod: special claims {special}, allocated or held by the driver {kept}"
        return self._attached_beyond({})
