"""KEP-3063, combined hardware: a controller allocates devices of two kubelet plugins, each with its handle."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import dradriver as dra
from dradriver.cluster import EmbeddedCluster
from dradriver.kube import CLAIMS, CLASSES, CONTROLLER_ALLOCATIONS, PODS, Client
from dradriver.model.classic.parameters import AllocationTime
from dradriver.runner.controllers import ControllerProcess
from dradriver.testing import builders
from tests.cluster.helpers import plugin_on, running, until

FPGA, NIC = "fpga.example.com", "nic.example.com"
FULL = bytes(range(256)) * 64


class CardController(dra.ControllerDriver):
    """A card in node-2 has an FPGA block and a port; `optional` claims get nothing."""

    name = builders.CONTROLLER

    def __init__(self) -> None:
        self.allocated: dict[str, str | None] = {}

    def allocate(
        self, claims: Sequence[dra.PendingClaim], node: str | None
    ) -> Mapping[str, dra.ControllerAllocationResult]:
        return {each.uid: self._allocate(each, node) for each in claims}

    def _allocate(self, claim: dra.PendingClaim, node: str | None) -> dra.ControllerAllocationResult:
        if claim.name == "optional":
            self.allocated[claim.uid] = node
            return dra.ControllerAllocationResult()
        if node != "node-2":  # the scheduler has selected it before it knew that it is unsuitable
            raise dra.AllocationError(f"node {node} has no card")
        self.allocated[claim.uid] = node
        (request,) = claim.requests
        devices = [
            dra.ControllerDevice(request.name, FPGA, "card-7", "block-0"),
            dra.ControllerDevice(request.name, FPGA, "card-7", "block-1"),
            dra.ControllerDevice(request.name, NIC, "card-7", "port-0"),
        ]
        return dra.ControllerAllocationResult(devices, {FPGA: FULL, NIC: claim.uid.encode()})

    def deallocate(self, claim: dra.RecordedClaim) -> None:
        self.allocated.pop(claim.uid, None)

    def unsuitable_nodes(
        self, pod: dra.PendingPod, claims: Sequence[dra.PendingClaim], nodes: Sequence[str]
    ) -> Mapping[str, Collection[str]]:
        return {each.uid: [node for node in nodes if node != "node-2"] for each in claims}


class CardPlugin(dra.Driver):
    """Remembers the handles of its devices."""

    def __init__(self) -> None:
        self.prepared: dict[str, bytes | None] = {}
        self.unprepared: dict[str, bytes | None] = {}

    def discover(self) -> list[dra.Device]:
        return []

    def prepare(self, claim: dra.Claim) -> Mapping[dra.AllocatedDevice, dra.ContainerEdits]:
        self.prepared |= {each.name: each.handle for each in claim.devices}
        return {each: dra.ContainerEdits() for each in claim.devices}

    def unprepare(self, claim: dra.Claim) -> None:
        self.unprepared |= {each.name: each.handle for each in claim.devices}


class FpgaPlugin(CardPlugin):
    name = FPGA


class NicPlugin(CardPlugin):
    name = NIC


@dataclass
class CardCluster:
    """Two nodes, the controller, and its plugins on node-2."""

    client: Client
    controller: CardController = field(default_factory=CardController)
    fpga: CardPlugin = field(default_factory=FpgaPlugin)
    nic: CardPlugin = field(default_factory=NicPlugin)

    async def claim(self, name: str, mode: AllocationTime) -> str:
        """Create a claim and return its UID."""
        request = builders.device_request(builders.CONTROLLED_CLASS)
        claim = builders.claim(request, name=name, configs=[builders.controller_claim(mode)])
        made = await self.client.create(CLAIMS, claim, "default", into=dict[str, Any])
        return str(made["metadata"]["uid"])

    async def run_and_delete(self, claim: str) -> None:
        """Run a pod with the claim until it is deleted, and wait for the deallocation of the claim."""
        await self.client.create(PODS, builders.pod(claim), "default", into=dict)
        await until(self.client, running("pod-1"))
        await self.client.delete(PODS, "pod-1", "default")
        await until(self.client, lambda pods: not pods)
        await self.client.delete(CLAIMS, claim, "default")
        async with asyncio.timeout(30):
            while (await self.client.list(CLAIMS, "default", into=dict)).items:
                await asyncio.sleep(0.02)
        assert not (await self.client.list(CONTROLLER_ALLOCATIONS, "default", into=dict)).items
        assert not self.controller.allocated


@asynccontextmanager
async def started_controller(controller: CardController, client: Client) -> AsyncIterator[None]:
    stop = asyncio.Event()
    process = asyncio.create_task(ControllerProcess(controller, client).run(stop, 1))
    try:
        yield
    finally:
        stop.set()
        await process


@pytest.fixture
async def cards() -> AsyncIterator[CardCluster]:
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dra-")))
        started = EmbeddedCluster(folder, nodes=("node-1", "node-2"), runtime="process")
        cluster = await stack.enter_async_context(started)
        made = CardCluster(cluster.client())
        await made.client.create(CLASSES, builders.controller_class(), into=dict)
        for plugin in (made.fpga, made.nic):
            running_plugin = await stack.enter_async_context(plugin_on(cluster, "node-2", plugin))
            await running_plugin.parts.registration.wait(10)
        await stack.enter_async_context(started_controller(made.controller, made.client))
        yield made


async def test_each_plugin_of_one_claim_gets_its_own_handle(cards: CardCluster) -> None:
    uid = await cards.claim("card", "WaitForFirstConsumer")
    await cards.run_and_delete("card")
    assert cards.fpga.prepared == cards.fpga.unprepared == {"block-0": FULL, "block-1": FULL}
    assert cards.nic.prepared == cards.nic.unprepared == {"port-0": uid.encode()}


async def test_a_claim_that_is_allocated_without_devices_runs_on_a_node_without_plugins(
    cards: CardCluster,
) -> None:
    """An optional resource of the KEP. node-1 has no plugin, and no plugin is called on node-2."""
    await cards.claim("optional", "Immediate")
    await cards.run_and_delete("optional")
    assert cards.fpga.prepared == cards.nic.prepared == {}
