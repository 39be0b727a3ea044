"""No failure or kill leaves an instance behind or destroys an instance of another program."""

import fcntl
from pathlib import Path

import pytest
from msgspec.structs import replace

from dradriver import DraError
from dradriver.testing import ProcessDiedError
from dradriver_gpu_mig.card import GpuCards, GpuError, InUseError, Placement, Process
from dradriver_gpu_mig.card.simulator import SimulatedGpus
from dradriver_gpu_mig.instances import (
    DeviceRecord,
    Holder,
    InstanceReconciler,
    ProfilePlacement,
    RecordState,
    RecordStore,
)
from tests.drivers.gpu_mig.mig_devices import list_mig_devices
from tests.drivers.gpu_mig.nodes import GpuHarness

WHOLE = "gpu-0000-07-00-0"
DEVICE = f"{WHOLE}-mig-3g-20gb-4"
_UNKNOWN = 999
"""NVML_ERROR_UNKNOWN"""
CALLS = ("create_gpu_instance", "create_compute_instance")


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("call", CALLS)
def test_a_failed_creation_is_rolled_back_and_repeated_by_the_next_prepare(
    tmp_path: Path, call: str, moment: str
) -> None:
    failing = True

    def hook(called: str, when: str) -> None:
        if failing and (called, when) == (call, moment):
            raise GpuError("unknown error", call)

    with GpuHarness(tmp_path) as node:
        claim = node.allocate_device(DEVICE)
        node.driver_hardware.hook = hook
        with pytest.raises(DraError, match="unknown error"):
            node.prepare(claim)
        failing = False
        assert node.first_gpu_instances == []
        assert node.records() == []
        node.prepare(claim)
        assert node.first_gpu_instances == [("3g.20gb", 4, 1)]


def test_an_instance_in_use_is_tried_again(tmp_path: Path) -> None:
    with GpuHarness(tmp_path, settings="{mode: dynamic, destroySeconds: 0.3}") as node:
        claim = node.allocate_device(DEVICE)
        node.prepare(claim)
        (mig,) = list_mig_devices(node.cards, node.gpu)
        node.cards.set_processes(node.gpu, [Process(7, None, mig.gpu_instance, mig.compute_instance)])
        with pytest.raises(InUseError):
            node.unprepare(claim)
        assert node.first_gpu_instances == [("3g.20gb", 4, 1)]
        assert [record.state for record in node.records()] == [RecordState.DESTROYING]
        node.cards.set_processes(node.gpu, [])
        node.unprepare(claim)
        assert node.first_gpu_instances == []
        assert node.records() == []


def test_one_instance_in_use_keeps_no_other_of_its_claim(tmp_path: Path) -> None:
    with GpuHarness(tmp_path, settings="{mode: dynamic, destroySeconds: 0}") as node:
        claim = node.allocate_blindly(("node-1", DEVICE), ("node-1", "gpu-0000-07-00-0-mig-1g-5gb-0"))
        node.prepare(claim)
        (used,) = (each for each in node.cards.gpu_instances(node.gpu) if each.placement.start == 0)
        node.cards.set_processes(node.gpu, [Process(7, None, used.id, 0)])
        with pytest.raises(InUseError):
            node.unprepare(claim)
        assert node.first_gpu_instances == [("1g.5gb", 0, 1)]
        node.cards.set_processes(node.gpu, [])
        node.unprepare(claim)
        assert node.first_gpu_instances == []


def test_a_place_in_use_is_destroyed_before_it_is_made_anew(tmp_path: Path) -> None:
    with GpuHarness(tmp_path, settings="{mode: dynamic, destroySeconds: 0}") as node:
        first = node.allocate_device(DEVICE)
        node.prepare(first)
        (mig,) = list_mig_devices(node.cards, node.gpu)
        node.cards.set_processes(node.gpu, [Process(7, None, mig.gpu_instance, mig.compute_instance)])
        with pytest.raises(InUseError):
            node.unprepare(first)
        with pytest.raises(InUseError):
            node.prepare(first)
        node.cards.set_processes(node.gpu, [])
        node.prepare(first)
        assert [(record.state, record.claims) for record in node.records()] == [
            (RecordState.READY, [first.metadata.uid])
        ]


def test_an_incomplete_instance_is_destroyed_at_the_next_start(tmp_path: Path) -> None:
    def hook(called: str, when: str) -> None:
        if called == "create_gpu_instance" and when == "after":
            raise ProcessDiedError

    with GpuHarness(tmp_path) as node:
        node.driver_hardware.hook = hook
        with pytest.raises(DraError, match="ProcessDied"):
            node.prepare(node.allocate_device(DEVICE))
        assert node.first_gpu_instances == [("3g.20gb", 4, 0)]
        node.restart()
        assert node.first_gpu_instances == []
        assert node.records() == []


async def test_a_device_that_got_a_new_claim_meanwhile_is_not_destroyed_for_the_old_one(tmp_path: Path) -> None:
    """In a rolling update the last process may still wait for an instance that the next one has dealt with."""
    hardware = SimulatedGpus()
    async with GpuCards(hardware) as cards:
        reconciler = InstanceReconciler(cards, RecordStore(tmp_path, "boot"))
        (gpu,) = hardware.gpus()
        new = DeviceRecord(
            device=DEVICE,
            holders=(Holder(claim="new"),),
            gpu=gpu.uuid,
            instance=ProfilePlacement(9, Placement(4, 4)),
        )
        await reconciler.create(new)
        await reconciler.destroy(replace(new, holders=(Holder(claim="old"),)), "old", 0)
        assert len(list_mig_devices(hardware, gpu.uuid)) == 1


def test_an_unreadable_gpu_does_not_affect_the_others(tmp_path: Path) -> None:
    with GpuHarness(tmp_path, "a100-40", "a100-40") as node:
        devices, sick = list(node.devices), node.gpu
        node.cards.fail_calls(sick, _UNKNOWN)
        assert list(node.devices) == devices
        assert node.taints() == {}
        node.prepare(node.allocate_device("gpu-0000-0f-00-0-mig-1g-5gb-0"))
        with pytest.raises(DraError, match=f"gpu of {sick}"):
            node.prepare(node.allocate_device(DEVICE))


def test_a_damaged_record_costs_its_own_device_and_no_other(tmp_path: Path) -> None:
    with GpuHarness(tmp_path) as node:
        node.prepare(node.allocate_device(DEVICE))
        (path,) = node.driver.data_dir.glob("devices/*.json")
        path.write_bytes(path.read_bytes()[:20])
        node.prepare(node.allocate_device(f"{WHOLE}-mig-1g-5gb-0"))
        assert node.taints()[DEVICE] == {("gpu.nvidia.com/in-use", "foreign", "NoSchedule")}
        assert f"{WHOLE}-mig-1g-5gb-0" not in node.taints()
        assert node.first_gpu_instances == [("3g.20gb", 4, 1), ("1g.5gb", 0, 1)]
        assert path.with_suffix(".damaged").exists()


def test_a_folder_that_cant_be_written_is_named_and_nothing_is_made(tmp_path: Path) -> None:
    with GpuHarness(tmp_path) as node:
        folder = node.driver.data_dir / "devices"
        folder.write_text("")
        with pytest.raises(DraError, match=f"{folder}.* cannot be opened"):
            node.prepare(node.allocate_device(DEVICE))
        assert node.first_gpu_instances == []


def test_a_device_that_another_process_works_on_is_left_to_it(tmp_path: Path) -> None:
    with GpuHarness(tmp_path) as node:
        record_store = node.record_store
        half = DeviceRecord(
            device=DEVICE,
            holders=(Holder(claim="another"),),
            gpu=node.gpu,
            instance=ProfilePlacement(9, Placement(4, 4)),
            boot=record_store.boot,
        )
        record_store.put(half)
        with (node.driver.data_dir / "devices" / f"{DEVICE}.lock").open("w") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            node.discover()
            assert [record.claims for record in node.records()] == [["another"]]
        node.discover()
        assert node.records() == []


def test_a_reset_takes_the_instance_its_pods_are_evicted_and_the_next_prepare_makes_it_anew(
    tmp_path: Path,
) -> None:
    with GpuHarness(tmp_path) as node:
        claim = node.allocate_device(DEVICE)
        node.prepare(claim)
        node.cards.reset(node.gpu)
        assert node.taints() == {DEVICE: {("gpu.nvidia.com/instance-gone", "", "NoExecute")}}
        node.unprepare(claim)
        assert node.taints() == {}
        node.prepare(claim)
        assert node.first_gpu_instances == [("3g.20gb", 4, 1)]


@pytest.mark.parametrize("restarted", [False, True])
def test_a_mig_device_that_is_destroyed_by_hand_under_its_claim_evicts_the_pods(
    tmp_path: Path, *, restarted: bool
) -> None:
    with GpuHarness(tmp_path, settings="mode: static") as node:
        node.create_foreign_instance("3g.20gb", 4)
        claim = node.allocate_profile()
        node.prepare(claim)
        node.cards.reset(node.gpu)
        if restarted:
            node.restart()
        assert node.taints() == {DEVICE: {("gpu.nvidia.com/instance-gone", "", "NoExecute")}}
        node.unprepare(claim)
        assert node.devices == {}


def test_a_lost_gpu_keeps_no_pod_from_ending_and_is_cleaned_when_it_is_back(tmp_path: Path) -> None:
    with GpuHarness(tmp_path) as node:
        claim = node.allocate_device(DEVICE)
        node.prepare(claim)
        gpu = node.gpu
        with node.store.change() as state:
            state.gpus[0].lost = True
        node.unprepare(claim)
        with node.store.change() as state:
            state.gpus[0].lost = False
        node.discover()
        assert node.instances()[gpu] == []
        assert node.records() == []


def test_a_device_that_is_recorded_for_another_claim_is_refused(tmp_path: Path) -> None:
    with GpuHarness(tmp_path, mig=False) as node:
        claim = node.allocate_device(WHOLE)
        record_store = node.record_store
        record_store.put(
            DeviceRecord(
                device=WHOLE,
                holders=(Holder(claim="another"),),
                gpu=node.gpu,
                state=RecordState.READY,
                boot=record_store.boot,
            )
        )
        with pytest.raises(DraError, match="in use by the claim with UID another"):
            node.prepare(claim)
