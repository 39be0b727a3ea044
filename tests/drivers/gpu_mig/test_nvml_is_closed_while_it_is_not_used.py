"""In the modes static and whole, administrators can reset GPUs and unload the driver while the driver runs."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
import yaml

from dradriver import DriverContext
from dradriver_gpu_mig import GpuDriver
from dradriver_gpu_mig.card import RecoveryAction
from dradriver_gpu_mig.card.nvml import NvmlGpus
from tests.drivers.gpu_mig.kernel_log import KERNEL_LOG, needs_kernel_log
from tests.drivers.gpu_mig.shim.calls import NvmlCalls, intercept_calls
from tests.drivers.gpu_mig.shim.controls import ShimControls, environment
from tests.drivers.gpu_mig.shim.node import NodeFiles

_MakeDriver = Callable[..., GpuDriver]


@pytest.fixture
def calls() -> Iterator[NvmlCalls]:
    with intercept_calls() as calls:
        yield calls


@pytest.fixture
async def make(
    calls: NvmlCalls, shim_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[_MakeDriver]:
    """Make the driver as on a node, with the shim as the node's library."""
    for name, value in environment(tmp_path / "cards.state", ["a100-40", "a100-40"], mig=False).items():
        monkeypatch.setenv(name, value)
    for folder in ("node", "driver"):
        (tmp_path / folder).mkdir()
    node = NodeFiles(tmp_path / "node", gpus=2)
    root, made = str(node.root), list[GpuDriver]()
    host = {
        "driverRoot": root, "driverRootOnHost": root, "dev": f"{root}/dev", "proc": f"{root}/proc",
        "sysfs": f"{root}/sys", "library": str(shim_library),
    }  # fmt: skip

    def make(**settings: object) -> GpuDriver:
        driver = GpuDriver(yaml.safe_dump({"host": host, **settings}))
        driver.set_context(DriverContext("node-1", tmp_path / "driver"))
        made.append(driver)
        return driver

    yield make
    for driver in made:
        await driver.shutdown()
    assert _count_open(calls) == 0


def _count_open(calls: NvmlCalls) -> int:
    return calls.counts["nvmlInitWithFlags"] - calls.counts["nvmlShutdown"]


async def _wait_until_closed(calls: NvmlCalls) -> None:
    async with asyncio.timeout(20):
        while _count_open(calls):
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("mode", ["static", "whole"])
async def test_no_handle_stays_open_after_a_scan(make: _MakeDriver, calls: NvmlCalls, mode: str) -> None:
    driver = make(mode=mode)
    (pool,) = await driver.discover()
    assert len(pool.devices) == 2
    await _wait_until_closed(calls)
    (again,) = await driver.discover()
    assert again == pool


@pytest.mark.parametrize("settings", [{"mode": "dynamic"}, {"mode": "static", "closeWhenIdle": False}])
async def test_a_driver_that_receives_events_keeps_nvml_open(
    make: _MakeDriver, calls: NvmlCalls, settings: dict[str, object]
) -> None:
    driver = make(**settings)
    await driver.discover()
    assert driver._node is not None
    assert driver._node.cards._idle_timer is None
    assert _count_open(calls) == 1


async def test_a_drained_node_is_reset_and_offers_its_new_layout_without_a_restart(
    make: _MakeDriver, calls: NvmlCalls, shim_library: Path
) -> None:
    """The steps of "Maintenance" in docs/drivers/gpu-mig.md."""
    driver = make(mode="static")
    await driver.discover()
    await _wait_until_closed(calls)
    administrator = NvmlGpus(shim_library)  # nvidia-smi -mig 1, nvidia-smi --gpu-reset, nvidia-smi mig -cgi
    administrator.open()
    (gpu, _) = administrator.gpus()
    administrator.set_mig_mode(gpu.uuid, enabled=True)
    ShimControls(shim_library).reset(0)
    profile = administrator.profiles(gpu.uuid)[0]
    instance = administrator.create_gpu_instance(gpu.uuid, profile.id, profile.placements[0])
    administrator.create_compute_instance(gpu.uuid, instance)
    administrator.close()
    (pool,) = await driver.discover()
    names = {device.name for device in pool.devices}
    assert names == {"gpu-0000-07-00-0-mig-1g-5gb-0", "gpu-0000-0f-00-0"}


async def test_a_recovery_action_is_noticed_by_the_next_scan(
    make: _MakeDriver, calls: NvmlCalls, shim_library: Path
) -> None:
    driver = make(mode="whole")
    await driver.discover()
    await _wait_until_closed(calls)
    ShimControls(shim_library).set_recovery_action(0, RecoveryAction.GPU_RESET)
    (pool,) = await driver.discover()
    assert [[taint.value for taint in device.taints] for device in pool.devices] == [["gpu-reset"], []]


@needs_kernel_log
async def test_an_error_in_the_kernels_log_is_handled_at_once(
    make: _MakeDriver, calls: NvmlCalls, tmp_path: Path, shim_library: Path
) -> None:
    driver = make(mode="whole")
    (tmp_path / "node/dev/kmsg").symlink_to(KERNEL_LOG)
    await driver.discover()
    await _wait_until_closed(calls)
    assert driver._node is not None
    events = driver._node.events()
    following = asyncio.ensure_future(anext(events))
    await asyncio.sleep(0)
    ShimControls(shim_library).set_recovery_action(0, RecoveryAction.NODE_REBOOT)
    KERNEL_LOG.write_text("dradriver test: NVRM: Xid (PCI:0000:07:00): 79, pid=1\n")
    assert await driver._node.handle_event(await following)
    await events.aclose()
    (pool,) = await driver.discover()
    assert ("gpu.nvidia.com/recovery-action", "node-reboot") in {
        (taint.key, taint.value) for taint in pool.devices[0].taints
    }
