"""Each call of NVML fails once and hangs once: no pod is evicted, and afterwards everything is as before."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pynvml
import pytest

import dradriver as dra
from dradriver import DriverContext
from dradriver_gpu_mig import GpuDriver
from dradriver_gpu_mig.card import GpuError, GpuHardware, Placement
from dradriver_gpu_mig.card.nvml import NvmlGpus
from dradriver_gpu_mig.instances import DeviceRecord, Holder, ProfilePlacement, RecordState
from tests.drivers.gpu_mig.card.hanging_calls import let_limits_pass
from tests.drivers.gpu_mig.shim.calls import NvmlCalls, intercept_calls
from tests.drivers.gpu_mig.shim.controls import environment

_SECONDS = 0.1
_PROFILE, _PLACEMENT = 9, Placement(4, 4)
_SUFFIX = "mig-3g-20gb-4"
_NAMES = ("gpu-0000-07-00-0", "gpu-0000-0f-00-0")
_LOST = pynvml.NVML_ERROR_GPU_IS_LOST


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[NvmlCalls]:
    with intercept_calls() as calls:
        let_limits_pass(monkeypatch, calls.is_hanging)
        yield calls


@pytest.fixture
async def driver(
    calls: NvmlCalls, shim_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[GpuDriver]:
    """The driver on two cards, on each of which a pod has a MIG device."""
    for name, value in environment(tmp_path / "cards.state", ["a100-40", "a100-40"]).items():
        monkeypatch.setenv(name, value)
    driver = GpuDriver(f"{{mode: dynamic, callSeconds: {_SECONDS}, destroySeconds: 1}}", NvmlGpus(shim_library))
    driver.set_context(DriverContext("node-1", tmp_path))
    await driver.discover()
    node = driver._node
    assert node is not None
    for gpu, name in zip(await node.cards.call(lambda hardware: hardware.gpus()), _NAMES, strict=True):
        await node.cards.call_gpu(gpu.uuid, _create(gpu.uuid))
        instance = ProfilePlacement(_PROFILE, _PLACEMENT)
        record = DeviceRecord(
            device=f"{name}-{_SUFFIX}", holders=(Holder(claim=f"claim-{name}"),), gpu=gpu.uuid,
            instance=instance, state=RecordState.READY, boot=node.record_store.boot,
        )  # fmt: skip
        await asyncio.to_thread(node.record_store.put, record)
    await driver.discover()
    yield driver
    calls.release()
    await driver.shutdown()


def _create(gpu: str) -> Callable[[GpuHardware], None]:
    def create(hardware: GpuHardware) -> None:
        hardware.create_compute_instance(gpu, hardware.create_gpu_instance(gpu, _PROFILE, _PLACEMENT))

    return create


async def _list_calls(driver: GpuDriver, calls: NvmlCalls) -> list[str]:
    calls.counts.clear()
    await driver.discover()
    assert len(calls.counts) > 12, calls.counts
    return list(calls.counts)


def _evicted(pool: dra.Pool) -> set[str]:
    return {
        device.name
        for device in pool.devices
        for taint in device.taints
        if taint.effect == "NoExecute" and device.name.endswith(_SUFFIX)
    }


async def _discover(driver: GpuDriver, published: dra.Pool) -> dra.Pool:
    """Return what is published after another scan. If the scan fails, the SDK changes nothing."""
    with suppress(GpuError):
        (published,) = await driver.discover()
    return published


@pytest.mark.parametrize("code", [_LOST, 999])
async def test_a_call_that_fails_once_evicts_no_pod(driver: GpuDriver, calls: NvmlCalls, code: int) -> None:
    (before,) = await driver.discover()
    for name in await _list_calls(driver, calls):
        calls.fail_once(name, code)
        published = await _discover(driver, before)
        assert calls.is_hit.is_set(), name
        assert _evicted(published) == set(), name
        assert (await driver.discover())[0] == before, name


async def test_a_call_that_hangs_once_evicts_no_pod_and_stalls_no_other_gpu(
    driver: GpuDriver, calls: NvmlCalls
) -> None:
    (before,) = await driver.discover()
    node = driver._node
    assert node is not None
    for name in await _list_calls(driver, calls):
        calls.hang_once(name)
        async with asyncio.timeout(40):
            published = await _discover(driver, before)
            assert calls.is_hit.is_set(), name
            published = await _discover(driver, published)
        assert _evicted(published) == set(), name
        healthy = [each for each in node.report_health() if each.health is dra.Health.HEALTHY]
        assert len(healthy) >= len(before.devices) // 2, name
        calls.release()
        async with asyncio.timeout(40):
            while await _discover(driver, published) != before or any(
                each.health is not dra.Health.HEALTHY for each in node.report_health()
            ):
                await asyncio.sleep(0.01)


def _make_claim(gpu: str) -> dra.Claim:
    """A claim for a small MIG device of a GPU."""
    device = dra.AllocatedDevice("gpu", "node-1", f"{gpu}-mig-1g-5gb-0")
    return dra.Claim(f"new-{gpu}", "default", "claim", (device,))


async def _repeat(action: Callable[[dra.Claim], Awaitable[object]], claim: dra.Claim) -> None:
    """Repeat a call as the kubelet does, until it succeeds."""
    async with asyncio.timeout(40):
        while True:
            try:
                await action(claim)
            except dra.DraError:
                await asyncio.sleep(0.01)
            else:
                return


@pytest.mark.parametrize("hangs", ["prepare", "unprepare"])
async def test_a_call_that_hangs_while_a_claim_changes_a_gpu_delays_no_other_gpu_and_is_made_good(
    driver: GpuDriver, calls: NvmlCalls, hangs: str
) -> None:
    (before,) = await driver.discover()
    claim, other = map(_make_claim, _NAMES)
    names: list[str] = []
    for action in (driver.prepare, driver.unprepare) * 2:  # some answers are kept after the first time
        calls.counts.clear()
        await action(claim)
        names = list(calls.counts) if action.__name__ == hangs else names
    assert len(names) > 4, names
    for name in names:
        if hangs == "unprepare":
            await _repeat(driver.prepare, claim)
        calls.hang_once(name)
        async with asyncio.timeout(40):
            with suppress(dra.DraError):
                await getattr(driver, hangs)(claim)
        assert calls.is_hit.is_set(), name
        await _repeat(driver.prepare, other)
        await _repeat(driver.unprepare, other)
        assert _evicted(await _discover(driver, before)) == set(), name
        calls.release()
        await _repeat(driver.prepare if hangs == "prepare" else driver.unprepare, claim)
        await _repeat(driver.unprepare, claim)
        async with asyncio.timeout(40):
            while await _discover(driver, before) != before:
                await asyncio.sleep(0.01)


async def test_a_gpu_that_hangs_is_unknown_to_the_kubelet_and_prepares_no_claim(
    driver: GpuDriver, calls: NvmlCalls
) -> None:
    node = driver._node
    assert node is not None
    calls.hang_once("nvmlDeviceGetMemoryInfo")
    await driver.discover()
    unknown = {each.device for each in node.report_health() if each.health is dra.Health.UNKNOWN}
    assert len(unknown) == len(node.report_health()) // 2
    with pytest.raises(GpuError, match="has not returned"):
        await node.find(next(iter(unknown)))
    other = next(each.device for each in node.report_health() if each.health is dra.Health.HEALTHY)
    assert await node.find(other) is not None
