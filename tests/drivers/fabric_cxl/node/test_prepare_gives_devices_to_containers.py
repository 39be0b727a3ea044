"""`prepare` returns what containers need: device nodes under stable paths, variables and metadata."""

from dataclasses import replace

import pytest

import dradriver as dra
from dradriver_fabric_cxl.memory import MemoryMode
from dradriver_fabric_cxl.node.errors import NoAttachedDataError
from tests.drivers.fabric_cxl.cxl_nodes import (
    GIB,
    MEMORY,
    OTHER,
    CxlNode,
    accelerator,
    by_controller,
    claim,
    memory,
)


async def prepare(node: CxlNode, *devices: dra.AllocatedDevice) -> list[dra.PreparedDevice]:
    async with node.running() as driver:
        prepared = await driver.prepare(claim(*devices))
        return [prepared[device] for device in devices]


async def test_memory_is_a_character_device_under_a_path_that_does_not_change(node: CxlNode) -> None:
    first, second = await prepare(node, memory("pool-a-1"), memory("pool-b-1", OTHER))
    (one,), (other,) = first.edits.device_nodes, second.edits.device_nodes
    assert (one.path, other.path) == ("/dev/cxl/pool-a-1", "/dev/cxl/pool-b-1")
    shown = {each.serial: each.usable for each in node.memory.devices()}
    for given, serial in ((one, MEMORY), (other, OTHER)):
        assert (usable := shown[serial])
        assert (given.type, given.major, given.minor) == ("c", usable.major, usable.minor)
    assert one.minor != other.minor


async def test_variables_and_metadata_describe_the_memory(node: CxlNode) -> None:
    (prepared,) = await prepare(node, memory("pool-a-1"))
    align, numa = 2 << 20, 1
    assert sorted(prepared.edits.env) == [
        "CXL_MEMORY_POOL_A_1=/dev/cxl/pool-a-1",
        f"CXL_MEMORY_POOL_A_1_ALIGN={align}",
        f"CXL_MEMORY_POOL_A_1_BYTES={GIB}",
    ]
    assert prepared.metadata == {
        "type": "memory",
        "mode": "devdax",
        "path": "/dev/cxl/pool-a-1",
        "bytes": GIB,
        "align": align,
        "resource.kubernetes.io/numaNode": numa,
    }


async def test_the_data_of_the_pool_driver_is_not_overwritten(node: CxlNode) -> None:
    for prepared in await prepare(node, memory(), accelerator()):
        assert prepared.data is None


async def test_system_ram_has_no_device_node(node: CxlNode) -> None:
    node.settings = "systemRam: true"
    (prepared,) = await prepare(node, memory("pool-a-1", mode="system-ram"))
    assert not prepared.edits.device_nodes
    assert sorted(prepared.edits.env) == [
        f"CXL_MEMORY_POOL_A_1_BYTES={GIB}",
        "CXL_MEMORY_POOL_A_1_NUMA_NODE=1",
    ]
    assert prepared.metadata is not None
    assert prepared.metadata["resource.kubernetes.io/numaNode"] == 1
    assert node.mode() is MemoryMode.SYSTEM_RAM


async def test_an_accelerator_has_its_device_nodes_and_its_address(node: CxlNode) -> None:
    (prepared,) = await prepare(node, accelerator("gpu-1"))
    (found,) = node.accelerators.devices()
    assert [each.path for each in prepared.edits.device_nodes] == [each.path for each in found.nodes]
    assert prepared.edits.env == (f"CXL_ACCELERATOR_GPU_1={found.address}",)
    assert prepared.metadata == {
        "type": "accelerator",
        "resource.kubernetes.io/pciBusID": found.address,
    }


async def test_two_shares_of_one_device_have_different_paths_and_variables(node: CxlNode) -> None:
    one, other = await prepare(
        node, memory("whole", MEMORY, share="11111111-a"), memory("whole", OTHER, share="22222222-b")
    )
    assert not {each.path for each in one.edits.device_nodes} & {each.path for each in other.edits.device_nodes}
    assert not {each.partition("=")[0] for each in one.edits.env} & {
        each.partition("=")[0] for each in other.edits.env
    }


async def test_memory_that_attach_did_not_make_usable_is_made_usable_and_cleared(node: CxlNode) -> None:
    """As without binding conditions, or after a reboot."""
    await prepare(node, memory())
    assert node.mode() is MemoryMode.DEVDAX
    assert node.memory.is_clear(MEMORY)


async def test_admin_access_gets_no_memory_of_another_claim(node: CxlNode) -> None:
    watching = dra.AllocatedDevice("memory", "fabric-1", "pool-a-1", admin_access=True)
    (prepared,) = await prepare(node, watching)
    assert prepared == dra.PreparedDevice()
    assert node.mode() is None


async def test_devices_of_a_controller_are_found_by_the_handle_of_the_allocation(node: CxlNode) -> None:
    by_data = await prepare(node, memory("pool-a-1"), memory("pool-b-1", OTHER), accelerator("gpu-1"))
    devices = by_controller(memory("pool-a-1"), memory("pool-b-1", OTHER), accelerator("gpu-1"))
    assert await prepare(node, *devices) == by_data


async def test_unprepare_finds_devices_of_a_controller_by_the_handle_if_the_record_is_lost(
    node: CxlNode,
) -> None:
    (device,) = by_controller(memory())
    await prepare(node, device)
    for name in node.records:
        (node.folder / "devices" / name).unlink()
    async with node.running() as driver:
        await driver.unprepare(claim(device))
    assert node.mode() is None


@pytest.mark.parametrize("handle", [b"", b"{}", b'{"pool-a-1": {}}', b'{"pool-a-1": {"serial": "x"}}'])
async def test_a_wrong_handle_is_reported_with_its_device(node: CxlNode, handle: bytes) -> None:
    with pytest.raises(NoAttachedDataError, match="device fabric-1/pool-a-1: handle of the claim's allocation"):
        await prepare(node, replace(memory(), data=None, handle=handle))
