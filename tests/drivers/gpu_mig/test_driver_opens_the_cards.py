"""Opening the cards: NVML or the simulator, a missing driver, and a replaced driver."""

import os
from pathlib import Path
from typing import Literal

import pytest

import dradriver_gpu_mig.driver
from dradriver import DriverContext
from dradriver.node.driver_context import ContextRequests, ProcessContext
from dradriver_gpu_mig import GpuDriver
from dradriver_gpu_mig.card import DriverNotLoadedError, LibraryNotFoundError, VersionMismatchError
from dradriver_gpu_mig.card.nvml import NvmlGpus
from dradriver_gpu_mig.card.simulator import SimulatedGpus
from dradriver_gpu_mig.factory import make_real_gpus
from dradriver_gpu_mig.host.hook import SHIPPED_COMMANDS, HookProgram, install_hook
from dradriver_gpu_mig.settings import HostSettings
from tests.drivers.gpu_mig.shim.controls import environment
from tests.drivers.gpu_mig.shim.node import NodeFiles


def on_a_node(driver: GpuDriver, folder: Path) -> GpuDriver:
    driver.set_context(DriverContext("node-1", folder))
    return driver


def without_a_library(folder: Path, simulate: Literal["never", "auto", "always"]) -> GpuDriver:
    driver = on_a_node(GpuDriver(f"host: {{driverRoot: {folder}, library: {folder}/none.so}}"), folder)
    driver.simulate = simulate
    return driver


async def test_a_node_without_nvidias_driver_reports_an_error_until_it_is_installed(tmp_path: Path) -> None:
    driver = without_a_library(tmp_path, "never")
    for _ in range(2):
        with pytest.raises(LibraryNotFoundError):
            await driver.discover()


async def test_health_waits_for_cards_and_leaves_it_to_discovery_to_say_that_there_are_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dradriver_gpu_mig.driver, "_REPORT_SECONDS", 0.01)
    asked = 0

    def hook(call: str, moment: str) -> None:
        nonlocal asked
        asked += (call, moment) == ("open", "before")
        if asked < 3:
            raise DriverNotLoadedError("not loaded", "nvmlInit", 9)

    driver = on_a_node(GpuDriver("", SimulatedGpus(hook=hook)), tmp_path)
    told = driver.health()
    await anext(aiter(told))
    assert asked == 3
    await told.aclose()  # type: ignore[attr-defined]
    await driver.shutdown()


@pytest.mark.parametrize("simulate", ["auto", "always"])
async def test_where_it_is_wanted_cards_are_simulated_and_divided_as_claims_ask(
    tmp_path: Path, simulate: Literal["auto", "always"]
) -> None:
    driver = without_a_library(tmp_path, simulate)
    (pool,) = await driver.discover()
    assert len(pool.devices) == 50
    await driver.shutdown()


async def test_a_kernel_module_that_is_not_loaded_is_no_reason_to_simulate(tmp_path: Path) -> None:
    loaded = False

    def hook(call: str, moment: str) -> None:
        if call == "open" and not loaded:
            raise DriverNotLoadedError("not loaded", "nvmlInit", 9)

    driver = on_a_node(GpuDriver("", SimulatedGpus(hook=hook)), tmp_path)
    driver.simulate = "auto"
    with pytest.raises(DriverNotLoadedError):
        await driver.discover()
    loaded = True
    assert await driver.discover()
    await driver.shutdown()


@pytest.mark.parametrize("refused", ["open", "count"])
async def test_a_driver_that_was_replaced_needs_a_new_process(tmp_path: Path, refused: str) -> None:
    wishes: list[str] = []

    def hook(call: str, moment: str) -> None:
        if call == refused:
            raise VersionMismatchError("driver and library differ", "nvmlDeviceGetCount_v2", 18)

    driver = on_a_node(GpuDriver("", SimulatedGpus(hook=hook)), tmp_path)
    driver.set_context(ProcessContext(ContextRequests(restart=wishes.append), "node-1", tmp_path))
    with pytest.raises(VersionMismatchError):
        await driver.discover()
    (wish,) = wishes
    assert wish.startswith("NVIDIA's driver was replaced")
    await driver.shutdown()


def test_library_and_hook_are_found_below_the_drivers_root(tmp_path: Path) -> None:
    node = NodeFiles(tmp_path)
    library = tmp_path / "usr/lib/x86_64-linux-gnu/libnvidia-ml.so.580.82.07"
    hook = tmp_path / "usr/bin/nvidia-cdi-hook"
    for file in (library, hook):
        file.write_bytes(b"")
        file.chmod(0o755)
    settings = HostSettings(driver_root=str(node.root), driver_root_on_host="/driver")
    cards, containers = make_real_gpus(settings, tmp_path)
    assert cards._library == library
    assert containers._hook == HookProgram(Path("/driver/usr/bin/nvidia-cdi-hook"))


def test_the_shipped_hook_is_preferred_to_that_of_the_node_and_a_setting_to_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = NodeFiles(tmp_path / "node")
    folder = tmp_path / "plugin"
    folder.mkdir()
    for file in (node.root / "usr/bin/nvidia-cdi-hook", tmp_path / "shipped"):
        file.write_text("#!/bin/sh\n")
        file.chmod(0o755)
    monkeypatch.setattr(install_hook, "__defaults__", (tmp_path / "shipped",))
    settings = HostSettings(driver_root=str(node.root))
    assert make_real_gpus(settings, folder)[1]._hook == HookProgram(
        folder / "nvidia-cdi-hook", SHIPPED_COMMANDS
    )
    settings = HostSettings(driver_root=str(node.root), hook="/opt/hook")
    assert make_real_gpus(settings, folder)[1]._hook == HookProgram(Path("/opt/hook"))


async def test_through_nvml_the_same_is_offered_as_by_the_simulator(
    tmp_path: Path, shim_library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment(tmp_path / "cards", ["a100-40", "h100-80"], node="node-1").items():
        monkeypatch.setenv(name, value)
    assert os.environ["NVML_SHIM_NODE"] == "node-1"
    offered = []
    for hardware in (NvmlGpus(shim_library), SimulatedGpus(["a100-40", "h100-80"], node="node-1")):
        driver = on_a_node(GpuDriver("mode: dynamic", hardware), tmp_path)
        (pool,) = await driver.discover()
        consumed = {each.name: (each.consumes_counters, each.capacity) for each in pool.devices}
        offered.append((consumed, pool.counter_sets))
        await driver.shutdown()
    assert offered[0] == offered[1]
