"""No error of NVML changes the published devices, unless a GPU is lost in two consecutive reads."""

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
from dradriver_gpu_mig.card import GpuError, GpuHardware, Placement
from dradriver_gpu_mig.card.nvml import NvmlGpus
from dradriver_gpu_mig.card.simulator import GpuMemoryStore, SimulatedGpus
from dradriver_gpu_mig.instances import DeviceRecord, Holder, ProfilePlacement, RecordState
from tests.drivers.gpu_mig.shim.controls import ShimControls

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


class FailableCalls(Protocol):
    """Controls of the cards. GPUs are named by index."""

    def fail_calls(self, gpu: int, code: int) -> None: ...
    def remove(self, gpu: int) -> None: ...
    def reset(self, gpu: int) -> None: ...


class SimulatorControls:
    def __init__(self, cards: SimulatedGpus) -> None:
        self._cards = cards
        self._uuids = [gpu.uuid for gpu in cards.gpus()]

    def fail_calls(self, gpu: int, code: int) -> None:
        self._cards.fail_calls(self._uuids[gpu], code)

    def remove(self, gpu: int) -> None:
        self._cards.remove(self._uuids[gpu])

    def reset(self, gpu: int) -> None:
        self._cards.reset(self._uuids[gpu])


@dataclass
class DriverSetup:
    """The driver on two A100 with a claim's instance on the first, and controls of the cards."""

    driver: GpuDriver
    controls: FailableCalls
    published: dra.Pool

    async def discover(self) -> dra.Pool:
        """What is published after another look; when that fails, the SDK leaves it as it is."""
        with suppress(GpuError):
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
        return {each.device: each for each in self.driver._node.report_health()}


@pytest.fixture(params=["simulator", "nvml"])
async def site(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    shim: Callable[..., tuple[NvmlGpus, ShimControls]],
    shim_library: Path,
) -> AsyncIterator[DriverSetup]:
    controls: FailableCalls
    if request.param == "nvml":
        _, controls = shim("a100-40", "a100-40")
        hardware: GpuHardware = NvmlGpus(shim_library)
    else:
        store = GpuMemoryStore()
        beside = SimulatedGpus(["a100-40", "a100-40"], store=store)
        beside.open()
        controls, hardware = SimulatorControls(beside), SimulatedGpus(store=store)
    driver = GpuDriver("mode: dynamic", hardware)
    driver.set_context(DriverContext("node-1", tmp_path))
    (pool,) = await driver.discover()
    node = driver._node
    assert node is not None
    gpu = next(device for device in pool.devices if device.name == DEVICE).attribute("parentUUID")
    instance = ProfilePlacement(9, Placement(4, 4))
    await node.reconciler.create(
        DeviceRecord(device=DEVICE, holders=(Holder(claim="claim-1"),), gpu=str(gpu), instance=instance)
    )
    made = DriverSetup(driver, controls, pool)
    await made.discover()
    yield made
    await driver.shutdown()


@pytest.mark.parametrize("code", CODES)
async def test_only_a_gpu_that_is_lost_twice_in_a_row_evicts_its_pods(site: DriverSetup, code: int) -> None:
    before = site.published
    site.controls.fail_calls(0, code)
    await site.discover()
    assert not site.taints("NoExecute"), "after one read"
    health, other = site.health()[DEVICE], site.health()[DEVICE.replace("07", "0f", 1)]
    if code not in OF_THE_DRIVER:
        assert health.health is (dra.Health.UNHEALTHY if code == RESET else dra.Health.UNKNOWN)
        assert f"({code})" in health.message or code in LOST | {RESET}
    assert other.health is dra.Health.HEALTHY
    await site.discover()
    lost = {("gpu-0000-07-00-0", "gpu.nvidia.com/gpu-lost")} if code in LOST else set()
    assert site.taints("NoExecute") == lost
    assert [device.name for device in site.published.devices] == [device.name for device in before.devices]
    site.controls.fail_calls(0, 0)
    assert await site.discover() == before


async def test_an_error_between_two_losses_is_no_row(site: DriverSetup) -> None:
    for code in (15, 999, 15, 4, 15):
        site.controls.fail_calls(0, code)
        await site.discover()
    assert not site.taints("NoExecute")
    await site.discover()
    assert site.taints("NoExecute")


async def test_a_lost_gpu_is_lost_until_it_answers(site: DriverSetup) -> None:
    for code in (15, 15, 999, 10):
        site.controls.fail_calls(0, code)
        await site.discover()
    assert site.taints("NoExecute")
    site.controls.fail_calls(0, 0)
    await site.discover()
    assert not site.taints("NoExecute")


async def test_a_gpu_that_was_taken_away_is_lost(site: DriverSetup) -> None:
    site.controls.remove(0)
    await site.discover()
    assert not site.taints("NoExecute")
    await site.discover()
    assert site.taints("NoExecute") == {("gpu-0000-07-00-0", "gpu.nvidia.com/gpu-lost")}


async def test_a_gpu_that_needs_a_reset_gets_no_new_claims_and_evicts_no_pod(site: DriverSetup) -> None:
    site.controls.fail_calls(0, RESET)
    await site.discover()
    await site.discover()
    assert site.taints("NoSchedule") == {("gpu-0000-07-00-0", "gpu.nvidia.com/reset-required")}


async def test_a_gpu_that_does_not_answer_is_logged_once(
    site: DriverSetup, caplog: pytest.LogCaptureFixture
) -> None:
    site.controls.fail_calls(0, 999)
    for _ in range(3):
        await site.discover()
    site.controls.fail_calls(0, 0)
    await site.discover()
    messages = [each.getMessage() for each in caplog.records if "GPU-" in each.getMessage()]
    assert len(messages) == 2, messages
    assert "(999)" in messages[0]
    assert "answers again" in messages[1]


@pytest.mark.parametrize("code", [2, 3, 6, 13, 15, 999])
@pytest.mark.parametrize("mode", ["static", "dynamic"])
async def test_one_failed_call_removes_no_device_and_evicts_no_pod(
    tmp_path: Path, shim: Callable[..., tuple[NvmlGpus, ShimControls]], shim_library: Path, code: int, mode: str
) -> None:
    hardware, controls = shim("a100-40")
    (gpu,) = hardware.gpus()
    made = hardware.create_gpu_instance(gpu.uuid, 9, Placement(4, 4))
    hardware.create_compute_instance(gpu.uuid, made)
    driver = GpuDriver(f"mode: {mode}", NvmlGpus(shim_library))
    driver.set_context(DriverContext("node-1", tmp_path))
    await driver.discover()
    node = driver._node
    assert node is not None
    instance, boot = ProfilePlacement(9, Placement(4, 4)), node.record_store.boot
    ready = DeviceRecord(
        device=DEVICE,
        holders=(Holder(claim="claim-1"),),
        gpu=gpu.uuid,
        instance=instance,
        state=RecordState.READY,
        boot=boot,
    )
    await asyncio.to_thread(node.record_store.put, ready)
    (before,) = await driver.discover()
    wrong = []
    for call in CALLS:
        for skip in (0, 1):
            controls.fail_calls(0, code, call=call, skip=skip, times=1)
            (after,) = await driver.discover()
            controls.fail_calls(0, 0)
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
