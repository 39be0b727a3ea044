"""Scratch space of nodes: the controller and the nodes agree through one object a node."""

import asyncio
import json
import shutil
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

import dradriver as dra
from dradriver.testing import ControllerContract, ControllerHarness, DriverContract
from examples.classic.node_resources import controller as controller_module
from examples.classic.node_resources.controller import ScratchClaim, ScratchController
from examples.classic.node_resources.node import ScratchDriver
from examples.classic.node_resources.objects import (
    NodeScratch,
    ScratchMeta,
    ScratchObjects,
    ScratchSpec,
    ScratchStatus,
)

GIBIBYTE = 1 << 30
NODES = ("node-1", "node-2")


class DiskUsage(NamedTuple):
    total: int
    used: int
    free: int


class ObjectsInMemory(ScratchObjects):
    """The objects, and the drivers of the nodes, which run when the controller has written.

    Attributes:
        stored: the objects by node.
        nodes: the drivers of the nodes. A node that is missing does not answer.
    """

    def __init__(self) -> None:
        self.stored: dict[str, NodeScratch] = {}
        self.nodes: dict[str, ScratchDriver] = {}

    async def list(self) -> dict[str, NodeScratch]:
        return dict(self.stored)

    async def read(self, node: str) -> NodeScratch | None:
        return self.stored.get(node)

    async def create(self, node: str) -> NodeScratch:
        return self.stored.setdefault(node, NodeScratch(metadata=ScratchMeta(name=node)))

    async def assign(self, node: str, change: Callable[[NodeScratch], ScratchSpec]) -> None:
        if node in self.stored:
            self.stored[node] = msgspec.structs.replace(self.stored[node], spec=change(self.stored[node]))
            if node in self.nodes:
                await self.nodes[node].discover()

    async def answer(self, node: str, status: ScratchStatus) -> None:
        self.stored[node] = msgspec.structs.replace(self.stored[node], status=status)

    async def changes(self, node: str) -> AsyncGenerator[NodeScratch | None, None]:
        while True:
            yield self.stored.get(node)
            await asyncio.sleep(0.001)

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[ScratchObjects]:
        yield self


class ScratchNodes:
    """Two nodes with a disk of 10 GiB each.

    Attributes:
        objects: the objects of the nodes.
        free: gibibytes that the disks have left.
        folder: a folder for each node's disk.
    """

    def __init__(self, folder: Path) -> None:
        self.objects = ObjectsInMemory()
        self.free = 10
        self.folder = folder
        for node in NODES:
            asyncio.run(self.start(node).discover())

    def start(self, node: str) -> ScratchDriver:
        """Start the driver of a node, as a new process."""
        (self.folder / node).mkdir(exist_ok=True)
        driver = ScratchDriver(self.folder / node, self.objects.connect)
        driver.set_context(dra.DriverContext(node))
        self.objects.nodes[node] = driver
        return driver

    def controller(self) -> ScratchController:
        return ScratchController(self.objects.connect)

    def folders(self, node: str) -> set[str]:
        return {path.name for path in (self.folder / node).iterdir() if path.is_dir()}


@pytest.fixture
def nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ScratchNodes:
    made: list[ScratchNodes] = []

    def usage(_: object) -> DiskUsage:
        free = made[0].free if made else 10
        return DiskUsage(10 * GIBIBYTE, (10 - free) * GIBIBYTE, free * GIBIBYTE)

    monkeypatch.setattr(shutil, "disk_usage", usage)
    made.append(ScratchNodes(tmp_path))
    return made[0]


@pytest.fixture
def controller(nodes: ScratchNodes) -> Iterator[ControllerHarness]:
    with ControllerHarness(nodes.controller) as harness:
        yield harness


class TestControllerContract(ControllerContract):
    @pytest.fixture(autouse=True)
    def scratch(self, nodes: ScratchNodes) -> None:
        self.scratch_nodes = nodes

    def make_driver(self) -> ScratchController:
        return self.scratch_nodes.controller()


class TestNodeContract(DriverContract):
    controller_devices = (("scratch.example.com/node-1", "claim-1"), ("scratch.example.com/node-1", "claim-2"))

    @pytest.fixture(autouse=True)
    def scratch(self, tmp_path: Path) -> None:
        self.folder = tmp_path / "scratch"
        self.folder.mkdir()

    def make_driver(self) -> ScratchDriver:
        return ScratchDriver(self.folder, ObjectsInMemory().connect)

    def make_handle(self, devices: Sequence[tuple[str, str]]) -> bytes:
        return json.dumps({"path": f"{self.folder}/{devices[0][1]}"}).encode()


def test_a_claim_is_allocated_when_its_node_has_reserved_a_folder(
    nodes: ScratchNodes, controller: ControllerHarness
) -> None:
    claim = controller.claim(claim_config=ScratchClaim(gibibytes=3))
    result = controller.allocate(claim, node="node-1")[claim.uid]
    path = json.loads(result.handles["scratch.example.com"])["path"]
    assert Path(path).is_dir()
    assert nodes.folders("node-1") == {claim.uid}
    assert nodes.objects.stored["node-1"].free == 7
    assert result.node_selector == dra.NodeSelector.for_node("node-1")


def test_claims_that_a_node_has_not_answered_yet_count(
    nodes: ScratchNodes, controller: ControllerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    del nodes.objects.nodes["node-1"]
    first, second = (controller.claim(claim_config=ScratchClaim(gibibytes=6)) for _ in range(2))
    seen = []
    answer = nodes.objects.changes

    async def changes(node: str) -> AsyncGenerator[NodeScratch | None, None]:
        seen.append(await controller.driver.unsuitable_nodes(pod, [second], NODES))  # type: ignore[misc]
        async for each in answer(node):
            yield each

    pod = dra.PendingPod("uid", "default", "pod")
    monkeypatch.setattr(nodes.objects, "changes", changes)
    monkeypatch.setattr(controller_module, "ANSWER_SECONDS", 0.05)
    with pytest.raises(dra.AllocationError, match="no answer"):
        controller.allocate(first, node="node-1")
    assert seen == [{second.uid: ["node-1"]}]


def test_a_node_that_refuses_is_unsuitable_and_the_claim_is_withdrawn(
    nodes: ScratchNodes, controller: ControllerHarness
) -> None:
    claim = controller.claim(claim_config=ScratchClaim(gibibytes=3))
    nodes.free = 1
    with pytest.raises(
        dra.AllocationError, match=r"node node-1 refuses .* the disk has 1 GiB left, 3 are needed"
    ):
        controller.allocate(claim, node="node-1")
    assert not nodes.objects.stored["node-1"].assigned
    assert controller.unsuitable_nodes(claim, nodes=NODES) == {claim.uid: ["node-1"]}
    nodes.free = 10
    controller.allocate(claim, node="node-2")


def test_a_node_without_an_object_is_unsuitable(controller: ControllerHarness) -> None:
    claim = controller.claim()
    assert controller.unsuitable_nodes(claim, nodes=["node-3"]) == {claim.uid: ["node-3"]}
    with pytest.raises(dra.AllocationError, match="node node-3 has too little scratch space"):
        controller.allocate(claim, node="node-3")


def test_an_immediate_claim_gets_the_node_with_the_most_space(controller: ControllerHarness) -> None:
    controller.allocate(controller.claim(claim_config=ScratchClaim(gibibytes=3)), node="node-1")
    claim = controller.claim()
    result = controller.allocate(claim, node=None)[claim.uid]
    assert result.node_selector == dra.NodeSelector.for_node("node-2")
    with pytest.raises(dra.AllocationError, match="no node has enough scratch space"):
        controller.allocate(controller.claim(claim_config=ScratchClaim(gibibytes=11)), node=None)


def test_a_folder_that_a_pod_uses_stays_until_it_is_unprepared(
    nodes: ScratchNodes, controller: ControllerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    pending = controller.claim()
    handle = controller.allocate(pending, node="node-1")[pending.uid].handles["scratch.example.com"]
    device = dra.AllocatedDevice("request", "scratch.example.com/node-1", "claim", handle=handle)
    claim = dra.Claim(pending.uid, "default", "claim", (device,))
    nodes.objects.nodes["node-1"].prepare(claim)
    monkeypatch.setattr(controller_module, "ANSWER_SECONDS", 0.05)
    with pytest.raises(dra.DraError, match="node node-1 has not freed the space"):
        controller.deallocate(pending, "node-1")
    assert nodes.folders("node-1") == {pending.uid}
    nodes.start("node-1").unprepare(claim)
    controller.deallocate(pending, "node-1")
    assert nodes.folders("node-1") == set()


def test_nothing_is_left_to_wait_for_when_the_node_is_deleted(
    nodes: ScratchNodes, controller: ControllerHarness
) -> None:
    claim = controller.claim()
    controller.allocate(claim, node="node-1")
    del nodes.objects.stored["node-1"], nodes.objects.nodes["node-1"]
    controller.deallocate(claim, "node-1")
    assert controller.allocations() == set()


@pytest.mark.parametrize("gibibytes", [0, -1])
def test_an_amount_is_above_zero(gibibytes: int) -> None:
    with pytest.raises(ValueError, match="gibibytes must be above 0"):
        ScratchClaim(gibibytes=gibibytes)
