"""Instances are made for claims and destroyed after them; what others made stays; faults leave nothing."""

from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest
from msgspec.structs import force_setattr

from dradriver import DraError
from dradriver_gpu_mig import MigDeviceConfig
from dradriver_gpu_mig.instances import State
from dradriver_gpu_mig.instances.steps import STEPS, Found, Step, Wanted
from tests.drivers.gpu_mig.nodes import Cards

WHOLE = "gpu-0000-07-00-0"
DEVICE = f"{WHOLE}-mig-3g-20gb-4"


def test_an_instance_is_made_when_its_claim_is_prepared_and_goes_with_it(tmp_path: Path) -> None:
    with Cards(tmp_path) as node:
        claim = node.take(DEVICE)
        assert node.there == []
        prepared = node.prepare(claim)
        assert node.there == [("3g.20gb", 4, 1)]
        (mig,) = node.cards.mig_devices(node.gpu)
        assert [value.partition("=")[2] for value in prepared.edits.env] == [mig.uuid]
        assert [node_.path for node_ in prepared.edits.device_nodes] == ["/dev/nvidiactl", "/dev/nvidia0"]
        node.unprepare(claim)
        assert node.there == []
        assert node.records() == []


def test_whoever_may_only_look_makes_nothing(tmp_path: Path) -> None:
    with Cards(tmp_path) as node:
        claim = node.take(DEVICE)
        for result in claim.results:
            force_setattr(result, "admin_access", True)
        assert node.prepare(claim).edits.env == ()
        assert node.there == []
        assert node.records() == []


def test_a_configuration_of_the_other_kind_is_refused(tmp_path: Path) -> None:
    with Cards(tmp_path, mig=False) as node:
        claim = node.allocate_blindly(("node-1", WHOLE), config=MigDeviceConfig())
        with pytest.raises(DraError, match="is a whole GPU: it takes GpuConfig, not MigDeviceConfig"):
            node.prepare(claim)


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
        assert node.there == [("2g.10gb", 2, 1)]
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
