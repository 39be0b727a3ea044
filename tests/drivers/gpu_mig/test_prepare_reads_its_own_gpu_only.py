"""The number of calls of NVML on a node with 8 cards and 48 MIG devices. A call can take milliseconds."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from dradriver.testing import Harness
from dradriver_gpu_mig import GpuDriver
from dradriver_gpu_mig.card import Placement
from dradriver_gpu_mig.card.nvml import NvmlGpus
from tests.drivers.gpu_mig.shim.calls import count_calls
from tests.drivers.gpu_mig.shim.controls import ShimControls

_CARDS: Final = 8
_DEVICES: Final = 6
"""MIG devices of each card; there is room for one more."""
_SMALLEST: Final = 19
"""Profile ID of 1g.5gb."""

_OpenShim = Callable[..., tuple[NvmlGpus, ShimControls]]


def _divide(hardware: NvmlGpus) -> None:
    for gpu in hardware.gpus():
        for start in range(_DEVICES):
            instance = hardware.create_gpu_instance(gpu.uuid, _SMALLEST, Placement(start, 1))
            hardware.create_compute_instance(gpu.uuid, instance)


@pytest.fixture
def hardware(shim: _OpenShim) -> NvmlGpus:
    return shim(*["a100-40"] * _CARDS)[0]


@pytest.fixture
def node(hardware: NvmlGpus, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Harness]:
    _divide(hardware)
    with Harness(lambda: GpuDriver(f"mode: {request.param}", hardware), tmp_path) as harness:
        harness.discover()
        yield harness


def _device(gpu: int, start: int) -> tuple[str, str]:
    return "node-1", f"gpu-0000-{7 + 8 * gpu:02x}-00-0-mig-1g-5gb-{start}"


@pytest.mark.parametrize("node", ["dynamic"], indirect=True)
def test_a_mig_device_is_created_with_few_calls(node: Harness) -> None:
    with count_calls() as calls:
        node.prepare(node.allocate_blindly(_device(0, 6)))
    assert calls.total() <= 40, calls


@pytest.mark.parametrize("node", ["dynamic"], indirect=True)
def test_a_claim_of_four_mig_devices_needs_few_calls(node: Harness) -> None:
    claim = node.allocate_blindly(*(_device(gpu, 6) for gpu in range(4)))
    with count_calls() as calls:
        node.prepare(claim)
    assert calls.total() <= 150, calls
    with count_calls() as calls:
        node.unprepare(claim)
    assert calls.total() <= 220, calls


@pytest.mark.parametrize("node", ["static"], indirect=True)
def test_an_existing_mig_device_is_prepared_with_few_calls(node: Harness) -> None:
    with count_calls() as calls:
        node.prepare(node.allocate_blindly(_device(7, 5)))
    assert calls.total() <= 40, calls


def test_a_whole_gpu_is_prepared_with_few_calls(shim: _OpenShim, tmp_path: Path) -> None:
    hardware, _ = shim(*["a100-40"] * _CARDS, mig=False)
    with Harness(lambda: GpuDriver("mode: whole", hardware), tmp_path) as node:
        node.discover()
        with count_calls() as calls:
            node.prepare(node.allocate_blindly(("node-1", "gpu-0000-07-00-0")))
    assert calls.total() <= 20, calls


def test_the_walk_over_the_indices_of_mig_devices_is_never_needed(hardware: NvmlGpus, tmp_path: Path) -> None:
    _divide(hardware)
    with count_calls() as calls, Harness(lambda: GpuDriver("mode: dynamic", hardware), tmp_path) as node:
        node.discover()
        node.prepare(node.allocate_blindly(_device(0, 6)))
    assert "nvmlDeviceGetMigDeviceHandleByIndex" not in calls


def test_a_start_and_a_scan_have_a_limit_for_each_device(
    hardware: NvmlGpus, shim_library: Path, tmp_path: Path
) -> None:
    _divide(hardware)
    driver = partial(GpuDriver, "mode: dynamic", NvmlGpus(shim_library))
    with count_calls() as calls, Harness(driver, tmp_path) as node:
        start = calls.total()
        node.discover()
        scan = calls.total() - start
    assert start <= 830, calls  # most of them read profiles, which the driver keeps
    assert scan <= 7 * _CARDS * (_DEVICES + 1), calls
