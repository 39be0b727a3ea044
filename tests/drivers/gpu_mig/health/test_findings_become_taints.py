"""XIDs, memory errors and lost GPUs: their taints, the health for the kubelet, and their end."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

import dradriver as dra
import dradriver_gpu_mig.driver
from dradriver import DriverContext
from dradriver.node.driver_context import ContextRequests, ProcessContext
from dradriver_gpu_mig import GpuDriver
from dradriver_gpu_mig.card import Event, EventKind, NotSupportedError, Placement, RecoveryAction
from dradriver_gpu_mig.card.simulator import GpuMemoryStore, SimulatedGpus
from dradriver_gpu_mig.health import (
    Finding,
    FindingSubject,
    add_finding,
    classify_event,
    compute_taints,
    drop_ended,
    read_findings,
    report_health,
)
from dradriver_gpu_mig.offer import list_offers
from dradriver_gpu_mig.settings import GpuSettings, MigSwitching, Mode, read_settings
from dradriver_gpu_mig.snapshot import GpuCard
from tests.drivers.gpu_mig.mig_devices import read_cards
from tests.drivers.gpu_mig.nodes import GpuHarness

DEVICE = "gpu-0000-07-00-0-mig-3g-20gb-4"
OTHER = "gpu-0000-07-00-0-mig-1g-5gb-0"


@pytest.fixture
def card() -> GpuCard:
    """A GPU whose driver does not report recovery actions."""
    hardware = SimulatedGpus()
    hardware.open()
    gpu = hardware.gpus()[0].uuid
    hardware.set_recovery_action(gpu, None)
    (profile,) = (each for each in hardware.profiles(gpu) if each.name == "3g.20gb")
    made = hardware.create_gpu_instance(gpu, profile.id, profile.placements[1])
    hardware.create_compute_instance(gpu, made)
    return read_cards(hardware)[gpu]


def xid(card: GpuCard, number: int, *, instance: bool = False) -> Event:
    where = card.instances[0].gpu_instance.id if instance else None
    return Event(EventKind.XID, card.gpu.uuid, number, where, 0 if instance else None)


def compute_marks(card: GpuCard, *findings: Finding | None) -> dict[str, list[tuple[str, str, str]]]:
    found = compute_taints(
        [each for each in findings if each], list_offers(card, Mode.DYNAMIC, MigSwitching.NEVER)
    )
    return {name: [(t.key, t.value, t.effect) for t in each] for name, each in found.items()}


@pytest.mark.parametrize("number", [13, 31, 43, 45, 68, 109])
def test_faults_of_programs_are_no_fault_of_the_gpu(card: GpuCard, number: int) -> None:
    assert classify_event(xid(card, number), card, GpuSettings(), 0) is None


@pytest.mark.parametrize(
    ("number", "effect"), [(79, "NoExecute"), (48, "NoExecute"), (144, "NoSchedule"), (999, "NoSchedule")]
)
def test_an_xid_keeps_claims_away_and_a_fatal_one_evicts(card: GpuCard, number: int, effect: str) -> None:
    found = compute_marks(card, classify_event(xid(card, number), card, GpuSettings(), 0))
    assert len(found) == 25
    assert found[DEVICE] == [("gpu.nvidia.com/xid", str(number), effect)]


def test_the_effect_of_an_xid_is_the_operators_choice(card: GpuCard) -> None:
    settings = read_settings("xids: {79: None, 13: NoSchedule, 64: Ignore}".replace("None", '"None"'), "node")
    effects = [
        finding.effect if (finding := classify_event(xid(card, number), card, settings, 0)) else ""
        for number in (79, 13, 64)
    ]
    assert effects == ["None", "NoSchedule", ""]


def test_an_error_of_an_instance_is_that_devices_alone(card: GpuCard) -> None:
    found = compute_marks(card, classify_event(xid(card, 95, instance=True), card, GpuSettings(), 0))
    assert found == {DEVICE: [("gpu.nvidia.com/xid", "95", "NoExecute")]}


def test_memory_that_was_corrected_means_nothing_and_memory_that_was_not_evicts(card: GpuCard) -> None:
    assert classify_event(Event(EventKind.SINGLE_BIT_ECC, card.gpu.uuid), card, GpuSettings(), 0) is None
    finding = classify_event(Event(EventKind.DOUBLE_BIT_ECC, card.gpu.uuid), card, GpuSettings(), 0)
    assert compute_marks(card, finding)[OTHER] == [("gpu.nvidia.com/ecc", "", "NoExecute")]


def test_of_several_xids_the_gravest_is_shown(card: GpuCard) -> None:
    findings = [
        classify_event(xid(card, number), card, GpuSettings(), reported_at)
        for reported_at, number in enumerate((79, 144))
    ]
    assert compute_marks(card, *findings)[OTHER] == [("gpu.nvidia.com/xid", "79", "NoExecute")]


def test_a_repeated_error_counts_once_from_its_last_time(card: GpuCard) -> None:
    findings: list[Finding] = []
    for reported_at in range(3):
        finding = classify_event(xid(card, 64), card, GpuSettings(), reported_at)
        assert finding is not None
        findings = add_finding(findings, finding)
    assert [finding.reported_at for finding in findings] == [2]


def test_an_informational_finding_leaves_a_device_healthy(card: GpuCard) -> None:
    offers = list_offers(card, Mode.DYNAMIC, MigSwitching.NEVER)
    finding = Finding(
        subject=FindingSubject(card.gpu.uuid), key="xid", value="63", effect="None", message="an XID"
    )
    assert {each.health for each in report_health([finding], offers, {})} == {dra.Health.HEALTHY}


def test_an_error_is_over_when_its_gpu_is_back_or_after_the_operators_patience() -> None:
    finding = Finding(
        subject=FindingSubject("GPU-1"), key="xid", effect="NoSchedule", message="an XID", reported_at=100.0
    )
    patient = GpuSettings(recover_seconds=60)
    assert drop_ended([finding], {"GPU-1"}, {}, GpuSettings(), 101) == []
    assert drop_ended([finding], {"GPU-2"}, {}, GpuSettings(), 1e9) == [finding]
    assert drop_ended([finding], set(), {}, patient, 159) == [finding]
    assert drop_ended([finding], set(), {}, patient, 160) == []


def test_an_error_is_over_when_its_gpu_needed_a_reset_and_needs_none_any_more(card: GpuCard) -> None:
    (right, wrong) = (
        replace(card, recovery_action=action) for action in (RecoveryAction.NONE, RecoveryAction.GPU_RESET)
    )
    settings = GpuSettings(xids={95: "NoExecute"})
    finding = classify_event(xid(card, 95), right, settings, 0)
    assert finding is not None  # the operator chose the effect
    findings = drop_ended([finding], set(), {card.gpu.uuid: right}, GpuSettings(), 1)
    assert findings == [finding]  # the GPU may report that it needs a reset later than the error
    findings = drop_ended(findings, set(), {card.gpu.uuid: wrong}, GpuSettings(), 2)
    assert [each.needed_reset for each in findings] == [True]
    assert drop_ended(findings, set(), {}, GpuSettings(), 3) == findings
    assert drop_ended(findings, set(), {card.gpu.uuid: right}, GpuSettings(), 4) == []


def test_an_error_of_an_instance_ends_with_the_instance(card: GpuCard) -> None:
    finding = classify_event(xid(card, 95, instance=True), card, GpuSettings(), 0)
    assert finding is not None
    assert drop_ended([finding], set(), {card.gpu.uuid: card}, GpuSettings(), 1) == [finding]
    assert drop_ended([finding], set(), {card.gpu.uuid: replace(card, instances=())}, GpuSettings(), 1) == []


# --- on a node -------------------------------------------------------------------------------------


def lose(node: GpuHarness, *, lost: bool = True) -> None:
    with node.store.change() as state:
        state.gpus[0].lost = lost


def test_a_lost_gpu_stays_published_until_its_pods_are_gone_and_comes_back(tmp_path: Path) -> None:
    with GpuHarness(tmp_path, "a100-40", "a100-40") as node:
        before = list(node.devices)
        lose(node)
        assert list(node.devices) == before  # the first of the two looks that it takes
        assert set(node.taints()) == {name for name in before if "0000-07" in name}
        assert node.taints()[DEVICE] == {("gpu.nvidia.com/gpu-lost", "", "NoExecute")}
        with pytest.raises(dra.DraError, match="no longer exists"):
            node.prepare(node.allocate_device(DEVICE))
        lose(node, lost=False)
        assert node.taints() == {}


@asynccontextmanager
async def watched(folder: Path, store: GpuMemoryStore) -> AsyncIterator[tuple[GpuDriver, SimulatedGpus]]:
    """A driver after its first discovery, and controls of its cards."""
    driver, controls = GpuDriver("mode: dynamic", SimulatedGpus(store=store)), SimulatedGpus(store=store)
    driver.set_context(DriverContext("node-1", folder))
    controls.open()
    await driver.discover()
    try:
        yield driver, controls
    finally:
        await driver.shutdown()


def old_card() -> GpuMemoryStore:
    """A GPU whose driver does not report recovery actions."""
    store = GpuMemoryStore()
    controls = SimulatedGpus(store=store)
    controls.open()
    controls.set_recovery_action(controls.gpus()[0].uuid, None)
    return store


async def health_of(driver: GpuDriver, right: Callable[[dra.DeviceHealth], bool]) -> dra.DeviceHealth:
    async for reports in driver.health():
        (found,) = (each for each in reports if each.device == DEVICE)
        if right(found):
            return found
    raise AssertionError("health() ended")


async def test_an_event_reaches_kubelet_and_scheduler_and_outlives_the_process(
    tmp_path: Path,
) -> None:
    store = GpuMemoryStore()
    asked = asyncio.Event()
    async with watched(tmp_path, store) as (driver, controls):
        driver.set_context(ProcessContext(ContextRequests(rediscover=asked.set), "node-1", tmp_path))
        gpu = controls.gpus()[0].uuid
        controls.report_error(gpu, EventKind.XID, xid=79)
        controls.set_recovery_action(gpu, RecoveryAction.NODE_REBOOT)
        report = await health_of(driver, lambda each: each.health is dra.Health.UNHEALTHY)
        assert report.message.endswith("recovery action node-reboot: reboot the node")
        assert asked.is_set()
    async with watched(tmp_path, store) as (again, controls):
        (pool,) = await again.discover()
        assert {(taint.key, taint.value) for device in pool.devices for taint in device.taints} == {
            ("gpu.nvidia.com/xid", "79"),
            ("gpu.nvidia.com/recovery-action", "node-reboot"),
        }
        controls.reset(controls.gpus()[0].uuid)
        (pool,) = await again.discover()
        assert not any(device.taints for device in pool.devices)


async def test_a_gpu_that_failed_before_the_driver_started_is_tainted(tmp_path: Path) -> None:
    async with watched(tmp_path, GpuMemoryStore()) as (driver, controls):
        gpu = controls.gpus()[0].uuid
        controls.set_recovery_action(gpu, RecoveryAction.GPU_RESET)
        (pool,) = await driver.discover()
        assert {(mark.key, mark.effect) for device in pool.devices for mark in device.taints} == {
            ("gpu.nvidia.com/recovery-action", "NoExecute")
        }
        controls.reset(gpu)
        (pool,) = await driver.discover()
        assert not any(device.taints for device in pool.devices)


async def test_faults_of_programs_cost_no_look_at_the_cards(tmp_path: Path) -> None:
    async with watched(tmp_path, old_card()) as (driver, controls):
        node, gpu, looks = driver._node, controls.gpus()[0].uuid, list[str]()
        assert node is not None
        cast(SimulatedGpus, node.cards.hardware).hook = lambda call, _: looks.append(call)
        instance = make(controls, "3g.20gb", 4)
        assert not await node.handle_event(Event(EventKind.XID, gpu, 13, instance, 0))
        assert looks == []
        assert await node.handle_event(Event(EventKind.XID, gpu, 95, instance, 0))
        assert looks != []


async def test_a_new_foreign_instance_is_noticed_at_once(tmp_path: Path) -> None:
    asked = asyncio.Event()
    async with watched(tmp_path, GpuMemoryStore()) as (driver, controls):
        driver.set_context(ProcessContext(ContextRequests(rediscover=asked.set), "node-1", tmp_path))
        (profile,) = (each for each in controls.profiles(controls.gpus()[0].uuid) if each.name == "1g.5gb")
        controls.create_gpu_instance(controls.gpus()[0].uuid, profile.id, profile.placements[0])
        report = await health_of(driver, lambda _: asked.is_set())
        assert report.health is dra.Health.HEALTHY


async def tainted(driver: GpuDriver) -> dict[str, set[str]]:
    (pool,) = await driver.discover()
    return {each.name: {taint.value for taint in each.taints} for each in pool.devices if each.taints}


def make(controls: SimulatedGpus, name: str, start: int) -> int:
    gpu = controls.gpus()[0].uuid
    (profile,) = (each for each in controls.profiles(gpu) if each.name == name)
    made = controls.create_gpu_instance(gpu, profile.id, Placement(start, profile.memory_slices))
    controls.create_compute_instance(gpu, made)
    return made.id


async def test_an_error_of_an_instance_that_was_made_since_the_last_look_is_that_devices_alone(
    tmp_path: Path,
) -> None:
    async with watched(tmp_path, old_card()) as (driver, controls):
        instance = make(controls, "3g.20gb", 4)
        await driver._node.handle_event(Event(EventKind.XID, controls.gpus()[0].uuid, 95, instance, 0))  # type: ignore[union-attr]
        marked = {name for name, values in (await tainted(driver)).items() if "95" in values}
        assert marked == {DEVICE}


async def test_an_error_of_an_instance_that_is_gone_taints_nothing(tmp_path: Path) -> None:
    async with watched(tmp_path, old_card()) as (driver, controls):
        instance = make(controls, "3g.20gb", 4)
        await driver.discover()
        controls.reset(controls.gpus()[0].uuid)
        await driver._node.handle_event(Event(EventKind.XID, controls.gpus()[0].uuid, 95, instance, 0))  # type: ignore[union-attr]
        assert await tainted(driver) == {}


async def test_errors_that_come_at_once_are_all_remembered(tmp_path: Path) -> None:
    store = old_card()
    numbers = range(200, 220)
    async with watched(tmp_path, store) as (driver, controls):
        gpu = controls.gpus()[0].uuid
        node = driver._node
        assert node is not None
        await asyncio.gather(*(node.handle_event(Event(EventKind.XID, gpu, number)) for number in numbers))
        boot = node.record_store.boot
    assert [int(each.value) for each in read_findings(tmp_path / "findings.json", boot)] == list(numbers)


async def test_a_gpu_with_events_is_heard_after_gpus_without_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dradriver_gpu_mig.driver, "_REPORT_SECONDS", 0.01)
    failing_waits = 2

    class Late(SimulatedGpus):
        def wait_event(self, timeout: float) -> Event | None:
            nonlocal failing_waits
            if failing_waits:
                failing_waits -= 1
                raise NotSupportedError("no GPU supports events")
            return super().wait_event(timeout)

    driver = GpuDriver("mode: dynamic", Late())
    driver.set_context(DriverContext("node-1", tmp_path))
    await driver.discover()
    hardware = driver._node.cards.hardware  # type: ignore[union-attr]
    assert isinstance(hardware, Late)
    hardware.set_recovery_action(hardware.gpus()[0].uuid, RecoveryAction.NODE_REBOOT)
    report = await health_of(driver, lambda each: each.health is dra.Health.UNHEALTHY)
    assert report.message.endswith("reboot the node")
    await driver.shutdown()
