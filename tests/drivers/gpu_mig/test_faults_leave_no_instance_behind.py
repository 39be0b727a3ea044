"""Whatever fails or is killed while instances come and go, nothing is left and nothing of others is lost."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from dradriver import DraError
from dradriver.testing import ProcessDiedError
from dradriver_gpu_mig.card import CardError, InUseError, Placement, Process
from dradriver_gpu_mig.card import Cards as CardsOnTheLoop
from dradriver_gpu_mig.card.simulator import SimulatedHardware
from dradriver_gpu_mig.instances import InstanceReconciler, Place, Record, RecordStore, State
from tests.drivers.gpu_mig.nodes import Cards

WHOLE = "gpu-0000-07-00-0"
DEVICE = f"{WHOLE}-mig-3g-20gb-4"
CALLS = ("create_gpu_instance", "create_compute_instance")


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("call", CALLS)
def test_what_failed_to_be_made_is_taken_back_and_made_by_the_next_try(
    tmp_path: Path, call: str, moment: str
) -> None:
    failing = True

    def hook(called: str, when: str) -> None:
        if failing and (called, when) == (call, moment):
            raise CardError("unknown error", call)

    with Cards(tmp_path) as node:
        claim = node.take(DEVICE)
        node.live.hook = hook
        with pytest.raises(DraError, match="unknown error"):
            node.prepare(claim)
        failing = False
        assert node.there == []
        assert node.records() == []
        node.prepare(claim)
        assert node.there == [("3g.20gb", 4, 1)]


def test_an_instance_in_use_is_tried_again(tmp_path: Path) -> None:
    with Cards(tmp_path, settings="{mode: dynamic, destroySeconds: 0.3}") as node:
        claim = node.take(DEVICE)
        node.prepare(claim)
        (mig,) = node.cards.mig_devices(node.gpu)
        node.cards.use(node.gpu, [Process(7, None, mig.gpu_instance, mig.compute_instance)])
        with pytest.raises(InUseError):
            node.unprepare(claim)
        assert node.there == [("3g.20gb", 4, 1)]
        assert [record.state for record in node.records()] == [State.DESTROYING]
        node.cards.use(node.gpu, [])
        node.unprepare(claim)
        assert node.there == []
        assert node.records() == []


def test_one_instance_in_use_keeps_no_other_of_its_claim(tmp_path: Path) -> None:
    with Cards(tmp_path, settings="{mode: dynamic, destroySeconds: 0}") as node:
        claim = node.allocate_blindly(("node-1", DEVICE), ("node-1", "gpu-0000-07-00-0-mig-1g-5gb-0"))
        node.prepare(claim)
        (used,) = (each for each in node.cards.gpu_instances(node.gpu) if each.placement.start == 0)
        node.cards.use(node.gpu, [Process(7, None, used.id, 0)])
        with pytest.raises(InUseError):
            node.unprepare(claim)
        assert node.there == [("1g.5gb", 0, 1)]
        node.cards.use(node.gpu, [])
        node.unprepare(claim)
        assert node.there == []


def test_a_place_in_use_is_destroyed_before_it_is_made_anew(tmp_path: Path) -> None:
    with Cards(tmp_path, settings="{mode: dynamic, destroySeconds: 0}") as node:
        first = node.take(DEVICE)
        node.prepare(first)
        (mig,) = node.cards.mig_devices(node.gpu)
        node.cards.use(node.gpu, [Process(7, None, mig.gpu_instance, mig.compute_instance)])
        with pytest.raises(InUseError):
            node.unprepare(first)
        with pytest.raises(InUseError):
            node.prepare(first)
        node.cards.use(node.gpu, [])
        node.prepare(first)
        assert [(record.state, record.claim) for record in node.records()] == [
            (State.READY, first.metadata.uid)
        ]


def test_what_was_left_half_made_is_taken_back_at_the_next_start(tmp_path: Path) -> None:
    def hook(called: str, when: str) -> None:
        if called == "create_gpu_instance" and when == "after":
            raise ProcessDiedError

    with Cards(tmp_path) as node:
        node.live.hook = hook
        with pytest.raises(DraError, match="ProcessDied"):
            node.prepare(node.take(DEVICE))
        assert node.there == [("3g.20gb", 4, 0)]
        node.restart()
        assert node.there == []
        assert node.records() == []


async def test_a_device_that_got_a_new_claim_meanwhile_is_not_destroyed_for_the_old_one(tmp_path: Path) -> None:
    """In a rolling update the last process may still wait for an instance that the next one has dealt with."""
    hardware = SimulatedHardware()
    async with CardsOnTheLoop(hardware) as cards:
        reconciler = InstanceReconciler(cards, RecordStore(tmp_path, "boot"))
        (gpu,) = hardware.gpus()
        new = Record(device=DEVICE, claim="new", gpu=gpu.uuid, place=Place(9, Placement(4, 4)))
        await reconciler.make(new)
        await reconciler.remove(replace(new, claim="old"), 0)
        assert len(hardware.mig_devices(gpu.uuid)) == 1


def test_a_gpu_that_cant_be_looked_at_keeps_nobody_from_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Cards(tmp_path, "a100-40", "a100-40") as node:
        devices, sick = list(node.devices), node.gpu

        def refuse(gpu: str) -> bool:
            if gpu == sick:
                raise CardError(f"unknown error of {gpu}", "needs_reset")
            return False

        monkeypatch.setattr(node.live, "needs_reset", refuse)
        assert list(node.devices) == devices
        assert node.taints() == {}
        node.prepare(node.take("gpu-0000-0f-00-0-mig-1g-5gb-0"))
        with pytest.raises(DraError, match=f"unknown error of {sick}"):
            node.prepare(node.take(DEVICE))


def test_a_damaged_record_costs_its_own_device_and_no_other(tmp_path: Path) -> None:
    with Cards(tmp_path) as node:
        node.prepare(node.take(DEVICE))
        (path,) = node.driver.data_dir.glob("devices/*.json")
        path.write_bytes(path.read_bytes()[:20])
        node.prepare(node.take(f"{WHOLE}-mig-1g-5gb-0"))
        assert node.taints()[DEVICE] == {("gpu.nvidia.com/in-use", "foreign", "NoSchedule")}
        assert f"{WHOLE}-mig-1g-5gb-0" not in node.taints()
        assert node.there == [("3g.20gb", 4, 1), ("1g.5gb", 0, 1)]
        assert path.with_suffix(".damaged").exists()


def test_a_folder_that_cant_be_written_is_named_and_nothing_is_made(tmp_path: Path) -> None:
    with Cards(tmp_path) as node:
        folder = node.driver.data_dir / "devices"
        folder.write_text("")
        with pytest.raises(DraError, match=f"{folder}.* can't be opened"):
            node.prepare(node.take(DEVICE))
        assert node.there == []


def test_a_device_that_another_process_works_on_is_left_to_it(tmp_path: Path) -> None:
    with Cards(tmp_path) as node:
        record_store = node.record_store
        half = Record(
            device=DEVICE,
            claim="another",
            gpu=node.gpu,
            place=Place(9, Placement(4, 4)),
            boot=record_store.boot,
        )
        record_store.put(half)
        held = record_store.hold(DEVICE)
        assert held is not None
        node.discover()
        assert [record.claim for record in node.records()] == ["another"]
        held.close()
        node.discover()
        assert node.records() == []


def test_a_reset_takes_the_instance_its_pods_are_evicted_and_the_next_prepare_makes_it_anew(
    tmp_path: Path,
) -> None:
    with Cards(tmp_path) as node:
        claim = node.take(DEVICE)
        node.prepare(claim)
        node.cards.reset(node.gpu)
        assert node.taints() == {DEVICE: {("gpu.nvidia.com/instance-gone", "", "NoExecute")}}
        node.unprepare(claim)
        assert node.taints() == {}
        node.prepare(claim)
        assert node.there == [("3g.20gb", 4, 1)]


@pytest.mark.parametrize("restarted", [False, True])
def test_a_mig_device_that_is_destroyed_by_hand_under_its_claim_evicts_the_pods(
    tmp_path: Path, *, restarted: bool
) -> None:
    with Cards(tmp_path, settings="mode: static") as node:
        node.by_hand("3g.20gb", 4)
        claim = node.ask()
        node.prepare(claim)
        node.cards.reset(node.gpu)
        if restarted:
            node.restart()
        assert node.taints() == {DEVICE: {("gpu.nvidia.com/instance-gone", "", "NoExecute")}}
        node.unprepare(claim)
        assert node.devices == {}


def test_a_lost_gpu_keeps_no_pod_from_ending_and_is_cleaned_when_it_is_back(tmp_path: Path) -> None:
    with Cards(tmp_path) as node:
        claim = node.take(DEVICE)
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
    with Cards(tmp_path, mig=False) as node:
        claim = node.take(WHOLE)
        record_store = node.record_store
        record_store.put(
            Record(device=WHOLE, claim="another", gpu=node.gpu, state=State.READY, boot=record_store.boot)
        )
        with pytest.raises(DraError, match="in use by the claim with UID another"):
            node.prepare(claim)
