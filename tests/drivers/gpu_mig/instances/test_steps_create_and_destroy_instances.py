"""Instances are created and destroyed with their claims. Instances of other programs stay."""

from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest
from msgspec.structs import force_setattr

from dradriver import DraError
from dradriver_gpu_mig import MigDeviceConfig
from dradriver_gpu_mig.instances import RecordState
from dradriver_gpu_mig.instances.steps import STEPS, DesiredInstance, InstanceStep, ObservedInstance
from tests.drivers.gpu_mig.mig_devices import list_mig_devices
from tests.drivers.gpu_mig.nodes import GpuHarness

COMPLETE = "gpu-0000-07-00-0"
DEVICE = f"{COMPLETE}-mig-3g-20gb-4"


def test_an_instance_is_created_by_prepare_and_destroyed_by_unprepare(tmp_path: Path) -> None:
    with GpuHarness(tmp_path) as node:
        claim = node.allocate_device(DEVICE)
        assert node.first_gpu_instances == []
        prepared = node.prepare(claim)
        assert node.first_gpu_instances == [("3g.20gb", 4, 1)]
        (mig,) = list_mig_devices(node.cards, node.gpu)
        assert [value.partition("=")[2] for value in prepared.edits.env] == [mig.uuid]
        assert [node_.path for node_ in prepared.edits.device_nodes] == ["/dev/nvidiactl", "/dev/nvidia0"]
        node.unprepare(claim)
        assert node.first_gpu_instances == []
        assert node.records() == []


def test_admin_access_creates_nothing(tmp_path: Path) -> None:
    with GpuHarness(tmp_path) as node:
        claim = node.allocate_device(DEVICE)
        for result in claim.results:
            force_setattr(result, "admin_access", True)
        assert node.prepare(claim).edits.env == ()
        assert node.first_gpu_instances == []
        assert node.records() == []


def test_a_configuration_of_the_other_kind_is_refused(tmp_path: Path) -> None:
    with GpuHarness(tmp_path, mig=False) as node:
        claim = node.allocate_blindly(("node-1", COMPLETE), config=MigDeviceConfig())
        with pytest.raises(DraError, match="a whole GPU needs GpuConfig, not MigDeviceConfig"):
            node.prepare(claim)


# --- the table -------------------------------------------------------------------------------------


def test_the_table_has_a_step_for_every_state() -> None:
    assert set(STEPS) == set(product(DesiredInstance, [None, *RecordState], ObservedInstance))


Situation = tuple[RecordState | None, ObservedInstance]

AFTER: dict[InstanceStep, Callable[[RecordState | None, ObservedInstance], Situation]] = {
    InstanceStep.RECORD_CREATING: lambda _, found: (RecordState.CREATING, found),
    InstanceStep.CREATE_GPU_INSTANCE: lambda state, _: (state, ObservedInstance.INCOMPLETE),
    InstanceStep.CREATE_COMPUTE_INSTANCE: lambda state, _: (state, ObservedInstance.COMPLETE),
    InstanceStep.RECORD_READY: lambda _, found: (RecordState.READY, found),
    InstanceStep.RECORD_DESTROYING: lambda _, found: (RecordState.DESTROYING, found),
    InstanceStep.DESTROY_COMPUTE_INSTANCES: lambda state, _: (state, ObservedInstance.INCOMPLETE),
    InstanceStep.DESTROY_GPU_INSTANCE: lambda state, _: (state, ObservedInstance.NOTHING),
    InstanceStep.DELETE_RECORD: lambda _, found: (None, found),
    # Without the record, nothing tells a foreign instance from another complete one.
    InstanceStep.FORGET: lambda _, found: (None, ObservedInstance.COMPLETE),
}


@pytest.mark.parametrize(("wanted", "state", "found"), STEPS)
def test_the_table_leads_from_every_state_to_the_desired_one(
    wanted: DesiredInstance, state: RecordState | None, found: ObservedInstance
) -> None:
    for _ in range(len(InstanceStep)):
        step = STEPS[wanted, state, found]
        if step is InstanceStep.REJECT:
            assert state is None
            return
        if step is InstanceStep.DONE:
            break
        state, found = AFTER[step](state, found)
    assert (
        (state, found) == (RecordState.READY, ObservedInstance.COMPLETE)
        if wanted is DesiredInstance.PRESENT
        else state is None
    )


def test_the_table_never_touches_an_instance_without_a_record() -> None:
    harmless = {InstanceStep.DONE, InstanceStep.REJECT, InstanceStep.RECORD_CREATING}
    assert {step for (_, state, _), step in STEPS.items() if state is None} == harmless


# --- others on the card ----------------------------------------------------------------------------


def test_a_foreign_instance_is_tainted_as_in_use_and_kept(tmp_path: Path) -> None:
    with GpuHarness(tmp_path) as node:
        node.create_foreign_instance("2g.10gb", 2)
        tainted = {name.removeprefix("gpu-0000-07-00-0-mig-") for name in node.taints()}
        assert node.taints()["gpu-0000-07-00-0-mig-2g-10gb-2"] == {
            ("gpu.nvidia.com/in-use", "foreign", "NoSchedule")
        }
        assert tainted == {
            "1g-5gb-2", "1g-5gb-3", "1g-5gb-me-2", "1g-5gb-me-3", "1g-10gb-2", "2g-10gb-2", "3g-20gb-0",
            "4g-20gb-0", "7g-40gb-0",
        }  # fmt: skip
        in_its_place = node.allocate_device("gpu-0000-07-00-0-mig-2g-10gb-2")
        with pytest.raises(DraError, match="another program created a GPU instance at its placement"):
            node.prepare(in_its_place)
        node.unprepare(in_its_place)
        with pytest.raises(DraError, match="another instance uses what it needs"):
            node.prepare(node.allocate_device("gpu-0000-07-00-0-mig-3g-20gb-0"))
        assert node.first_gpu_instances == [("2g.10gb", 2, 1)]
        assert node.records() == []


def test_engines_of_foreign_instances_are_not_offered(tmp_path: Path) -> None:
    with GpuHarness(tmp_path) as node:
        node.create_foreign_instance("1g.5gb+me", 0)
        extended = {name for name in node.taints() if "-me-" in name}
        assert len(extended) == 7


def test_an_instance_of_a_claim_is_not_foreign(tmp_path: Path) -> None:
    with GpuHarness(tmp_path) as node:
        node.prepare(node.allocate_device(DEVICE))
        assert node.taints() == {}
