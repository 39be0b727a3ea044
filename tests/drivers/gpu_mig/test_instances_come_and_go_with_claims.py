"""Instances are made for claims and destroyed after them; what others made stays; faults leave nothing."""

from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest
from msgspec.structs import force_setattr

from dradriver import DraError
from dradriver.testing import ProcessDiedError
from drivers.gpu_mig import MigDeviceConfig
from drivers.gpu_mig.card import CardError, InUseError, Placement, Process
from drivers.gpu_mig.instances import Place, Record, State
from drivers.gpu_mig.instances.steps import STEPS, Found, Step, Wanted
from tests.drivers.gpu_mig.nodes import Cards

WHOLE = "gpu-0000-07-00-0"
DEVICE = f"{WHOLE}-mig-3g-20gb-4"


def there(node: Cards) -> list[tuple[str, int, int]]:
    return node.instances()[node.gpu]


def test_an_instance_is_made_when_its_claim_is_prepared_and_goes_with_it(tmp_path: Path) -> None:
    with Cards(tmp_path) as node:
        claim = node.take(DEVICE)
        assert there(node) == []
        prepared = node.prepare(claim)
        assert there(node) == [("3g.20gb", 4, 1)]
        (mig,) = node.cards.mig_devices(node.gpu)
        assert [value.partition("=")[2] for value in prepared.edits.env] == [mig.uuid]
        assert [node_.path for node_ in prepared.edits.device_nodes] == ["/dev/nvidiactl", "/dev/nvidia0"]
        node.unprepare(claim)
        assert there(node) == []
        assert node.records() == []


# --- the table -------------------------------------------------------------------------------------


def test_the_table_has_a_step_for_whatever_may_be_found() -> None:
    assert set(STEPS) == set(product(Wanted, [None, *State], Found))


Situation = tuple[State | None, Found]

AFTER: dict[Step, Callable[[State | None, Found], Situation]] = {
    Step.RECORD: lambda _, found: (State.CREATING, found),
    Step.MAKE_GPU_INSTANCE: lambda state, _: (state, Found.HALF),
    Step.MAKE_COMPUTE_INSTANCE: lambda state, _: (state, Found.WHOLE),
    Step.CONFIRM: lambda _, found: (State.READY, found),
    Step.GIVE_UP: lambda _, found: (State.DESTROYING, found),
    Step.DESTROY_COMPUTE_INSTANCES: lambda state, _: (state, Found.HALF),
    Step.DESTROY_GPU_INSTANCE: lambda state, _: (state, Found.NOTHING),
    Step.FORGET: lambda _, found: (None, found),
}


@pytest.mark.parametrize(("wanted", "state", "found"), STEPS)
def test_the_table_leads_from_everywhere_to_what_is_wanted(
    wanted: Wanted, state: State | None, found: Found
) -> None:
    for _ in range(len(Step)):
        step = STEPS[wanted, state, found]
        if step is Step.REFUSE:
            assert state is None
            return
        if step is Step.DONE:
            break
        state, found = AFTER[step](state, found)
    assert (state, found) == (State.READY, Found.WHOLE) if wanted is Wanted.PRESENT else state is None


def test_the_table_never_touches_an_instance_without_a_record() -> None:
    harmless = {Step.DONE, Step.REFUSE, Step.RECORD}
    assert {step for (_, state, _), step in STEPS.items() if state is None} == harmless


# --- others on the card ----------------------------------------------------------------------------


def test_an_instance_of_somebody_else_shows_as_used_and_stays(tmp_path: Path) -> None:
    with Cards(tmp_path) as node:
        node.by_hand("2g.10gb", 2)
        tainted = {name.removeprefix("gpu-0000-07-00-0-mig-") for name in node.taints()}
        assert node.taints()["gpu-0000-07-00-0-mig-2g-10gb-2"] == {
            ("gpu.nvidia.com/in-use", "foreign", "NoSchedule")
        }
        assert tainted == {
            "1g-5gb-2", "1g-5gb-3", "1g-5gb-me-2", "1g-5gb-me-3", "1g-10gb-2", "2g-10gb-2", "3g-20gb-0",
            "4g-20gb-0", "7g-40gb-0",
        }  # fmt: skip
        in_its_place = node.take("gpu-0000-07-00-0-mig-2g-10gb-2")
        with pytest.raises(DraError, match="somebody made an instance in its place"):
            node.prepare(in_its_place)
        node.unprepare(in_its_place)
        with pytest.raises(DraError, match="something else has what it needs"):
            node.prepare(node.take("gpu-0000-07-00-0-mig-3g-20gb-0"))
        assert there(node) == [("2g.10gb", 2, 1)]
        assert node.records() == []


def test_engines_that_somebody_else_has_are_not_offered_again(tmp_path: Path) -> None:
    with Cards(tmp_path) as node:
        node.by_hand("1g.5gb+me", 0)
        extended = {name for name in node.taints() if "-me-" in name}
        assert len(extended) == 7


def test_what_a_claim_has_is_no_stranger(tmp_path: Path) -> None:
    with Cards(tmp_path) as node:
        node.prepare(node.take(DEVICE))
        assert node.taints() == {}


# --- faults ----------------------------------------------------------------------------------------

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
        assert there(node) == []
        assert node.records() == []
        node.prepare(claim)
        assert there(node) == [("3g.20gb", 4, 1)]


def test_an_instance_in_use_is_tried_again(tmp_path: Path) -> None:
    with Cards(tmp_path, settings="{mode: dynamic, destroySeconds: 0.3}") as node:
        claim = node.take(DEVICE)
        node.prepare(claim)
        (mig,) = node.cards.mig_devices(node.gpu)
        node.cards.use(node.gpu, [Process(7, None, mig.gpu_instance, mig.compute_instance)])
        with pytest.raises(InUseError):
            node.unprepare(claim)
        assert there(node) == [("3g.20gb", 4, 1)]
        assert [record.state for record in node.records()] == [State.DESTROYING]
        node.cards.use(node.gpu, [])
        node.unprepare(claim)
        assert there(node) == []
        assert node.records() == []


def test_one_instance_in_use_keeps_no_other_of_its_claim(tmp_path: Path) -> None:
    with Cards(tmp_path, settings="{mode: dynamic, destroySeconds: 0}") as node:
        claim = node.allocate_blindly(("node-1", DEVICE), ("node-1", "gpu-0000-07-00-0-mig-1g-5gb-0"))
        node.prepare(claim)
        (used,) = (each for each in node.cards.gpu_instances(node.gpu) if each.placement.start == 0)
        node.cards.use(node.gpu, [Process(7, None, used.id, 0)])
        with pytest.raises(InUseError):
            node.unprepare(claim)
        assert there(node) == [("1g.5gb", 0, 1)]
        node.cards.use(node.gpu, [])
        node.unprepare(claim)
        assert there(node) == []


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
        assert there(node) == [("3g.20gb", 4, 0)]
        node.restart()
        assert there(node) == []
        assert node.records() == []


def test_a_damaged_record_costs_its_own_device_and_no_other(tmp_path: Path) -> None:
    with Cards(tmp_path) as node:
        node.prepare(node.take(DEVICE))
        (path,) = node.driver.data_dir.glob("devices/*.json")
        path.write_bytes(path.read_bytes()[:20])
        node.prepare(node.take(f"{WHOLE}-mig-1g-5gb-0"))
        assert node.taints()[DEVICE] == {("gpu.nvidia.com/in-use", "foreign", "NoSchedule")}
        assert f"{WHOLE}-mig-1g-5gb-0" not in node.taints()
        assert there(node) == [("3g.20gb", 4, 1), ("1g.5gb", 0, 1)]
        assert path.with_suffix(".damaged").exists()


def test_a_folder_that_cant_be_written_is_named_and_nothing_is_made(tmp_path: Path) -> None:
    with Cards(tmp_path) as node:
        folder = node.driver.data_dir / "devices"
        folder.write_text("")
        with pytest.raises(DraError, match=f"{folder}.* can't be opened"):
            node.prepare(node.take(DEVICE))
        assert there(node) == []


def test_a_device_that_another_process_works_on_is_left_to_it(tmp_path: Path) -> None:
    with Cards(tmp_path) as node:
        ledger = node.ledger
        half = Record(
            device=DEVICE, claim="another", gpu=node.gpu, place=Place(9, Placement(4, 4)), boot=ledger.boot
        )
        ledger.put(half)
        held = ledger.hold(DEVICE)
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
        assert there(node) == [("3g.20gb", 4, 1)]


def test_a_mig_device_that_is_destroyed_by_hand_under_its_claim_evicts_the_pods(tmp_path: Path) -> None:
    with Cards(tmp_path, settings="mode: static") as node:
        node.by_hand("3g.20gb", 4)
        claim = node.ask()
        node.prepare(claim)
        node.cards.reset(node.gpu)
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


def test_whoever_may_only_look_makes_nothing(tmp_path: Path) -> None:
    with Cards(tmp_path) as node:
        claim = node.take(DEVICE)
        for result in claim.results:
            force_setattr(result, "admin_access", True)
        assert node.prepare(claim).edits.env == []
        assert there(node) == []
        assert node.records() == []


def test_a_device_that_is_recorded_for_another_claim_is_refused(tmp_path: Path) -> None:
    with Cards(tmp_path, mig=False) as node:
        claim = node.take(WHOLE)
        ledger = node.ledger
        ledger.put(Record(device=WHOLE, claim="another", gpu=node.gpu, state=State.READY, boot=ledger.boot))
        with pytest.raises(DraError, match="in use by the claim with UID another"):
            node.prepare(claim)


def test_a_configuration_of_the_other_kind_is_refused(tmp_path: Path) -> None:
    with Cards(tmp_path, mig=False) as node:
        claim = node.allocate_blindly(("node-1", WHOLE), config=MigDeviceConfig())
        with pytest.raises(DraError, match="is a whole GPU: it takes GpuConfig, not MigDeviceConfig"):
            node.prepare(claim)
