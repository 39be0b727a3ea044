"""Cases of both drivers of a fabric that the controller hands out (KEP-3063), for every scheduler.

Each case is a function that gets two nodes with running drivers, and starts the driver of the fabric. At its
end nothing is attached.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from dradriver.kube import NODES, PODS, Conflict, PatchKind
from dradriver.testing import builders
from dradriver_fabric_cxl import FabricPoolsDriver
from dradriver_fabric_cxl.configs import MemoryAmount
from dradriver_fabric_cxl.fabric.simulator import FabricCall
from dradriver_fabric_cxl.pools.simulated import SimulatedFabricOfNodes
from tests.drivers.fabric_cxl.both_halves.cases import Case, end_pod
from tests.drivers.fabric_cxl.both_halves.halves import MEMORY, PACE, Halves

FABRIC_MEMORY: Final = "cxl-fabric-memory.example.com"
FABRIC_ACCELERATOR: Final = "cxl-fabric-accelerator.example.com"


async def start(halves: Halves, uid: str = "first", handed_out_by: str = "controller") -> None:
    """Start the driver of the fabric with a setting."""

    def make() -> FabricPoolsDriver:
        settings = f"{{handedOutBy: {handed_out_by}, sizes: [1Gi]}}"
        return FabricPoolsDriver(settings, SimulatedFabricOfNodes(halves.simulation, pace=PACE))

    await halves.start_pools(uid, make)


async def create_pod(halves: Halves, *classes: str, size: str = "3Gi", name: str = "") -> None:
    """Create a pod for both nodes, and a claim of its name with a request for each class."""
    parameters = {"apiVersion": MemoryAmount.api_version, "kind": MemoryAmount.kind, "size": size}
    memory = builders.controller_claim(parameters=parameters)
    requests = [
        {"name": f"request-{number}", "exactly": {"deviceClassName": each}}
        for number, each in enumerate(classes)
    ]
    sized = [each["name"] for each, kind in zip(requests, classes, strict=True) if kind == FABRIC_MEMORY]
    config = [{"requests": sized, "opaque": memory}] if sized else []
    await halves.create_pod_with({"devices": {"requests": requests, "config": config}}, name)


async def memory_and_accelerator(halves: Halves) -> None:
    """The first story of KEP-3063: the pod is bound after the fabric has attached what the controller chose."""
    await start(halves)
    halves.hold(FabricCall.CREATE_CHUNK)
    await create_pod(halves, FABRIC_MEMORY, FABRIC_ACCELERATOR)
    await halves.until(halves.is_held)
    assert not halves.node_of()
    assert not halves.is_allocated()
    halves.release()
    node = await halves.bound()
    assert halves.connected() == [halves.hosts()[node]] * 2
    assert halves.nominated() == node
    assert not await halves.prepare()
    paths = [each["path"] for one in halves.edits(node) for each in one.get("deviceNodes", ())]
    memory = next(each.device for each in halves.claim().results if each.request == "request-0")
    assert sorted(paths) == sorted([f"/dev/cxl/{memory}", "/dev/dri/renderD128"])
    await end_pod(halves, node)


async def replaced_while_it_attaches(halves: Halves) -> None:
    """The controller's process ends while the manager makes a connection; the next one continues."""
    await start(halves)
    halves.hold(FabricCall.CREATE_CONNECTION)
    await create_pod(halves, FABRIC_MEMORY)
    await halves.until(halves.is_held)
    await halves.stop("pools/first")
    halves.release()
    await start(halves, "second")
    node = await halves.bound()
    assert halves.connected() == [halves.hosts()[node]]
    assert len(halves.fabric().objects) == 2
    assert not await halves.prepare()
    await end_pod(halves, node)


async def cleared_while_it_attaches(halves: Halves) -> None:
    """The pod and its claim are deleted while the manager makes a chunk."""
    await start(halves)
    halves.hold(FabricCall.CREATE_CHUNK)
    await create_pod(halves, FABRIC_MEMORY)
    await halves.until(halves.is_held)
    await halves.delete_pod()
    halves.release()
    await halves.delete_claim()
    await halves.until(halves.is_empty)


async def memory_in_use_stays(halves: Halves) -> None:
    """The pod is deleted by force: its memory is detached only after its node has taken it back."""
    await start(halves)
    await create_pod(halves, FABRIC_MEMORY)
    node = await halves.bound()
    assert not await halves.prepare()
    claim = halves.claim()
    await halves.delete_pod()
    await halves.until(lambda: not halves.is_allocated())
    assert halves.connected() == [halves.hosts()[node]]
    await halves.unprepare(claim, node)
    await halves.until(halves.is_empty)
    await halves.delete_claim()


async def memory_of_a_dead_node_is_used_elsewhere(halves: Halves) -> None:
    """A node is shut down: after its pod is deleted, its memory is detached without its help."""
    await start(halves)
    await create_pod(halves, FABRIC_MEMORY, size="60Gi")
    node = await halves.bound()
    assert not await halves.prepare()
    await halves.stop(f"{node}/first")
    second = f"{halves.name}-second"
    await create_pod(halves, FABRIC_MEMORY, size="60Gi", name=second)
    taint = {"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}
    body = {"spec": {"taints": [taint]}}
    await halves.client.patch(NODES, node, "", body, PatchKind.MERGE, into=dict)
    with suppress(Conflict):
        await halves.client.delete(PODS, halves.name, "default", grace_seconds=0)
    other = await halves.bound(second)
    assert other != node
    assert halves.connected() == [halves.hosts()[other]]
    await halves.delete_claim()
    await halves.delete_pod(second)
    await halves.delete_claim(second)
    await halves.until(halves.is_empty)


async def from_slices_to_the_controller(halves: Halves) -> None:
    """The setting changes while a pod runs: it keeps memory of slices, and the next pod gets other memory."""
    await start(halves, handed_out_by="slices")
    await halves.create_pod(MEMORY)
    node = await halves.bound()
    assert not await halves.prepare()
    await halves.stop("pools/first")
    await start(halves, "second")
    second = f"{halves.name}-second"
    await create_pod(halves, FABRIC_MEMORY, name=second)
    other = await halves.bound(second)
    await halves.until(lambda: not halves.lab.devices())
    assert sorted(halves.connected()) == sorted(halves.hosts()[each] for each in (node, other))
    third = f"{halves.name}-third"
    await halves.create_pod(MEMORY, third)
    await halves.delete_pod(second)
    await halves.delete_claim(second)
    assert not halves.node_of(third)
    await halves.delete_pod(third)
    await halves.delete_claim(third)
    await end_pod(halves, node)


async def from_the_controller_to_slices(halves: Halves) -> None:
    """The setting changes back: a pod keeps what the controller gave it, and others get devices of slices."""
    await start(halves)
    await create_pod(halves, FABRIC_MEMORY)
    node = await halves.bound()
    assert not await halves.prepare()
    await halves.stop("pools/first")
    await start(halves, "second", handed_out_by="slices")
    second, third = f"{halves.name}-second", f"{halves.name}-third"
    await create_pod(halves, FABRIC_MEMORY, name=third)
    await halves.create_pod(MEMORY, second)
    await halves.bound(second)
    assert not halves.is_allocated(third)
    await halves.delete_pod(third)
    await halves.delete_claim(third)
    await halves.delete_pod(second)
    await halves.delete_claim(second)
    await end_pod(halves, node)


CONTROLLER_CASES: Final[Mapping[str, Case]] = {
    "memory and an accelerator in one claim": memory_and_accelerator,
    "the controller is replaced while it attaches": replaced_while_it_attaches,
    "cleared while a chunk is made": cleared_while_it_attaches,
    "memory in use stays": memory_in_use_stays,
    "memory of a dead node is used elsewhere": memory_of_a_dead_node_is_used_elsewhere,
    "from slices to the controller": from_slices_to_the_controller,
    "from the controller to slices": from_the_controller_to_slices,
}
