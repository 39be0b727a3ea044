"""MIG is switched for claims if the settings allow it and nothing uses the GPU. Other switches are noticed."""

from pathlib import Path

import pytest

from dradriver import DraError
from dradriver_gpu_mig.card import Process
from dradriver_gpu_mig.instances import DeviceRecord, Holder
from tests.drivers.gpu_mig.nodes import GpuHarness

WHOLE = "gpu-0000-07-00-0"
ON_DEMAND = "{mode: dynamic, migSwitching: onDemand}"


def is_mig_enabled(node: GpuHarness) -> bool:
    mig = node.cards.gpus()[0].mig
    assert mig is not None
    return mig.current


def test_mig_is_switched_for_the_claim_that_needs_it(tmp_path: Path) -> None:
    with GpuHarness(tmp_path, "h100-80", settings=ON_DEMAND) as node:
        whole, part = node.allocate_device(WHOLE), node.allocate_device(f"{WHOLE}-mig-1g-10gb-0")
        node.prepare(whole)
        assert not is_mig_enabled(node)
        with pytest.raises(DraError):
            node.prepare(part)
        node.unprepare(whole)
        node.prepare(part)
        assert is_mig_enabled(node)


def test_mig_is_not_switched_under_a_process_or_a_foreign_instance(tmp_path: Path) -> None:
    with GpuHarness(tmp_path, "h100-80", settings=ON_DEMAND) as node:
        whole = node.allocate_device(WHOLE)
        node.cards.set_processes(node.gpu, [Process(7, None, None, None)])
        with pytest.raises(DraError, match="processes 7 use it"):
            node.prepare(whole)
        node.cards.set_processes(node.gpu, [])
        node.create_foreign_instance("1g.10gb", 6)
        with pytest.raises(DraError, match="instances of other programs"):
            node.prepare(whole)
        assert is_mig_enabled(node)


def test_a_whole_gpu_with_a_foreign_instance_is_tainted_as_in_use(tmp_path: Path) -> None:
    with GpuHarness(tmp_path, "h100-80", settings="{mode: whole, migSwitching: onDemand}") as node:
        assert node.taints() == {}
        node.create_foreign_instance("1g.10gb", 6)
        assert node.taints() == {WHOLE: {("gpu.nvidia.com/in-use", "foreign", "NoSchedule")}}


def test_a_claim_goes_on_where_another_one_has_just_switched_mig(tmp_path: Path) -> None:
    with GpuHarness(tmp_path, "h100-80", settings=ON_DEMAND, mig=False) as node:
        claim = node.allocate_device(f"{WHOLE}-mig-1g-10gb-0")
        record_store, controls, gpu = node.record_store, node.cards, node.gpu
        other = DeviceRecord(
            device=f"{WHOLE}-mig-3g-40gb-4", holders=(Holder(claim="another"),), gpu=gpu, boot=record_store.boot
        )

        def hook(called: str, when: str) -> None:
            if (called, when) == ("gpu", "after"):  # the end of a look
                record_store.put(other)
                controls.set_mig_mode(gpu, enabled=True)

        node.driver_hardware.hook = hook
        node.prepare(claim)
        assert node.instances()[gpu] == [("1g.10gb", 0, 1)]


def test_mig_is_not_switched_without_the_setting(tmp_path: Path) -> None:
    with GpuHarness(tmp_path, "h100-80", settings="mode: dynamic") as node:
        with pytest.raises(DraError, match="is not offered by the driver"):
            node.prepare(node.allocate_device(WHOLE))
        assert is_mig_enabled(node)


def test_a_claim_keeps_a_device_that_the_operator_no_longer_offers(tmp_path: Path) -> None:
    with GpuHarness(tmp_path) as node:
        claim = node.allocate_device(f"{WHOLE}-mig-1g-5gb-0")
        node.prepare(claim)
        node.settings = "mode: whole"
        node.restart()
        assert node.devices == {}
        assert node.first_gpu_instances == [("1g.5gb", 0, 1)]
        node.unprepare(claim)
        assert node.first_gpu_instances == []


@pytest.mark.parametrize("restarted", [False, True])
def test_mig_that_is_switched_off_by_hand_under_a_claim_evicts_the_pods(
    tmp_path: Path, *, restarted: bool
) -> None:
    with GpuHarness(tmp_path, "h100-80") as node:
        device = f"{WHOLE}-mig-1g-10gb-0"
        claim = node.allocate_device(device)
        node.prepare(claim)
        node.cards.set_mig_mode(node.gpu, enabled=False)
        if restarted:
            node.restart()
        assert node.taints() == {device: {("gpu.nvidia.com/instance-gone", "", "NoExecute")}}
        assert set(node.devices) == {device, WHOLE}
        node.unprepare(claim)
        assert list(node.devices) == [WHOLE]
        assert node.taints() == {}


def test_mig_that_is_switched_on_by_hand_under_a_claim_for_the_whole_gpu_evicts_the_pods(
    tmp_path: Path,
) -> None:
    with GpuHarness(tmp_path, "h100-80", mig=False) as node:
        claim = node.allocate_device(WHOLE)
        node.prepare(claim)
        node.cards.set_mig_mode(node.gpu, enabled=True)
        node.restart()
        assert node.taints()[WHOLE] == {("gpu.nvidia.com/mig-switched", "", "NoExecute")}
        node.unprepare(claim)
        assert WHOLE not in node.devices
        assert node.taints() == {}
