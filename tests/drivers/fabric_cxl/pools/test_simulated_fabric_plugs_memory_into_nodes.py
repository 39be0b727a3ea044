"""Connections of a simulated fabric appear on simulated nodes, in the folder that all processes share."""

from pathlib import Path

from dradriver_fabric_cxl.accelerator.simulator import AcceleratorFileStore, SimulatedAccelerators
from dradriver_fabric_cxl.fabric import AttachmentIdentity, AttachRequest, MemoryRequest
from dradriver_fabric_cxl.fabric.simulator import SimulatedFabric
from dradriver_fabric_cxl.memory.simulator import MemoryFileStore, SimulatedMemory
from dradriver_fabric_cxl.pools.simulated import SimulatedFabricOfNodes
from dradriver_fabric_cxl.simulation import accelerator_file, memory_file, open_fabric_store
from tests.drivers.fabric_cxl.fabric_suite import PACE


def request(host: str, number: int = 1) -> AttachRequest:
    identity = AttachmentIdentity(f"uid-{number}", "simulated", "device", "2026-11-22T22:00:00Z")
    return AttachRequest(identity, host, MemoryRequest("pool-a", 1024))


def open_fabric(folder: Path) -> SimulatedFabricOfNodes:
    return SimulatedFabricOfNodes(folder, pace=PACE)


def plugged(folder: Path, host: str) -> dict[int, int]:
    memory = SimulatedMemory(MemoryFileStore(memory_file(folder, host)))
    return {each.serial: each.bytes for each in memory.devices()}


async def test_attached_memory_is_plugged_and_detached_memory_is_pulled(tmp_path: Path) -> None:
    fabric = open_fabric(tmp_path)
    first = await fabric.attach(request("host-0"))
    second = await fabric.attach(request("host-0", 2))
    assert plugged(tmp_path, "host-0") == {first.serial: 1 << 30, second.serial: 1 << 30}
    await fabric.detach(first.identity.tag)
    assert plugged(tmp_path, "host-0") == {second.serial: 1 << 30}


async def test_memory_that_moves_to_another_host_is_pulled_from_the_first(tmp_path: Path) -> None:
    fabric = open_fabric(tmp_path)
    await fabric.attach(request("host-0"))
    await fabric.attach(request("host-1"))
    assert (len(plugged(tmp_path, "host-0")), len(plugged(tmp_path, "host-1"))) == (0, 1)


async def test_an_accelerator_is_plugged(tmp_path: Path) -> None:
    fabric = open_fabric(tmp_path)
    accelerators = SimulatedAccelerators(AcceleratorFileStore(accelerator_file(tmp_path, "host-3")))
    identity = AttachmentIdentity("uid-3", "simulated", "gpu-0", "2026-11-22T22:00:00Z")
    attachment = await fabric.attach(AttachRequest(identity, "host-3", "gpu-0"))
    assert [each.serial for each in accelerators.devices()] == [attachment.serial]
    assert plugged(tmp_path, "host-3") == {}
    await fabric.detach(identity.tag)
    assert accelerators.devices() == ()


async def test_a_process_that_died_between_the_fabric_and_the_node_is_continued(tmp_path: Path) -> None:
    died = SimulatedFabric(open_fabric_store(tmp_path), pace=PACE)  # it knows no nodes
    attachment = await died.attach(request("host-0"))
    assert plugged(tmp_path, "host-0") == {}
    await open_fabric(tmp_path).attach(request("host-0"))
    assert plugged(tmp_path, "host-0") == {attachment.serial: 1 << 30}
    await died.detach(attachment.identity.tag)
    assert len(plugged(tmp_path, "host-0")) == 1
    await open_fabric(tmp_path).detach(attachment.identity.tag)
    assert plugged(tmp_path, "host-0") == {}
