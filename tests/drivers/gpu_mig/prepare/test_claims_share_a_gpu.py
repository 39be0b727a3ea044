"""Several claims have a GPU or a MIG device at the same time (KEP-5075, consumable capacity)."""

import json
from pathlib import Path

import pytest

from dradriver import CapacityRequestPolicy, DraError, Quantity
from dradriver.allocator import Refusal
from dradriver.model.resource.claim import (
    CapacityRequirements,
    DeviceRequest,
    ExactDeviceRequest,
    ResourceClaim,
)
from dradriver.testing import CrashPoint, ProcessDiedError
from dradriver_gpu_mig import GpuConfig
from dradriver_gpu_mig.card import ComputeMode, InUseError, Process, TimeSlice
from dradriver_gpu_mig.configs import GpuSharing, TimeSlicingConfig
from dradriver_gpu_mig.instances import Holder
from tests.drivers.gpu_mig.mig_devices import list_mig_devices
from tests.drivers.gpu_mig.nodes import DRIVER, GpuHarness
from tests.drivers.gpu_mig.passthrough.kernel import FakeKernel
from tests.drivers.gpu_mig.passthrough.machine import GPU as ADDRESS

GPU = "gpu-0000-07-00-0"
MIG = f"{GPU}-mig-3g-20gb-4"
MIB, GIB = 1 << 20, 1 << 30


def share_node(folder: Path, shares: str, *, mode: str = "whole") -> GpuHarness:
    settings = f"{{mode: {mode}, consumableShares: {shares}, destroySeconds: 0.1}}"
    return GpuHarness(folder, settings=settings, mig=mode != "whole")


def share(node: GpuHarness, config: GpuConfig | None = None, **amounts: str) -> ResourceClaim:
    """A claim that the allocator gave a share."""
    requests = {name: Quantity(amount) for name, amount in amounts.items()}
    capacity = CapacityRequirements(requests=requests) if requests else None
    exactly = ExactDeviceRequest(device_class_name=DRIVER, capacity=capacity)
    return node.allocate(DeviceRequest("share", exactly), config=config or ())


def slices(interval: str) -> GpuConfig:
    config = TimeSlicingConfig(interval=interval)  # type: ignore[arg-type]
    return GpuConfig(sharing=GpuSharing(strategy="TimeSlicing", time_slicing_config=config))


# --- what is offered -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shares", "policies"),
    [
        ("memory", {"memory": (40 * GIB, MIB, 40 * GIB, MIB), "copyEngines": (0, 0, 7, 1)}),
        ("unlimited", {"memory": (0, 0, 40 * GIB, MIB), "multiprocessors": (0, 0, 98, 1)}),
        ("4", {"memory": (0, 0, 40 * GIB, MIB), "shares": (1, 1, 4, 1)}),
    ],
)
def test_a_gpu_has_the_request_policies_of_nvidias_driver(
    tmp_path: Path, shares: str, policies: dict[str, tuple[int, ...]]
) -> None:
    """Of each capacity: default, minimum, maximum and step. Engines are not divided."""
    with share_node(tmp_path, shares) as node:
        device = node.devices[GPU]
    assert device.allow_multiple_allocations
    found = {name: read_policy(capacity.request_policy) for name, capacity in device.capacity.items()}
    assert found | policies == found


def read_policy(policy: CapacityRequestPolicy | None) -> tuple[int, ...]:
    if policy is None:
        return ()  # a capacity of nothing
    valid = policy.valid_range
    assert valid is not None
    return tuple(int(each or 0) for each in (policy.default, valid.min, valid.max, valid.step))


def test_mig_devices_are_shared_too(tmp_path: Path) -> None:
    with share_node(tmp_path, "2", mode="dynamic") as node:
        assert {device.allow_multiple_allocations for device in node.devices.values()} == {True}
        assert {int(device.capacity["shares"].value) for device in node.devices.values()} == {2}


def test_a_gpu_for_a_virtual_machine_has_one_claim(tmp_path: Path) -> None:
    kernel = FakeKernel(tmp_path / "sys")
    kernel.tree.add(ADDRESS, 17, "nvidia")
    host = f"{{sysfs: {tmp_path / 'sys'}, proc: {tmp_path}, dev: {tmp_path}}}"
    settings = f"{{mode: whole, consumableShares: 2, passthrough: true, host: {host}}}"
    node = GpuHarness(tmp_path / "node", "t4", settings=settings, mig=False)
    node.pci = kernel
    with node:
        shared = {name: device.allow_multiple_allocations for name, device in node.devices.items()}
    assert shared == {GPU: True, f"{GPU}-vfio": None}


def test_without_the_setting_a_device_has_one_claim(tmp_path: Path) -> None:
    with share_node(tmp_path, "disabled") as node:
        device = node.devices[GPU]
        assert device.allow_multiple_allocations is None
        assert {capacity.request_policy for capacity in device.capacity.values()} == {None}
        share(node)
        with pytest.raises(Refusal):
            share(node)


# --- what claims get -------------------------------------------------------------------------------


def test_claims_divide_the_memory_of_a_gpu(tmp_path: Path) -> None:
    with share_node(tmp_path, "memory") as node:
        claims = [share(node, memory="24Gi"), share(node, memory="16Gi")]
        with pytest.raises(Refusal):
            share(node, memory="1Mi")
        edits = [node.prepare(claim).edits for claim in claims]
        assert edits[0] == edits[1]
        assert [record.claims for record in node.records()] == [[each.metadata.uid for each in claims]]
        node.unprepare(claims[0])
        assert [record.claims for record in node.records()] == [[claims[1].metadata.uid]]


def test_a_claim_without_an_amount_gets_all_memory_of_a_gpu_that_is_divided_by_memory(tmp_path: Path) -> None:
    with share_node(tmp_path, "memory") as node:
        share(node)
        with pytest.raises(Refusal):
            share(node, memory="1Mi")


def test_as_many_claims_as_the_setting_says_have_a_gpu(tmp_path: Path) -> None:
    with share_node(tmp_path, "3") as node:
        for _ in range(3):
            node.prepare(share(node))
        with pytest.raises(Refusal):
            share(node)
        assert len(node.records()[0].holders) == 3


def test_one_claim_can_have_two_shares_of_a_gpu(tmp_path: Path) -> None:
    with share_node(tmp_path, "2") as node:
        requests = [
            DeviceRequest(name, ExactDeviceRequest(device_class_name=DRIVER)) for name in ("one", "two")
        ]
        claim = node.allocate(*requests, config=slices("Long"))
        assert len({result.share_id for result in claim.results}) == 2
        node.prepare(claim)
        assert [record.claims for record in node.records()] == [[claim.metadata.uid]]
        node.unprepare(claim)
        assert node.records() == []
        assert node.cards.time_slice(node.gpu) is TimeSlice.DEFAULT


def test_the_end_of_shares_does_not_concern_claims_that_have_one(tmp_path: Path) -> None:
    with share_node(tmp_path, "2") as node:
        first, second = node.allocate_share(GPU), node.allocate_share(GPU)
        node.prepare(first)
        node.prepare(second)
        node.settings = "mode: whole"
        node.lose_state()
        node.prepare(first)
        node.prepare(second)
        (record,) = node.records()
        assert set(record.claims) == {first.metadata.uid, second.metadata.uid}
        with pytest.raises(DraError, match=f"device {GPU} is in use by the claim with UID"):
            record.check_holder(Holder(claim="a claim without a share"))


def test_a_mig_device_that_was_created_is_destroyed_also_after_the_mode_was_changed(tmp_path: Path) -> None:
    """Both modes name the device alike, and only its record says who made it."""
    with share_node(tmp_path, "2", mode="dynamic") as node:
        first, second = node.allocate_share(MIG), node.allocate_share(MIG)
        node.prepare(first)
        node.settings = "{mode: static, consumableShares: 2}"
        node.restart()
        node.prepare(second)
        node.unprepare(first)
        assert node.first_gpu_instances == [("3g.20gb", 4, 1)]
        node.unprepare(second)
        assert node.first_gpu_instances == []


# --- a MIG device is destroyed with its last claim -------------------------------------------------


def test_a_mig_device_lives_until_its_last_claim_ends(tmp_path: Path) -> None:
    with share_node(tmp_path, "unlimited", mode="dynamic") as node:
        first, second = node.allocate_share(MIG), node.allocate_share(MIG)
        node.prepare(first)
        node.prepare(second)
        (mig,) = list_mig_devices(node.cards, node.gpu)
        node.cards.set_processes(node.gpu, [Process(7, None, mig.gpu_instance, mig.compute_instance)])
        node.unprepare(first)  # the processes are those of the second claim
        assert node.first_gpu_instances == [("3g.20gb", 4, 1)]
        with pytest.raises(InUseError):
            node.unprepare(second)
        node.cards.set_processes(node.gpu, [])
        node.unprepare(second)
        assert node.first_gpu_instances == []
        assert node.records() == []


@pytest.mark.parametrize("repeated", [False, True], ids=["of a second claim", "of the first claim again"])
def test_a_failed_prepare_takes_the_mig_device_from_no_claim_that_had_it(
    tmp_path: Path, repeated: bool
) -> None:
    with share_node(tmp_path, "unlimited", mode="dynamic") as node:
        first, second = node.allocate_share(MIG), node.allocate_share(MIG)
        node.prepare(first)
        if repeated:
            node.prepare(second)
            node.lose_state()

        def fail(call: str, moment: str) -> None:
            if (call, moment) == ("mig_devices", "before"):
                raise InUseError("no answer", call, 19)

        node.driver_hardware.hook = fail
        with pytest.raises(DraError, match="no answer"):
            node.prepare(first if repeated else second)
        node.driver_hardware.hook = lambda *_: None
        assert node.first_gpu_instances == [("3g.20gb", 4, 1)]
        holders = {first.metadata.uid, second.metadata.uid} if repeated else {first.metadata.uid}
        assert set(node.records()[0].claims) == holders


# --- settings of the whole GPU ---------------------------------------------------------------------


def test_a_claim_cannot_have_a_shared_gpu_for_itself(tmp_path: Path) -> None:
    with share_node(tmp_path, "2") as node:
        with pytest.raises(DraError, match=f"device {GPU}: computeMode: must be Default"):
            node.prepare(share(node, GpuConfig(compute_mode="ExclusiveProcess")))
        assert node.records() == []
        node.cards.set_compute_mode(node.gpu, ComputeMode.PROHIBITED)
        claims = [share(node, GpuConfig(compute_mode="Default"))]
        node.prepare(claims[0])
        assert node.cards.compute_mode(node.gpu) is ComputeMode.DEFAULT
        node.unprepare(claims[0])
        assert node.cards.compute_mode(node.gpu) is ComputeMode.PROHIBITED


def test_claims_on_one_gpu_have_one_time_slice(tmp_path: Path) -> None:
    with share_node(tmp_path, "unlimited") as node:
        long, again, plain, short = (
            share(node, each) for each in (slices("Long"), slices("Long"), None, slices("Short"))
        )
        for claim in (long, again, plain):
            node.prepare(claim)
        with pytest.raises(
            DraError, match=f"interval: must be Long, which the claim with UID {long.metadata.uid}"
        ):
            node.prepare(short)
        node.unprepare(long)
        assert node.cards.time_slice(node.gpu) is TimeSlice.LONG
        node.unprepare(again)
        assert node.cards.time_slice(node.gpu) is TimeSlice.DEFAULT
        node.prepare(short)
        assert node.cards.time_slice(node.gpu) is TimeSlice.SHORT
        for claim in (plain, short):
            node.unprepare(claim)
        assert node.cards.time_slice(node.gpu) is TimeSlice.DEFAULT
        assert node.records() == []


@pytest.mark.parametrize("die_at", list(CrashPoint))
@pytest.mark.parametrize("mode", ["whole", "dynamic"])
def test_a_process_that_dies_takes_no_share_from_another_claim(
    tmp_path: Path, mode: str, die_at: CrashPoint
) -> None:
    with share_node(tmp_path, "unlimited", mode=mode) as node:
        device = GPU if mode == "whole" else MIG
        first, second = node.allocate_share(device), node.allocate_share(device)
        node.prepare(first)
        for action in (node.prepare, node.unprepare):
            try:
                action(second, die_at=die_at)
            except ProcessDiedError:
                action(second)
            assert first.metadata.uid in node.records()[0].claims
        assert [record.claims for record in node.records()] == [[first.metadata.uid]]
        node.unprepare(first)
        assert node.records() == []


def test_a_record_of_the_last_release_is_read(tmp_path: Path) -> None:
    """Version 2 had one claim, and said only whether it had set the time slice."""
    with GpuHarness(tmp_path, settings="mode: whole", mig=False) as node:
        claim = node.allocate_blindly(("node-1", GPU), config=slices("Long"))
        node.prepare(claim)
        path = node.driver.data_dir / "devices" / f"{GPU}.json"
        fields = json.loads(path.read_text())
        uid = fields.pop("holders")[0]["claim"]
        path.write_text(json.dumps({**fields, "claim": uid, "time_slice": True, "version": 2}))
        node.lose_state()
        (record,) = node.records()
        assert record.holders == (Holder(claim=uid, has_unknown_time_slice=True),)
        node.prepare(claim)
        node.unprepare(claim)
        assert node.cards.time_slice(node.gpu) is TimeSlice.DEFAULT
        assert node.records() == []
