"""Every error of NVML: what is published stays, unless a GPU is found lost in two looks in a row."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pynvml
import pytest

import dradriver as dra
from dradriver import DriverContext
from dradriver_gpu_mig import GpuDriver
from dradriver_gpu_mig.card import CardError, Hardware, Placement
from dradriver_gpu_mig.card.nvml import NvmlHardware
from dradriver_gpu_mig.card.simulator import MemoryStore, SimulatedHardware
from dradriver_gpu_mig.instances import Place, Record, State
from tests.drivers.gpu_mig.shim.hand import Hand

DEVICE = "gpu-0000-07-00-0-mig-3g-20gb-4"
CODES = sorted({code for name, code in vars(pynvml).items() if name.startswith("NVML_ERROR_")})
LOST = {pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_NOT_FOUND}
RESET = pynvml.NVML_ERROR_RESET_REQUIRED
OF_THE_DRIVER = {
    pynvml.NVML_ERROR_UNINITIALIZED,
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED,
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH,
}
"""Answers that are about no single GPU: the whole look fails, and what is published stays as it is."""
CALLS = [
    "nvmlDeviceGetHandleByIndex_v2",
    "nvmlDeviceGetPciInfo_v3",
    "nvmlDeviceGetUUID",
    "nvmlDeviceGetMinorNumber",
    "nvmlDeviceGetName",
    "nvmlDeviceGetBrand",
    "nvmlDeviceGetArchitecture",
    "nvmlDeviceGetCudaComputeCapability",
    "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetMigMode",
    "nvmlDeviceGetMaxMigDeviceCount",
    "nvmlDeviceGetMigDeviceHandleByIndex",
    "nvmlDeviceGetGpuInstanceId",
    "nvmlDeviceGetComputeInstanceId",
    "nvmlDeviceGetGpuInstances",
    "nvmlGpuInstanceGetInfo",
    "nvmlDeviceGetGpuInstanceById",
    "nvmlGpuInstanceGetComputeInstanceProfileInfoV",
    "nvmlGpuInstanceGetComputeInstances",
    "nvmlComputeInstanceGetInfo_v2",
]
"""The calls about a GPU that a look at the cards makes."""


class Refuses(Protocol):
    """The hand on the cards. GPUs are named by index."""

    def refuse(self, gpu: int, code: int) -> None: ...
    def remove(self, gpu: int) -> None: ...
    def reset(self, gpu: int) -> None: ...


class SimulatedHand:
    def __init__(self, cards: SimulatedHardware) -> None:
        self._cards = cards
        self._uuids = [gpu.uuid for gpu in cards.gpus()]

    def refuse(self, gpu: int, code: int) -> None:
        self._cards.refuse(self._uuids[gpu], code)

    def remove(self, gpu: int) -> None:
        self._cards.remove(self._uuids[gpu])

    def reset(self, gpu: int) -> None:
        self._cards.reset(self._uuids[gpu])


@dataclass
class Site:
    """The driver, looking at two A100 with a claim's instance on the first, and the hand on them."""

    driver: GpuDriver
    hand: Refuses
    published: dra.Pool

    async def look(self) -> dra.Pool:
        """What is published after another look; when that fails, the SDK leaves it as it is."""
        with suppress(CardError):
            (self.published,) = await self.driver.discover()
        return self.published

    def taints(self, effect: str) -> set[tuple[str, str]]:
        """GPU and key of every taint with an effect."""
        return {
            (device.name[:16], taint.key)
            for device in self.published.devices
            for taint in device.taints
            if taint.effect == effect
        }

    def health(self) -> dict[str, dra.DeviceHealth]:
        assert self.driver._node is not None
        return {each.device: each for each in self.driver._node.reports()}


@pytest.fixture(params=["simulator", "nvml"])
async def site(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    shim: Callable[..., tuple[NvmlHardware, Hand]],
    shim_library: Path,
) -> AsyncIterator[Site]:
    hand: Refuses
    if request.param == "nvml":
        _, hand = shim("a100-40", "a100-40")
        hardware: Hardware = NvmlHardware(shim_library)
    else:
        store = MemoryStore()
        beside = SimulatedHardware(["a100-40", "a100-40"], store=store)
        beside.open()
        hand, hardware = SimulatedHand(beside), SimulatedHardware(store=store)
    driver = GpuDriver("mode: dynamic", hardware)
    driver.set_context(DriverContext("node-1", tmp_path))
    (pool,) = await driver.discover()
    node = driver._node
    assert node is not None
    gpu = next(device for device in pool.devices if device.name == DEVICE).attribute("parentUUID")
    place = Place(9, Placement(4, 4))
    await node.reconciler.make(Record(device=DEVICE, claim="claim-1", gpu=str(gpu), place=place))
    made = Site(driver, hand, pool)
    await made.look()
    yield made
    await driver.shutdown()


@pytest.mark.parametrize("code", CODES)
async def test_only_a_gpu_that_is_lost_twice_in_a_row_evicts_its_pods(site: Site, code: int) -> None:
    before = site.published
    site.hand.refuse(0, code)
    await site.look()
    assert not site.taints("NoExecute"), "after one look"
    told, other = site.health()[DEVICE], site.health()[DEVICE.replace("07", "0f", 1)]
    if code not in OF_THE_DRIVER:
        assert told.health is (dra.Health.UNHEALTHY if code == RESET else dra.Health.UNKNOWN)
        assert f"({code})" in told.message or code in LOST | {RESET}
    assert other.health is dra.Health.HEALTHY
    await site.look()
    lost = {("gpu-0000-07-00-0", "gpu.nvidia.com/gpu-lost")} if code in LOST else set()
    assert site.taints("NoExecute") == lost
    assert [device.name for device in site.published.devices] == [device.name for device in before.devices]
    site.hand.refuse(0, 0)
    assert await site.look() == before


async def test_an_error_between_two_losses_is_no_row(site: Site) -> None:
    for code in (15, 999, 15, 4, 15):
        site.hand.refuse(0, code)
        await site.look()
    assert not site.taints("NoExecute")
    await site.look()
    assert site.taints("NoExecute")


async def test_a_lost_gpu_is_lost_until_it_answers(site: Site) -> None:
    for code in (15, 15, 999, 10):
        site.hand.refuse(0, code)
        await site.look()
    assert site.taints("NoExecute")
    site.hand.refuse(0, 0)
    await site.look()
    assert not site.taints("NoExecute")


async def test_a_gpu_that_was_taken_away_is_lost(site: Site) -> None:
    site.hand.remove(0)
    await site.look()
    assert not site.taints("NoExecute")
    await site.look()
    assert site.taints("NoExecute") == {("gpu-0000-07-00-0", "gpu.nvidia.com/gpu-lost")}


async def test_a_gpu_that_wants_a_reset_keeps_new_claims_away_and_evicts_nobody(site: Site) -> None:
    site.hand.refuse(0, RESET)
    await site.look()
    await site.look()
    assert site.taints("NoSchedule") == {("gpu-0000-07-00-0", "gpu.nvidia.com/reset-required")}


async def test_a_gpu_that_does_not_answer_is_logged_once(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    site.hand.refuse(0, 999)
    for _ in range(3):
        await site.look()
    site.hand.refuse(0, 0)
    await site.look()
    told = [each.getMessage() for each in caplog.records if "GPU-" in each.getMessage()]
    assert len(told) == 2, told
    assert "(999)" in told[0]
    assert "answers again" in told[1]


@pytest.mark.parametrize("code", [2, 3, 6, 13, 15, 999])
@pytest.mark.parametrize("mode", ["static", "dynamic"])
async def test_one_call_of_a_look_that_fails_takes_no_device_away_and_evicts_nobody(
    tmp_path: Path,
    shim: Callable[..., tuple[NvmlHardware, Hand]],
    shim_library: Path,
    code: int,
    mode: str,
) -> None:
    hardware, hand = shim("a100-40")
    (gpu,) = hardware.gpus()
    made = hardware.create_gpu_instance(gpu.uuid, 9, Placement(4, 4))
    hardware.create_compute_instance(gpu.uuid, made.id)
    driver = GpuDriver(f"mode: {mode}", NvmlHardware(shim_library))
    driver.set_context(DriverContext("node-1", tmp_path))
    await driver.discover()
    node = driver._node
    assert node is not None
    place, boot = Place(9, Placement(4, 4)), node.record_store.boot
    ready = Record(device=DEVICE, claim="claim-1", gpu=gpu.uuid, place=place, state=State.READY, boot=boot)
    await asyncio.to_thread(node.record_store.put, ready)
    (before,) = await driver.discover()
    wrong = []
    for call in CALLS:
        for skip in (0, 1):
            hand.refuse(0, code, call=call, skip=skip, times=1)
            (after,) = await driver.discover()
            hand.refuse(0, 0)
            (healed,) = await driver.discover()
            if (after, healed) != (before, before):
                wrong.append(f"{call} (after {skip}): {_difference(before, after)}")
    await driver.shutdown()
    assert not wrong, "\n".join(wrong)


def _difference(before: dra.Pool, after: dra.Pool) -> str:
    one, other = ({device.name: device for device in pool.devices} for pool in (before, after))
    gone, new = sorted(one.keys() - other.keys()), sorted(other.keys() - one.keys())
    changed = [name for name in one.keys() & other.keys() if one[name] != other[name]]
    return f"gone {gone[:2]}, new {new[:2]}, changed {changed[:2]}"
