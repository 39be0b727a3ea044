"""The driver on real GPUs: what it publishes, what a prepare needs, and what it leaves open."""

import asyncio
import os
from pathlib import Path

import pytest

from dradriver import DriverContext
from dradriver_gpu_mig.card import Gpu, RecoveryAction
from dradriver_gpu_mig.card.nvml import NvmlGpus
from tests.drivers.gpu_mig import nvidia_smi
from tests.drivers.gpu_mig.shim.calls import count_calls
from tests.gpu.conftest import MakeNode, find_device, list_open_nodes, make_driver

MIB = 1 << 20


@pytest.mark.parametrize("settings", ["", "mode: whole", "{mode: whole, consumableShares: memory}"])
def test_an_undivided_gpu_is_published_as_nvidia_smi_describes_it(
    nodes: MakeNode, gpu: Gpu, settings: str
) -> None:
    device = find_device(nodes(settings), gpu)
    _, text = nvidia_smi.run_nvidia_smi(f"--query-gpu={nvidia_smi.GPU_FIELDS}", "--format=csv,noheader,nounits")
    (row,) = (each for each in nvidia_smi.parse_gpus(text) if each["uuid"] == gpu.uuid)
    published = device.attributes
    assert published["productName"].string == row["name"]
    assert str(published["cudaComputeCapability"].version) == row["compute_cap"] + ".0"
    assert row["pci.bus_id"].lower().endswith(str(published["resource.kubernetes.io/pciBusID"].string))
    assert str(published["driverVersion"].version).split(".") == [
        part.lstrip("0") or "0" for part in row["driver_version"].split(".")
    ]
    assert int(device.capacity["memory"].value) == int(row["memory.total"]) * MIB
    assert device.taints == ()


def test_profiles_are_published_where_mig_can_be_switched_on(
    nodes: MakeNode, gpu: Gpu, hardware: NvmlGpus
) -> None:
    profiles = hardware.profiles(gpu.uuid)
    if not profiles:
        pytest.skip(f"{gpu.name} has no MIG")
    (pool,) = nodes("{mode: dynamic, migSwitching: onDemand}").discover()
    parts = [each for each in pool.devices if "parentUUID" in each.attributes]
    published = [
        str(each.attributes["profile"].string)
        for each in parts
        if each.attributes["parentUUID"].string == gpu.uuid
    ]
    assert sorted(published) == sorted(each.name for each in profiles for _ in each.placements)


def test_an_undivided_gpu_is_prepared_with_few_calls(nodes: MakeNode, gpu: Gpu) -> None:
    node = nodes("mode: whole")
    with count_calls() as first_scan:
        node.discover()
    with count_calls() as scan:
        device = find_device(node, gpu)
    claim = node.allocate_blindly(("node-1", device.name))
    with count_calls() as prepare:
        prepared = node.prepare(claim)
    with count_calls() as unprepare:
        node.unprepare(claim)
    totals = [counts.total() for counts in (first_scan, scan, prepare, unprepare)]
    print(f"calls of NVML: first scan, scan, prepare, unprepare: {totals}")
    assert totals[2] <= 8
    (answer,) = prepared.devices
    assert answer.cdi_ids
    assert node.spec(claim) is None


def test_device_nodes_of_a_container_are_those_of_the_node(nodes: MakeNode, gpu: Gpu) -> None:
    node = nodes("mode: whole")
    prepared = node.prepare(node.allocate_blindly(("node-1", find_device(node, gpu).name)))
    assert f"/dev/nvidia{gpu.minor}" in {each.path for each in prepared.edits.device_nodes}
    for each in prepared.edits.device_nodes:
        found = Path(each.path).stat()
        assert (os.major(found.st_rdev), os.minor(found.st_rdev)) == (each.major, each.minor)
    assert all(Path(each.host_path).exists() for each in prepared.edits.mounts)


async def test_nothing_of_a_gpu_is_open_between_two_scans(hardware: NvmlGpus, tmp_path: Path) -> None:
    """An open handle would keep administrators from resetting the GPU and from unloading the driver."""
    hardware.close()
    driver = make_driver("mode: whole")
    driver.set_context(DriverContext("node-1", tmp_path))
    try:
        await driver.discover()
        assert list_open_nodes() != []
        while list_open_nodes():
            await asyncio.sleep(0.1)
        assert await driver.discover()
    finally:
        await driver.shutdown()
        hardware.open()


def test_a_gpu_without_errors_needs_no_recovery(hardware: NvmlGpus, gpu: Gpu) -> None:
    assert hardware.recovery_action(gpu.uuid) in {RecoveryAction.NONE, None}
    while (event := hardware.wait_event(0.2)) is not None:
        assert event.gpu
