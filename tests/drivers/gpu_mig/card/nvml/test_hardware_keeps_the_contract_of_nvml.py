"""The contract of `GpuHardware` on NVML: `pynvml` with a shim instead of the driver's library."""

from collections.abc import Callable, Sequence

import pytest

from dradriver_gpu_mig.card import (
    Event,
    EventKind,
    Fabric,
    InvalidArgumentError,
    Process,
    RecoveryAction,
    Virtualization,
)
from dradriver_gpu_mig.card.nvml import NvmlGpus
from dradriver_gpu_mig.card.simulator import CATALOG
from tests.drivers.gpu_mig.card_suite import Benches, CardSuite, Reading, ReadingSuite, read
from tests.drivers.gpu_mig.shim.controls import ShimControls

Shim = Callable[..., tuple[NvmlGpus, ShimControls]]


class ShimBench:
    def __init__(self, hardware: NvmlGpus, controls: ShimControls) -> None:
        self.hardware = hardware
        self.hardware.wait_event(0)  # the GPUs are listened to from the first wait on
        self._controls = controls

    def report_error(self, gpu: int, kind: EventKind, *, xid: int = 0, gpu_instance: int = 0xFFFFFFFF) -> None:
        compute = 0xFFFFFFFF if gpu_instance == 0xFFFFFFFF else 0
        self._controls.report_error(gpu, kind, xid=xid, gpu_instance=gpu_instance, compute_instance=compute)

    def lose(self, gpu: int) -> None:
        self._controls.lose(gpu)

    def reset(self, gpu: int) -> None:
        self._controls.reset(gpu)

    def remove(self, gpu: int) -> None:
        self._controls.remove(gpu)

    def fail_calls(self, gpu: int, code: int) -> None:
        self._controls.fail_calls(gpu, code)

    def fail_placements(self, gpu: int, profile: int, code: int) -> None:
        self._controls.fail_placements(gpu, profile, code)

    def set_virtualization(self, gpu: int, mode: Virtualization) -> None:
        self._controls.set_virtualization(gpu, mode)

    def set_memory_and_fabric(self, gpu: int, addressing_mode: str, fabric: Fabric | None) -> None:
        self._controls.set_memory_and_fabric(gpu, addressing_mode, fabric)

    def set_recovery_action(self, gpu: int, action: RecoveryAction | None) -> None:
        self._controls.set_recovery_action(gpu, action)

    def set_processes(self, gpu: int, processes: Sequence[Process]) -> None:
        self._controls.set_processes(gpu, processes)


@pytest.fixture
def benches(shim: Shim) -> Benches:
    return lambda *cards, mig=True: ShimBench(*shim(*cards, mig=mig))


@pytest.fixture(params=CATALOG)
def reading(request: pytest.FixtureRequest, shim: Shim) -> Reading:
    return read(shim(request.param, request.param)[0])


class TestReading(ReadingSuite):
    pass


class TestCards(CardSuite):
    pass


def test_a_gpu_that_is_not_found_is_no_instance_that_is_not_found(shim: Shim) -> None:
    """NVML documents two answers for a UUID that no GPU has."""
    hardware, controls = shim("a100-40")
    controls.fault("nvmlDeviceGetHandleByUUID", 6)
    with pytest.raises(InvalidArgumentError, match="GPU-11111111"):
        hardware.gpu_instances("GPU-11111111-2222-3333-4444-555555555555")


def test_a_gpu_without_events_does_not_affect_events_of_the_others(shim: Shim) -> None:
    hardware, controls = shim("a100-40", "a30")
    hardware.close()
    controls.fault("nvmlDeviceRegisterEvents", 999)
    hardware.open()
    controls.report_error(1, EventKind.XID, xid=63)
    assert hardware.wait_event(1) == Event(EventKind.XID, hardware.gpus()[1].uuid, 63)
