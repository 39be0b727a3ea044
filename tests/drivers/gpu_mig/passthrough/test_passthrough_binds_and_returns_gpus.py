"""A claim for a GPU of the type vfio binds its card to vfio-pci, and returns it at the end."""

from pathlib import Path

import pytest
from msgspec.structs import force_setattr, replace

from dradriver import DraError
from dradriver_gpu_mig import GpuConfig, VfioDeviceConfig
from dradriver_gpu_mig.configs import IommuConfig
from dradriver_gpu_mig.instances import DeviceRecord, Holder, RecordState
from tests.drivers.gpu_mig.passthrough.machine import AUDIO, DEVICE, GPU, MACHINE, PassthroughHarness

ON_HOST = ("nvidia", "snd_hda_intel")
PASSED = ("vfio-pci", "vfio-pci")


def test_a_gpu_is_bound_to_vfio_and_returned(tmp_path: Path) -> None:
    with PassthroughHarness(tmp_path) as node:
        claim = node.allocate_device(MACHINE)
        prepared = node.prepare(claim)
        assert node.drivers() == PASSED
        assert [each.path for each in prepared.edits.device_nodes] == ["/dev/vfio/17"]
        assert prepared.edits.env == ("NVIDIA_VISIBLE_DEVICES=void",)
        (record,) = node.records()
        assert record.state is RecordState.READY
        node.unprepare(claim)
        assert node.drivers() == ON_HOST
        assert node.tree.override(GPU) == node.tree.override(AUDIO) == "(null)"
        assert node.records() == []
        assert DEVICE in node.devices


def test_a_gpu_is_offered_to_virtual_machines_only_if_the_setting_says_so(tmp_path: Path) -> None:
    with PassthroughHarness(tmp_path, settings="passthrough: false") as node:
        assert MACHINE not in node.devices


def test_the_attributes_are_those_of_nvidias_driver(tmp_path: Path) -> None:
    with PassthroughHarness(tmp_path) as node:
        device = node.devices[MACHINE]
        values = {name.rpartition("/")[2]: value for name, value in device.attributes.items()}
        assert set(values) == {
            "type", "uuid", "productName", "vendorID", "deviceID", "iommuFDEnabled", "pciBusID", "pcieRoot",
            "numaNode",
        }  # fmt: skip
        assert (values["type"].string, values["vendorID"].string, values["deviceID"].string) == (
            "vfio",
            "0x10de",
            "0x2331",
        )
        assert values["iommuFDEnabled"].bool_value is False
        assert int(device.capacity["addressableMemory"].value) == 128 << 30


@pytest.mark.parametrize("mode", ["static", "dynamic", "whole"])
@pytest.mark.parametrize("model", ["t4", "h100-80"])
def test_the_gpu_and_the_virtual_machine_exclude_each_other_in_every_mode(
    tmp_path: Path, mode: str, model: str
) -> None:
    with PassthroughHarness(tmp_path, model, settings=f"mode: {mode}, migSwitching: onDemand") as node:
        devices = node.devices
        (machine,) = devices[MACHINE].consumes_counters
        (counters,) = (each for each in node.pool.counter_sets if each.name == machine.counter_set)
        assert machine.counters.keys() == counters.counters.keys()
        groups = {name: device.consumes_counters[0].compatibility_groups for name, device in devices.items()}
        assert all(device.consumes_counters for device in devices.values())
        assert all(set(groups[MACHINE]).isdisjoint(each) for name, each in groups.items() if name != MACHINE)


def test_a_passed_gpu_stays_published_and_is_not_lost(tmp_path: Path) -> None:
    with PassthroughHarness(tmp_path) as node:
        before = node.devices
        claim = node.allocate_device(MACHINE)
        node.prepare(claim)
        for _ in range(3):
            assert node.devices.keys() == before.keys()
            assert node.taints() == {}
        node.restart()
        assert node.devices.keys() == before.keys()
        assert node.taints() == {}
        assert node.drivers() == PASSED
        node.unprepare(claim)
        assert node.drivers() == ON_HOST


def test_a_passed_gpu_is_not_prepared_as_a_gpu(tmp_path: Path) -> None:
    with PassthroughHarness(tmp_path) as node:
        node.prepare(node.allocate_device(MACHINE))
        with pytest.raises(DraError, match="no compatibility group in common"):
            node.prepare(node.allocate_device(DEVICE))


@pytest.mark.parametrize(
    ("iommu", "has_iommufd", "paths"),
    [
        (IommuConfig(enable_api_device=True), True, ["/dev/vfio/17", "/dev/vfio/vfio"]),
        (IommuConfig(backend_policy="PreferIommuFD"), True, ["/dev/vfio/devices/vfio0"]),
        (
            IommuConfig(backend_policy="PreferIommuFD", enable_api_device=True),
            True,
            ["/dev/vfio/devices/vfio0", "/dev/iommu"],
        ),
        (IommuConfig(backend_policy="PreferIommuFD"), False, ["/dev/vfio/17"]),
    ],
)
def test_the_configuration_chooses_the_interface_of_the_iommu(
    tmp_path: Path, iommu: IommuConfig, has_iommufd: bool, paths: list[str]
) -> None:
    with PassthroughHarness(tmp_path) as node:
        if has_iommufd:
            (node.root / "dev/iommu").touch()
        claim = node.allocate_blindly(("node-1", MACHINE), config=VfioDeviceConfig(iommu=iommu))
        assert [each.path for each in node.prepare(claim).edits.device_nodes] == paths


def test_configurations_of_the_other_kind_are_refused(tmp_path: Path) -> None:
    with PassthroughHarness(tmp_path) as node:
        claim = node.allocate_blindly(("node-1", MACHINE), config=GpuConfig())
        with pytest.raises(DraError, match="needs VfioDeviceConfig"):
            node.prepare(claim)
        node.unprepare(claim)
        with pytest.raises(DraError, match="needs a device of the type vfio"):
            node.prepare(node.allocate_blindly(("node-1", DEVICE), config=VfioDeviceConfig()))


def test_admin_access_gets_no_node_of_a_virtual_machine(tmp_path: Path) -> None:
    with PassthroughHarness(tmp_path) as node:
        claim = node.allocate_device(MACHINE)
        for result in claim.results:
            force_setattr(result, "admin_access", True)
        assert node.prepare(claim).edits.device_nodes == ()
        assert node.drivers() == ON_HOST


# --- refused ---------------------------------------------------------------------------------------


def refuse(node: PassthroughHarness, reason: str) -> None:
    claim = node.allocate_device(MACHINE)
    with pytest.raises(DraError, match=reason):
        node.prepare(claim)
    node.unprepare(claim)
    assert node.drivers() == ON_HOST
    assert node.records() == []


def test_an_iommu_group_with_another_card_is_refused_by_name(tmp_path: Path) -> None:
    with PassthroughHarness(tmp_path) as node:
        node.tree.add("0000:00:01.0", 17, "pcieport", pci_class="0x060400")
        node.tree.add("0000:08:00.0", 17, "nvme", pci_class="0x010802")
        refuse(node, r"IOMMU group 17 also contains 0000:08:00.0 \(driver nvme\)")


def test_a_bridge_in_the_group_keeps_its_driver(tmp_path: Path) -> None:
    with PassthroughHarness(tmp_path) as node:
        node.tree.add("0000:00:01.0", 17, "pcieport", pci_class="0x060400")
        node.prepare(node.allocate_device(MACHINE))
        assert node.tree.driver("0000:00:01.0") == "pcieport"
        assert node.drivers() == PASSED


def test_a_gpu_that_a_process_has_open_is_refused_by_name(tmp_path: Path) -> None:
    with PassthroughHarness(tmp_path) as node:
        node.open_node("/dev/nvidia0")
        refuse(node, r"/dev/nvidia0 is open in 812 \(nvidia-persiste\)")


def test_a_gpu_of_another_claim_is_refused(tmp_path: Path) -> None:
    with PassthroughHarness(tmp_path, settings="mode: whole") as node:
        node.pool  # noqa: B018 - opens the node
        node.record_store.put(
            DeviceRecord(
                device=DEVICE, holders=(Holder(claim="another"),), gpu=node.gpu, boot=node.record_store.boot
            )
        )
        with pytest.raises(DraError, match=f"other claims have {DEVICE}"):
            node.prepare(node.allocate_device(MACHINE))
        assert node.drivers() == ON_HOST


def test_a_node_without_the_module_or_with_virtual_functions_is_refused(tmp_path: Path) -> None:
    with PassthroughHarness(tmp_path) as node:
        numvfs = node.tree.sysfs / "bus/pci/devices" / GPU / "sriov_numvfs"
        numvfs.write_text("4\n")
        refuse(node, "it has 4 virtual functions")
        numvfs.write_text("0\n")
        (node.tree.sysfs / "bus/pci/drivers/vfio-pci").rmdir()
        refuse(node, "run modprobe vfio-pci")


def test_a_gpu_without_an_iommu_group_is_not_offered(tmp_path: Path) -> None:
    with PassthroughHarness(tmp_path) as node:
        (node.tree.sysfs / "bus/pci/devices" / GPU / "iommu_group").unlink()
        assert MACHINE not in node.devices


def test_a_gpu_is_not_returned_while_a_virtual_machine_runs(tmp_path: Path) -> None:
    with PassthroughHarness(tmp_path) as node:
        claim = node.allocate_device(MACHINE)
        node.prepare(claim)
        node.open_node("/dev/vfio/17", name="qemu-system-x86")
        with pytest.raises(DraError, match=r"used through VFIO by 812 \(qemu-system-x86\)"):
            node.unprepare(claim)
        assert node.drivers() == PASSED
        (node.root / "proc/812/fd/3").unlink()
        node.unprepare(claim)
        assert node.drivers() == ON_HOST


def test_a_driver_that_refuses_the_gpu_gets_nothing_and_the_host_gets_it_back(tmp_path: Path) -> None:
    with PassthroughHarness(tmp_path) as node:
        probe = node.kernel._do_probe

        def refuse_vfio(address: str) -> None:
            if node.tree.override(address) == "(null)" or address == AUDIO:
                probe(address)

        node.kernel._do_probe = refuse_vfio  # type: ignore[method-assign]
        refuse(node, "the kernel does not bind it to vfio-pci")


def test_a_function_that_had_no_driver_gets_none_back(tmp_path: Path) -> None:
    with PassthroughHarness(tmp_path) as node:
        node.tree.add("0000:07:00.2", 17, None, pci_class="0x0c0330")
        claim = node.allocate_device(MACHINE)
        node.prepare(claim)
        assert node.tree.driver("0000:07:00.2") == "vfio-pci"
        node.unprepare(claim)
        assert node.tree.driver("0000:07:00.2") is None
        assert node.tree.override("0000:07:00.2") == "(null)"


def test_mig_is_switched_off_before_a_gpu_is_passed(tmp_path: Path) -> None:
    with PassthroughHarness(tmp_path, settings="mode: dynamic, migSwitching: onDemand", mig=True) as node:
        claim = node.allocate_device(MACHINE)
        node.prepare(claim)
        assert node.drivers() == PASSED
        node.restart()
        node.unprepare(claim)
        assert node.drivers() == ON_HOST


def test_a_gpu_whose_return_was_interrupted_is_returned_before_the_next_claim_gets_it(tmp_path: Path) -> None:
    with PassthroughHarness(tmp_path) as node:
        earlier = node.allocate_device(MACHINE)
        node.prepare(earlier)
        (record,) = node.records()
        node.unprepare(earlier)
        node.record_store.put(replace(record, state=RecordState.DESTROYING))
        claim = node.allocate_device(MACHINE)
        node.prepare(claim)
        assert node.drivers() == PASSED
        assert [each.claims for each in node.records()] == [[claim.metadata.uid]]


def test_after_a_reboot_the_gpu_is_free(tmp_path: Path) -> None:
    with PassthroughHarness(tmp_path) as node:
        node.prepare(node.allocate_device(MACHINE))
        (path,) = (node.driver.data_dir / "devices").glob("*.json")
        path.write_text(path.read_text().replace(node.record_store.boot, "an earlier boot"))
        assert node.records() == []
