"""The contract of `Hardware` on NVML: `pynvml`, and a shim of the library in place of the driver's."""

from collections.abc import Callable, Sequence

import pytest

from drivers.gpu_mig.card import EventKind, Process
from drivers.gpu_mig.card.nvml import NvmlHardware
from drivers.gpu_mig.card.simulator import CATALOG
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
