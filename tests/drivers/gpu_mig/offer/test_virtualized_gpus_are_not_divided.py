"""A vGPU is offered as its hypervisor made it, and a GPU that serves vGPUs is not offered."""

from pathlib import Path

import pytest

from dradriver_gpu_mig.card import Fabric, Virtualization
from tests.drivers.gpu_mig.nodes import GpuHarness

CLUSTER = "c1c1c1c1-c1c1-c1c1-c1c1-c1c1c1c1c1c1"
GPU = "gpu-0000-07-00-0"
SETTINGS = "{mode: dynamic, migSwitching: onDemand}"


def start(folder: Path, mode: Virtualization, *models: str, mig: bool = True) -> GpuHarness:
    """A node whose first GPU has a virtualization mode, which never changes while the driver is loaded."""
    node = GpuHarness(folder, *models, settings=SETTINGS, mig=mig)
    node.cards.set_virtualization(node.gpu, mode)
    return node


def test_a_vgpu_with_mig_offers_its_instances_and_creates_none(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with start(tmp_path, Virtualization.VGPU, "h100-80") as node:
        node.create_foreign_instance("3g.40gb", 4)
        assert list(node.devices) == [f"{GPU}-mig-3g-40gb-4"]
        assert "only existing MIG devices are offered" in caplog.text


def test_mig_is_never_switched_on_a_vgpu(tmp_path: Path) -> None:
    with start(tmp_path, Virtualization.VGPU, "h100-80", mig=False) as node:
        assert list(node.devices) == [GPU]
        claim = node.allocate_device(GPU)
        node.prepare(claim)
        node.unprepare(claim)
        mig = node.cards.gpus()[0].mig
        assert mig is not None
        assert not mig.pending


@pytest.mark.parametrize("mode", [Virtualization.HOST_VGPU, Virtualization.HOST_VSGA])
def test_a_gpu_that_serves_virtual_machines_is_not_offered(
    tmp_path: Path, mode: Virtualization, caplog: pytest.LogCaptureFixture
) -> None:
    with start(tmp_path, mode, "h100-80", "h100-80", mig=False) as node:
        assert {name.partition("-mig-")[0] for name in node.devices} == {"gpu-0000-0f-00-0"}
        assert "it serves virtual machines" in caplog.text


def test_a_gpu_that_was_passed_to_this_machine_is_divided_as_any_other(tmp_path: Path) -> None:
    with (
        start(tmp_path / "bare", Virtualization.NONE, "h100-80") as bare,
        start(tmp_path / "guest", Virtualization.PASSTHROUGH, "h100-80") as guest,
    ):
        assert set(guest.devices) == set(bare.devices)


def test_addressing_mode_and_fabric_are_attributes(tmp_path: Path) -> None:
    with GpuHarness(tmp_path, "gh200-96", settings=SETTINGS) as node:
        node.cards.set_memory_and_fabric(node.gpu, "ATS", Fabric(CLUSTER, 3))
        whole, mig = node.devices[GPU].attributes, node.devices[f"{GPU}-mig-1g-12gb-0"].attributes
        assert (whole["addressingMode"].string, mig["addressingMode"].string) == ("ATS", "ATS")
        assert (whole["clusterUUID"].string, whole["cliqueID"].int_value) == (CLUSTER, 3)
        assert "cliqueID" not in mig  # a MIG device cannot use NVLink


def test_a_gpu_without_a_fabric_has_no_attributes_of_it(tmp_path: Path) -> None:
    with GpuHarness(tmp_path, "h100-80", mig=False) as node:
        node.cards.set_memory_and_fabric(node.gpu, "", Fabric("", 0))
        assert not {"addressingMode", "clusterUUID", "cliqueID"} & set(node.devices[GPU].attributes)
