"""XIDs, memory errors and lost GPUs: taints by effect, the kubelet's view, and when they are over."""

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
from dradriver_gpu_mig.card import Event, EventKind, NotSupportedError, Placement
from dradriver_gpu_mig.card.simulator import MemoryStore, SimulatedHardware
from dradriver_gpu_mig.health import (
    Finding,
    Where,
    found_in,
    read_notes,
    reports,
    still_true,
    taints,
    with_news,
)
from dradriver_gpu_mig.offer import offers
from dradriver_gpu_mig.settings import Mode, Settings, Switching, read_settings
from dradriver_gpu_mig.snapshot import Card, look
from tests.drivers.gpu_mig.nodes import Cards

DEVICE = "gpu-0000-07-00-0-mig-3g-20gb-4"
OTHER = "gpu-0000-07-00-0-mig-1g-5gb-0"


@pytest.fixture
def card() -> Card:
    hardware = SimulatedHardware()
    hardware.open()
    gpu = hardware.gpus()[0].uuid
    (profile,) = (each for each in hardware.profiles(gpu) if each.name == "3g.20gb")
    made = hardware.create_gpu_instance(gpu, profile.id, profile.placements[1])
    hardware.create_compute_instance(gpu, made.id)
    return look(hardware).cards[gpu]


def xid(card: Card, number: int, *, instance: bool = False) -> Event:
    where = card.instances[0].gpu_instance.id if instance else None
    return Event(EventKind.XID, card.gpu.uuid, number, where, 0 if instance else None)


def marks(card: Card, *findings: Finding | None) -> dict[str, list[tuple[str, str, str]]]:
    found = taints([each for each in findings if each], offers(card, Mode.DYNAMIC, Switching.NEVER))
    return {name: [(t.key, t.value, t.effect) for t in each] for name, each in found.items()}


@pytest.mark.parametrize("number", [13, 31, 43, 45, 68, 109])
def test_faults_of_programs_are_no_fault_of_the_gpu(card: Card, number: int) -> None:
    assert found_in(xid(card, number), card, Settings(), 0) is None


@pytest.mark.parametrize(("number", "effect"), [(79, "NoExecute"), (48, "NoExecute"), (63, "NoSchedule")])
def test_an_xid_keeps_claims_away_and_a_fatal_one_evicts(card: Card, number: int, effect: str) -> None:
    found = marks(card, found_in(xid(card, number), card, Settings(), 0))
    assert len(found) == 25
    assert found[DEVICE] == [("gpu.nvidia.com/xid", str(number), effect)]


def test_the_effect_of_an_xid_is_the_operators_choice(card: Card) -> None:
    settings = read_settings("xids: {79: None, 13: NoSchedule, 63: Ignore}".replace("None", '"None"'), "node")
    effects = [
        finding.effect if (finding := found_in(xid(card, number), card, settings, 0)) else ""
        for number in (79, 13, 63)
    ]
    assert effects == ["None", "NoSchedule", ""]


def test_an_error_of_an_instance_is_that_devices_alone(card: Card) -> None:
    found = marks(card, found_in(xid(card, 94, instance=True), card, Settings(), 0))
    assert found == {DEVICE: [("gpu.nvidia.com/xid", "94", "NoSchedule")]}


def test_memory_that_was_corrected_means_nothing_and_memory_that_was_not_evicts(card: Card) -> None:
    assert found_in(Event(EventKind.SINGLE_BIT_ECC, card.gpu.uuid), card, Settings(), 0) is None
    finding = found_in(Event(EventKind.DOUBLE_BIT_ECC, card.gpu.uuid), card, Settings(), 0)
    assert marks(card, finding)[OTHER] == [("gpu.nvidia.com/ecc", "", "NoExecute")]


def test_of_several_xids_the_gravest_is_shown(card: Card) -> None:
    findings = [found_in(xid(card, number), card, Settings(), at) for at, number in enumerate((79, 63))]
    assert marks(card, *findings)[OTHER] == [("gpu.nvidia.com/xid", "79", "NoExecute")]


def test_an_error_that_is_told_again_counts_once_from_then_on(card: Card) -> None:
    findings: list[Finding] = []
    for at in range(3):
        finding = found_in(xid(card, 63), card, Settings(), at)
        assert finding is not None
        findings = with_news(findings, finding)
    assert [finding.at for finding in findings] == [2]


def test_what_only_informs_leaves_a_device_healthy(card: Card) -> None:
    told = offers(card, Mode.DYNAMIC, Switching.NEVER)
    finding = Finding(where=Where(card.gpu.uuid), key="xid", value="63", effect="None", message="an XID")
    assert {each.health for each in reports([finding], told, {})} == {dra.Health.HEALTHY}


def test_an_error_is_over_when_its_gpu_is_back_or_after_the_operators_patience() -> None:
    finding = Finding(where=Where("GPU-1"), key="xid", effect="NoSchedule", message="an XID", at=100.0)
    patient = Settings(recover_seconds=60)
    assert still_true([finding], {"GPU-1"}, {}, Settings(), 101) == []
    assert still_true([finding], {"GPU-2"}, {}, Settings(), 1e9) == [finding]
    assert still_true([finding], set(), {}, patient, 159) == [finding]
    assert still_true([finding], set(), {}, patient, 160) == []


def test_an_error_is_over_when_its_gpu_needed_a_reset_and_needs_none_any_more(card: Card) -> None:
    (right, wrong) = (replace(card, needs_reset=needs) for needs in (False, True))
    finding = found_in(xid(card, 95), card, Settings(), 0)
    assert finding is not None
    findings = still_true([finding], set(), {card.gpu.uuid: right}, Settings(), 1)
    assert findings == [finding]  # the GPU may tell its need later than the error
    findings = still_true(findings, set(), {card.gpu.uuid: wrong}, Settings(), 2)
    assert [each.needed_reset for each in findings] == [True]
    assert still_true(findings, set(), {}, Settings(), 3) == findings
    assert still_true(findings, set(), {card.gpu.uuid: right}, Settings(), 4) == []


def test_an_error_of_an_instance_goes_with_the_instance(card: Card) -> None:
    finding = found_in(xid(card, 94, instance=True), card, Settings(), 0)
    assert finding is not None
    assert still_true([finding], set(), {card.gpu.uuid: card}, Settings(), 1) == [finding]
    assert still_true([finding], set(), {card.gpu.uuid: replace(card, instances=())}, Settings(), 1) == []


# --- on a node -------------------------------------------------------------------------------------


def lose(node: Cards, *, lost: bool = True) -> None:
    with node.store.change() as state:
        state.gpus[0].lost = lost


def test_a_lost_gpu_stays_published_until_its_pods_are_gone_and_comes_back(tmp_path: Path) -> None:
    with Cards(tmp_path, "a100-40", "a100-40") as node:
        before = list(node.devices)
        lose(node)
        assert list(node.devices) == before  # the first of the two looks that it takes
        assert set(node.taints()) == {name for name in before if "0000-07" in name}
        assert node.taints()[DEVICE] == {("gpu.nvidia.com/gpu-lost", "", "NoExecute")}
        with pytest.raises(dra.DraError, match="is not there any more"):
            node.prepare(node.take(DEVICE))
        lose(node, lost=False)
        assert node.taints() == {}


@asynccontextmanager
async def watched(folder: Path, store: MemoryStore) -> AsyncIterator[tuple[GpuDriver, SimulatedHardware]]:
    """A driver that was asked what it has, and the hand of whoever stands beside the card."""
    driver, hand = GpuDriver("mode: dynamic", SimulatedHardware(store=store)), SimulatedHardware(store=store)
    driver.set_context(DriverContext("node-1", folder))
    hand.open()
    await driver.discover()
    try:
        yield driver, hand
    finally:
        await driver.shutdown()


async def health_of(driver: GpuDriver, right: Callable[[dra.DeviceHealth], bool]) -> dra.DeviceHealth:
    async for told in driver.health():
        (found,) = (each for each in told if each.device == DEVICE)
        if right(found):
            return found
    raise AssertionError("health() ended")


async def test_an_event_is_told_to_the_kubelet_and_to_the_scheduler_and_outlives_the_process(
    tmp_path: Path,
) -> None:
    store = MemoryStore()
    asked = asyncio.Event()
    async with watched(tmp_path, store) as (driver, hand):
        driver.set_context(ProcessContext(ContextRequests(rediscover=asked.set), "node-1", tmp_path))
        hand.fail(hand.gpus()[0].uuid, EventKind.XID, xid=79, needs_reset=True)
        told = await health_of(driver, lambda told: told.health is dra.Health.UNHEALTHY)
        assert told.message.startswith("XID 79 of GPU-")
        assert asked.is_set()
    async with watched(tmp_path, store) as (again, hand):
        (pool,) = await again.discover()
        assert {(taint.key, taint.value) for device in pool.devices for taint in device.taints} == {
            ("gpu.nvidia.com/xid", "79"),
            ("gpu.nvidia.com/reset-required", ""),
        }
        hand.reset(hand.gpus()[0].uuid)
        (pool,) = await again.discover()
        assert not any(device.taints for device in pool.devices)


async def test_a_gpu_that_failed_while_nobody_listened_is_kept_away_from_claims(tmp_path: Path) -> None:
    async with watched(tmp_path, MemoryStore()) as (driver, hand):
        gpu = hand.gpus()[0].uuid
        hand.fail(gpu, EventKind.XID, xid=79, needs_reset=True)
        (pool,) = await driver.discover()
        assert {(mark.key, mark.effect) for device in pool.devices for mark in device.taints} == {
            ("gpu.nvidia.com/reset-required", "NoSchedule")
        }
        hand.reset(gpu)
        (pool,) = await driver.discover()
        assert not any(device.taints for device in pool.devices)


async def test_faults_of_programs_cost_no_look_at_the_cards(tmp_path: Path) -> None:
    async with watched(tmp_path, MemoryStore()) as (driver, hand):
        node, gpu, looks = driver._node, hand.gpus()[0].uuid, list[str]()
        assert node is not None
        cast(SimulatedHardware, node.cards.hardware).hook = lambda call, _: looks.append(call)
        instance = make(hand, "3g.20gb", 4)
        assert not await node.hear(Event(EventKind.XID, gpu, 13, instance, 0))
        assert looks == []
        assert await node.hear(Event(EventKind.XID, gpu, 94, instance, 0))
        assert looks != []


async def test_an_instance_that_somebody_makes_is_noticed_at_once(tmp_path: Path) -> None:
    asked = asyncio.Event()
    async with watched(tmp_path, MemoryStore()) as (driver, hand):
        driver.set_context(ProcessContext(ContextRequests(rediscover=asked.set), "node-1", tmp_path))
        (profile,) = (each for each in hand.profiles(hand.gpus()[0].uuid) if each.name == "1g.5gb")
        hand.create_gpu_instance(hand.gpus()[0].uuid, profile.id, profile.placements[0])
        told = await health_of(driver, lambda _: asked.is_set())
        assert told.health is dra.Health.HEALTHY


async def tainted(driver: GpuDriver) -> dict[str, set[str]]:
    (pool,) = await driver.discover()
    return {each.name: {taint.value for taint in each.taints} for each in pool.devices if each.taints}


def make(hand: SimulatedHardware, name: str, start: int) -> int:
    gpu = hand.gpus()[0].uuid
    (profile,) = (each for each in hand.profiles(gpu) if each.name == name)
    made = hand.create_gpu_instance(gpu, profile.id, Placement(start, profile.memory_slices))
    hand.create_compute_instance(gpu, made.id)
    return made.id


async def test_an_error_of_an_instance_that_was_made_since_the_last_look_is_that_devices_alone(
    tmp_path: Path,
) -> None:
    async with watched(tmp_path, MemoryStore()) as (driver, hand):
        instance = make(hand, "3g.20gb", 4)
        await driver._node.hear(Event(EventKind.XID, hand.gpus()[0].uuid, 95, instance, 0))  # type: ignore[union-attr]
        marked = {name for name, values in (await tainted(driver)).items() if "95" in values}
        assert marked == {DEVICE}


async def test_an_error_of_an_instance_that_is_gone_taints_nothing(tmp_path: Path) -> None:
    async with watched(tmp_path, MemoryStore()) as (driver, hand):
        instance = make(hand, "3g.20gb", 4)
        await driver.discover()
        hand.reset(hand.gpus()[0].uuid)
        await driver._node.hear(Event(EventKind.XID, hand.gpus()[0].uuid, 95, instance, 0))  # type: ignore[union-attr]
        assert await tainted(driver) == {}


async def test_errors_that_come_at_once_are_all_remembered(tmp_path: Path) -> None:
    store = MemoryStore()
    numbers = range(200, 220)
    async with watched(tmp_path, store) as (driver, hand):
        gpu = hand.gpus()[0].uuid
        node = driver._node
        assert node is not None
        await asyncio.gather(*(node.hear(Event(EventKind.XID, gpu, number)) for number in numbers))
        boot = node.record_store.boot
    assert [int(each.value) for each in read_notes(tmp_path / "findings.json", boot)] == list(numbers)


async def test_a_gpu_that_comes_after_those_that_tell_no_events_is_heard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dradriver_gpu_mig.driver, "_REPORT_SECONDS", 0.01)
    refusals = 2

    class Late(SimulatedHardware):
        def wait_event(self, timeout: float) -> Event | None:
            nonlocal refusals
            if refusals:
                refusals -= 1
                raise NotSupportedError("no GPU tells events")
            return super().wait_event(timeout)

    driver = GpuDriver("mode: dynamic", Late())
    driver.set_context(DriverContext("node-1", tmp_path))
    await driver.discover()
    hardware = driver._node.cards.hardware  # type: ignore[union-attr]
    assert isinstance(hardware, Late)
    hardware.fail(hardware.gpus()[0].uuid, EventKind.XID, xid=79)
    told = await health_of(driver, lambda told: told.health is dra.Health.UNHEALTHY)
    assert told.message.startswith("XID 79")
    await driver.shutdown()
