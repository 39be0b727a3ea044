"""Contract of every implementation of `GpuHardware`; subclasses provide the implementation."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Protocol

import pytest

from dradriver_gpu_mig.card import (
    ComputeMode,
    Event,
    EventKind,
    Fabric,
    Gpu,
    GpuError,
    GpuHardware,
    GpuInstance,
    GpuLostError,
    GpuNotFoundError,
    InstanceNotFoundError,
    InsufficientResourcesError,
    InUseError,
    InvalidArgumentError,
    MigDevice,
    NotSupportedError,
    Placement,
    Process,
    Profile,
    RecoveryAction,
    System,
    Virtualization,
)
from tests.drivers.gpu_mig.mig_devices import list_mig_devices
from tests.drivers.gpu_mig.shim.controls import CLUSTER


@dataclass(frozen=True)
class Reading:
    """All that can be read of the GPUs of a node without changing anything; lists are by GPU."""

    system: System
    gpus: tuple[Gpu, ...]
    profiles: list[tuple[Profile, ...]]
    gpu_instances: list[tuple[GpuInstance, ...]]
    mig_devices: list[tuple[MigDevice, ...]]


def read(hardware: GpuHardware) -> Reading:
    gpus = hardware.gpus()
    return Reading(
        hardware.system(),
        gpus,
        [hardware.profiles(gpu.uuid) for gpu in gpus],
        [hardware.gpu_instances(gpu.uuid) for gpu in gpus],
        [list_mig_devices(hardware, gpu.uuid) for gpu in gpus],
    )


class ReadingSuite:
    """Nothing here changes a card."""

    def test_gpus_have_different_uuids_and_addresses(self, reading: Reading) -> None:
        addresses = [gpu.pci_address for gpu in reading.gpus]
        assert all(re.fullmatch(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.0", address) for address in addresses)
        assert addresses == sorted(set(addresses))
        assert len({gpu.uuid for gpu in reading.gpus}) == len(reading.gpus)
        assert all(gpu.uuid.startswith("GPU-") for gpu in reading.gpus)

    def test_gpus_and_driver_are_described(self, reading: Reading) -> None:
        assert re.fullmatch(r"\d+(\.\d+)+", reading.system.driver_version)
        for gpu in reading.gpus:
            assert gpu.name
            assert gpu.architecture
            assert gpu.compute_capability >= (3, 0)
            assert gpu.memory > 1 << 30

    def test_profiles_are_smallest_first_and_lie_on_the_card(self, reading: Reading) -> None:
        for gpu, profiles in zip(reading.gpus, reading.profiles, strict=True):
            assert (gpu.mig is not None) or not profiles
            for one, other in pairwise(profiles):
                assert one.memory_slices <= other.memory_slices
                assert one.memory <= other.memory
            for profile in profiles:
                assert profile.placements == tuple(sorted(set(profile.placements)))
                assert {place.size for place in profile.placements} == {profile.memory_slices}
                assert profile.memory < gpu.memory
                assert re.fullmatch(rf"{profile.slices}g\.\d+gb([+-][a-z.]+)?", profile.name)
            if profiles:
                assert profiles[-1].placements == (Placement(0, profiles[-1].memory_slices),)
                ends = (place.start + place.size for each in profiles for place in each.placements)
                assert max(ends) == profiles[-1].memory_slices

    def test_mig_devices_live_in_gpu_instances_of_known_profiles(self, reading: Reading) -> None:
        for profiles, instances, devices in zip(
            reading.profiles, reading.gpu_instances, reading.mig_devices, strict=True
        ):
            places = {profile.id: profile.placements for profile in profiles}
            assert all(each.placement in places[each.profile_id] for each in instances)
            assert {device.gpu_instance for device in devices} <= {each.id for each in instances}


class Bench(Protocol):
    """One hardware, and controls of it. GPUs are named by index."""

    @property
    def hardware(self) -> GpuHardware: ...
    def report_error(self, gpu: int, kind: EventKind, *, xid: int = ..., gpu_instance: int = ...) -> None: ...
    def lose(self, gpu: int) -> None: ...
    def reset(self, gpu: int) -> None: ...
    def set_processes(self, gpu: int, processes: Sequence[Process]) -> None: ...
    def remove(self, gpu: int) -> None: ...
    def fail_calls(self, gpu: int, code: int) -> None: ...
    def fail_placements(self, gpu: int, profile: int, code: int) -> None: ...
    def set_recovery_action(self, gpu: int, action: RecoveryAction | None) -> None: ...
    def set_virtualization(self, gpu: int, mode: Virtualization) -> None: ...
    def set_memory_and_fabric(self, gpu: int, addressing_mode: str, fabric: Fabric | None) -> None: ...


def reopen(hardware: GpuHardware) -> None:
    """What never changes while the driver is loaded is read again."""
    hardware.close()
    hardware.open()


Benches = Callable[..., Bench]


class CardSuite:
    """What cards do; `benches(*cards, mig=True)` makes them."""

    @pytest.fixture
    def bench(self, benches: Benches) -> Bench:
        return benches("a100-40")

    @pytest.fixture
    def gpu(self, bench: Bench) -> str:
        return bench.hardware.gpus()[0].uuid

    def test_a_gpu_instance_alone_is_no_mig_device(self, bench: Bench, gpu: str) -> None:
        made = make(bench, gpu, "3g.20gb", 4)
        assert bench.hardware.gpu_instances(gpu) == (made,)
        assert made.placement == Placement(4, 4)
        assert bench.hardware.find_gpu_instance(gpu, made.profile_id, made.placement) == made
        assert list_mig_devices(bench.hardware, gpu) == ()

    def test_its_compute_instance_makes_it_one(self, bench: Bench, gpu: str) -> None:
        made = make(bench, gpu, "3g.20gb", 0)
        device = bench.hardware.create_compute_instance(gpu, made)
        assert device.gpu_instance == made.id
        assert device.uuid.startswith("MIG-")
        assert list_mig_devices(bench.hardware, gpu) == (device,)

    def test_the_same_instance_has_the_same_uuid_again(self, bench: Bench, gpu: str) -> None:
        made = make(bench, gpu, "1g.5gb", 2)
        first = bench.hardware.create_compute_instance(gpu, made)
        bench.hardware.destroy_compute_instance(gpu, made.id, first.compute_instance)
        bench.hardware.destroy_gpu_instance(gpu, made.id)
        again = make(bench, gpu, "1g.5gb", 2)
        assert bench.hardware.create_compute_instance(gpu, again) == first

    def test_a_place_is_given_once(self, bench: Bench, gpu: str) -> None:
        make(bench, gpu, "2g.10gb", 2)
        with pytest.raises(InsufficientResourcesError):
            make(bench, gpu, "3g.20gb", 0)
        make(bench, gpu, "3g.20gb", 4)

    def test_media_extensions_are_given_once(self, bench: Bench, gpu: str) -> None:
        make(bench, gpu, "1g.5gb+me", 0)
        with pytest.raises(InsufficientResourcesError):
            make(bench, gpu, "1g.5gb+me", 1)

    def test_a_card_is_full_when_all_compute_slices_are_given(self, bench: Bench, gpu: str) -> None:
        for start in range(7):
            make(bench, gpu, "1g.5gb", start)
        assert len(bench.hardware.gpu_instances(gpu)) == 7
        for profile in bench.hardware.profiles(gpu):
            for place in profile.placements:
                with pytest.raises(InsufficientResourcesError):
                    bench.hardware.create_gpu_instance(gpu, profile.id, place)

    def test_a_place_that_the_profile_lacks_is_refused(self, bench: Bench, gpu: str) -> None:
        (profile,) = (each for each in bench.hardware.profiles(gpu) if each.name == "3g.20gb")
        for place in (Placement(2, 4), Placement(0, 2)):
            with pytest.raises(InvalidArgumentError):
                bench.hardware.create_gpu_instance(gpu, profile.id, place)
        with pytest.raises(NotSupportedError):
            bench.hardware.create_gpu_instance(gpu, 77, Placement(0, 4))

    def test_a_gpu_instance_has_one_whole_compute_instance(self, bench: Bench, gpu: str) -> None:
        made = make(bench, gpu, "2g.10gb", 0)
        bench.hardware.create_compute_instance(gpu, made)
        with pytest.raises(InsufficientResourcesError):
            bench.hardware.create_compute_instance(gpu, made)

    def test_instances_are_destroyed_from_the_inside(self, bench: Bench, gpu: str) -> None:
        made = make(bench, gpu, "4g.20gb", 0)
        device = bench.hardware.create_compute_instance(gpu, made)
        with pytest.raises(InUseError):
            bench.hardware.destroy_gpu_instance(gpu, made.id)
        bench.hardware.destroy_compute_instance(gpu, made.id, device.compute_instance)
        bench.hardware.destroy_gpu_instance(gpu, made.id)
        assert bench.hardware.gpu_instances(gpu) == ()

    def test_an_instance_in_use_is_not_destroyed(self, bench: Bench, gpu: str) -> None:
        made = make(bench, gpu, "1g.5gb", 0)
        device = bench.hardware.create_compute_instance(gpu, made)
        process = Process(4711, 1 << 20, made.id, device.compute_instance)
        bench.set_processes(0, [process])
        assert bench.hardware.processes(gpu) == (process,)
        with pytest.raises(InUseError):
            bench.hardware.destroy_compute_instance(gpu, made.id, device.compute_instance)
        bench.set_processes(0, [])
        bench.hardware.destroy_compute_instance(gpu, made.id, device.compute_instance)

    def test_a_missing_instance_is_not_found(self, bench: Bench, gpu: str) -> None:
        hardware, made = bench.hardware, make(bench, gpu, "1g.5gb", 0)
        missing = replace(made, id=3)
        actions: list[Callable[[], object]] = [
            lambda: hardware.mig_devices(gpu, missing),
            lambda: hardware.create_compute_instance(gpu, missing),
            lambda: hardware.destroy_compute_instance(gpu, made.id, 0),
            lambda: hardware.destroy_gpu_instance(gpu, 3),
        ]
        for action in actions:
            with pytest.raises(InstanceNotFoundError):
                action()
        with pytest.raises(InvalidArgumentError):
            hardware.profiles("GPU-11111111-2222-3333-4444-555555555555")

    def test_a_new_recovery_action_is_reported_by_an_event(self, bench: Bench, gpu: str) -> None:
        assert bench.hardware.recovery_action(gpu) is RecoveryAction.NONE
        bench.set_recovery_action(0, RecoveryAction.DRAIN_AND_RESET)
        assert bench.hardware.wait_event(1) == Event(EventKind.RECOVERY_ACTION, gpu)
        assert bench.hardware.recovery_action(gpu) is RecoveryAction.DRAIN_AND_RESET

    def test_a_reset_ends_the_recovery_action(self, bench: Bench, gpu: str) -> None:
        bench.set_recovery_action(0, RecoveryAction.GPU_RESET)
        bench.reset(0)
        assert bench.hardware.recovery_action(gpu) is RecoveryAction.NONE

    def test_a_virtualized_gpu_reports_its_mode(self, bench: Bench, gpu: str) -> None:
        assert bench.hardware.gpu(gpu).virtualization is Virtualization.NONE
        for mode in Virtualization:
            bench.set_virtualization(0, mode)
            reopen(bench.hardware)
            assert bench.hardware.gpu(gpu).virtualization is mode

    @pytest.mark.parametrize("mode", ["", "None", "HMM", "ATS"])
    def test_a_gpu_reports_how_it_addresses_memory(self, bench: Bench, gpu: str, mode: str) -> None:
        bench.set_memory_and_fabric(0, mode, None)
        reopen(bench.hardware)
        found = bench.hardware.gpu(gpu)
        assert (found.addressing_mode, found.fabric) == (mode, None)

    def test_a_gpu_that_registers_with_its_fabric_later_reports_its_cluster(
        self, bench: Bench, gpu: str
    ) -> None:
        bench.set_memory_and_fabric(0, "", Fabric("", 7))
        reopen(bench.hardware)
        assert bench.hardware.gpu(gpu).fabric == Fabric("", 7)
        bench.set_memory_and_fabric(0, "", Fabric(CLUSTER, 7))
        assert bench.hardware.gpu(gpu).fabric == Fabric(CLUSTER, 7)

    def test_an_old_driver_reports_no_recovery_action(self, bench: Bench, gpu: str) -> None:
        bench.set_recovery_action(0, None)
        assert bench.hardware.recovery_action(gpu) is None

    def test_a_card_with_mig_off_reports_its_profiles(self, benches: Benches) -> None:
        bench = benches("h100-80", mig=False)
        gpu = bench.hardware.gpus()[0].uuid
        assert bench.hardware.gpu_instances(gpu) == ()
        assert list_mig_devices(bench.hardware, gpu) == ()
        largest = bench.hardware.profiles(gpu)[-1]
        assert largest.name == "7g.80gb"
        assert bench.hardware.find_gpu_instance(gpu, largest.id, largest.placements[0]) is None
        with pytest.raises(NotSupportedError):
            make(bench, gpu, "7g.80gb", 0)

    def test_a_card_without_mig_support_has_no_profiles(self, benches: Benches) -> None:
        bench = benches("t4", "a30")
        whole, divided = bench.hardware.gpus()
        assert whole.mig is None
        assert divided.mig is not None
        assert bench.hardware.profiles(whole.uuid) == ()
        assert bench.hardware.gpu_instances(whole.uuid) == ()
        assert list_mig_devices(bench.hardware, whole.uuid) == ()
        with pytest.raises(NotSupportedError):
            bench.hardware.set_mig_mode(whole.uuid, enabled=True)
        bench.hardware.set_compute_mode(whole.uuid, ComputeMode.EXCLUSIVE_PROCESS)

    def test_an_error_before_a_switch_is_reported_after_it(self, benches: Benches) -> None:
        bench = benches("h100-80", mig=False)
        (gpu,) = bench.hardware.gpus()
        bench.report_error(0, EventKind.XID, xid=48)
        bench.hardware.set_mig_mode(gpu.uuid, enabled=True)
        assert bench.hardware.wait_event(1) == Event(EventKind.XID, gpu.uuid, 48)

    def test_errors_after_a_switch_are_reported(self, benches: Benches) -> None:
        bench = benches("h100-80", mig=False)
        (gpu,) = bench.hardware.gpus()
        bench.hardware.set_mig_mode(gpu.uuid, enabled=True)
        while bench.hardware.wait_event(0) is not None:
            pass
        bench.report_error(0, EventKind.XID, xid=94)
        assert bench.hardware.wait_event(1) == Event(EventKind.XID, gpu.uuid, 94)

    def test_a_hopper_switches_at_once_and_loses_its_instances(self, benches: Benches) -> None:
        bench = benches("h200-141", mig=False)
        gpu = bench.hardware.gpus()[0].uuid
        mode = bench.hardware.set_mig_mode(gpu, enabled=True)
        assert (mode.current, mode.pending) == (True, True)
        make(bench, gpu, "1g.18gb", 0)
        bench.hardware.set_mig_mode(gpu, enabled=False)
        bench.hardware.set_mig_mode(gpu, enabled=True)
        assert bench.hardware.gpu_instances(gpu) == ()

    def test_an_ampere_switches_when_it_is_reset(self, benches: Benches) -> None:
        bench = benches("a100-80", mig=False)
        gpu = bench.hardware.gpus()[0].uuid
        mode = bench.hardware.set_mig_mode(gpu, enabled=True)
        assert (mode.current, mode.pending) == (False, True)
        assert bench.hardware.gpus()[0].mig == mode
        bench.reset(0)
        make(bench, gpu, "1g.10gb", 0)

    def test_a_card_in_use_does_not_switch(self, benches: Benches) -> None:
        bench = benches("h100-80", mig=False)
        gpu = bench.hardware.gpus()[0].uuid
        bench.set_processes(0, [Process(1, 0, None, None)])
        with pytest.raises(InUseError):
            bench.hardware.set_mig_mode(gpu, enabled=True)

    def test_a_whole_card_has_a_compute_mode(self, benches: Benches) -> None:
        bench = benches("a100-40", mig=False)
        gpu = bench.hardware.gpus()[0].uuid
        assert bench.hardware.compute_mode(gpu) is ComputeMode.DEFAULT
        bench.hardware.set_compute_mode(gpu, ComputeMode.EXCLUSIVE_PROCESS)
        assert bench.hardware.compute_mode(gpu) is ComputeMode.EXCLUSIVE_PROCESS

    def test_a_divided_card_takes_no_compute_mode(self, bench: Bench, gpu: str) -> None:
        with pytest.raises(NotSupportedError):
            bench.hardware.set_compute_mode(gpu, ComputeMode.PROHIBITED)

    def test_errors_of_a_card_and_of_an_instance_are_reported(self, benches: Benches) -> None:
        bench = benches("a100-40", "a100-40")
        one, other = (gpu.uuid for gpu in bench.hardware.gpus())
        bench.report_error(1, EventKind.XID, xid=79)
        bench.report_error(0, EventKind.XID, xid=43, gpu_instance=9)
        bench.report_error(0, EventKind.DOUBLE_BIT_ECC)
        assert [bench.hardware.wait_event(1) for _ in range(3)] == [
            Event(EventKind.XID, other, 79),
            Event(EventKind.XID, one, 43, 9, 0),
            Event(EventKind.DOUBLE_BIT_ECC, one),
        ]
        assert bench.hardware.wait_event(0) is None

    def test_changes_of_instances_are_reported(self, bench: Bench, gpu: str) -> None:
        make(bench, gpu, "1g.5gb", 0)
        assert bench.hardware.wait_event(1) == Event(EventKind.MIG_CHANGED, gpu)

    def test_a_lost_card_is_reported_once_and_missing_until_its_reset(self, benches: Benches) -> None:
        bench = benches("a100-40", "a30")
        lost, left = bench.hardware.gpus()
        bench.lose(0)
        assert bench.hardware.wait_event(1) == Event(EventKind.GPU_LOST, lost.uuid)
        assert bench.hardware.wait_event(0) is None
        assert bench.hardware.gpus() == (left,)
        with pytest.raises(GpuLostError):
            bench.hardware.gpu_instances(lost.uuid)
        bench.reset(0)
        assert bench.hardware.gpus() == (lost, left)

    def test_a_gpu_is_found_by_its_uuid(self, benches: Benches) -> None:
        hardware = benches("a100-40", "a30").hardware
        for gpu in hardware.gpus():
            assert hardware.gpu(gpu.uuid) == gpu
        with pytest.raises(GpuNotFoundError):
            hardware.gpu("GPU-11111111-2222-3333-4444-555555555555")

    def test_a_gpu_that_was_taken_away_is_not_found(self, benches: Benches) -> None:
        bench = benches("a100-40", "a30")
        gone, left = bench.hardware.gpus()
        bench.remove(0)
        assert [gpu.uuid for gpu in bench.hardware.gpus()] == [left.uuid]
        with pytest.raises(GpuNotFoundError):
            bench.hardware.gpu(gone.uuid)

    def test_a_gpu_that_does_not_answer_returns_its_error(self, benches: Benches) -> None:
        bench = benches("a100-40", "a30")
        silent, left = bench.hardware.gpus()
        for code in (2, 3, 4, 6, 7, 10, 13, 15, 16, 23, 27, 28, 29, 999):
            bench.fail_calls(0, code)
            assert bench.hardware.gpus() == (left,)
            with pytest.raises(GpuError) as told:
                bench.hardware.gpu(silent.uuid)
            assert told.value.code == code
            assert isinstance(told.value, GpuLostError | GpuNotFoundError) is (code in {6, 15})
        bench.fail_calls(0, 0)
        assert bench.hardware.gpus() == (silent, left)

    @pytest.mark.parametrize("code", [2, 3, 4, 6, 7, 10, 13, 23, 25, 999])
    def test_a_profile_without_placements_hides_no_other(self, benches: Benches, code: int) -> None:
        bench = benches("a100-40")
        (gpu,) = bench.hardware.gpus()
        bench.fail_placements(0, 15, code)
        found = {profile.id: profile.placements for profile in bench.hardware.profiles(gpu.uuid)}
        assert {number for number, places in found.items() if not places} == {15}
        assert len(found) == 7
        made = make(bench, gpu.uuid, "1g.5gb", 0)
        assert bench.hardware.gpu_instances(gpu.uuid) == (made,)

    def test_placements_that_were_refused_for_a_while_are_there_afterwards(self, benches: Benches) -> None:
        bench = benches("a100-40")
        (gpu,) = bench.hardware.gpus()
        bench.fail_placements(0, 15, 10)
        assert not all(profile.placements for profile in bench.hardware.profiles(gpu.uuid))
        bench.fail_placements(0, 15, 0)
        assert all(profile.placements for profile in bench.hardware.profiles(gpu.uuid))

    def test_errors_of_a_temporarily_silent_gpu_are_reported(self, benches: Benches) -> None:
        bench = benches("a100-40", "a30")
        silent, _ = bench.hardware.gpus()
        bench.fail_calls(0, 999)
        bench.hardware.gpus()
        bench.report_error(0, EventKind.XID, xid=79)
        assert bench.hardware.wait_event(1) == Event(EventKind.XID, silent.uuid, 79)

    def test_errors_of_other_gpus_are_reported_after_one_is_lost(self, benches: Benches) -> None:
        bench = benches("a100-40", "a30")
        lost, left = bench.hardware.gpus()
        bench.lose(0)
        assert bench.hardware.wait_event(1) == Event(EventKind.GPU_LOST, lost.uuid)
        bench.hardware.gpus()
        bench.hardware.wait_event(0)
        bench.report_error(1, EventKind.XID, xid=63)
        assert bench.hardware.wait_event(1) == Event(EventKind.XID, left.uuid, 63)

    def test_every_error_names_the_gpu(self, bench: Bench, gpu: str) -> None:
        with pytest.raises(GpuError, match=gpu):
            bench.hardware.destroy_gpu_instance(gpu, 5)


def make(bench: Bench, gpu: str, profile: str, start: int) -> GpuInstance:
    (found,) = (each for each in bench.hardware.profiles(gpu) if each.name == profile)
    return bench.hardware.create_gpu_instance(gpu, found.id, Placement(start, found.memory_slices))
