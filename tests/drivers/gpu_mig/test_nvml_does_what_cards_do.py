"""The contract of `Hardware` on NVML: `pynvml`, and a shim of the library in place of the driver's."""

from collections.abc import Callable, Sequence

import pytest

from dradriver_gpu_mig.card import Event, EventKind, InvalidArgumentError, Process
from dradriver_gpu_mig.card.nvml import NvmlHardware
from dradriver_gpu_mig.card.simulator import CATALOG
from tests.drivers.gpu_mig.card_suite import Benches, CardSuite, Reading, ReadingSuite, read
from tests.drivers.gpu_mig.shim.hand import Hand

Shim = Callable[..., tuple[NvmlHardware, Hand]]


class ShimBench:
    def __init__(self, hardware: NvmlHardware, hand: Hand) -> None:
        self.hardware = hardware
        self._hand = hand

    def fail(self, gpu: int, kind: EventKind, *, xid: int = 0, gpu_instance: int = 0xFFFFFFFF) -> None:
        compute = 0xFFFFFFFF if gpu_instance == 0xFFFFFFFF else 0
        self._hand.fail(gpu, kind, xid=xid, gpu_instance=gpu_instance, compute_instance=compute)

    def lose(self, gpu: int) -> None:
        self._hand.lose(gpu)

    def reset(self, gpu: int) -> None:
        self._hand.reset(gpu)

    def remove(self, gpu: int) -> None:
        self._hand.remove(gpu)

    def refuse(self, gpu: int, code: int) -> None:
        self._hand.refuse(gpu, code)

    def refuse_placements(self, gpu: int, profile: int, code: int) -> None:
        self._hand.refuse_placements(gpu, profile, code)

    def use(self, gpu: int, processes: Sequence[Process]) -> None:
        self._hand.use(gpu, processes)


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
    hardware, hand = shim("a100-40")
    hand.fault("nvmlDeviceGetHandleByUUID", 6)
    with pytest.raises(InvalidArgumentError, match="GPU-11111111"):
        hardware.gpu_instances("GPU-11111111-2222-3333-4444-555555555555")


def test_a_gpu_whose_events_cant_be_had_keeps_nobody_from_hearing_the_others(shim: Shim) -> None:
    hardware, hand = shim("a100-40", "a30")
    hardware.close()
    hand.fault("nvmlDeviceRegisterEvents", 999)
    hardware.open()
    hand.fail(1, EventKind.XID, xid=63)
    assert hardware.wait_event(1) == Event(EventKind.XID, hardware.gpus()[1].uuid, 63)
