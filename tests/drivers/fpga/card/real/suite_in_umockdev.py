"""Run by test_uevents_are_received.py under umockdev: its testbed provides /sys and the uevents of libudev."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dradriver_fpga.card.real import FpgaHost
from tests.drivers.fpga.card_suite import Benches, ChangeSuite, DiscoverySuite
from tests.drivers.fpga.kernel.bench import KernelBench, kernel_bench
from tests.drivers.fpga.kernel.fake import FakeKernel, discard_uevent
from tests.drivers.fpga.kernel.umockdev import UmockdevBed


class MockedKernel(FakeKernel):
    """Its tree is where everybody looks for it."""

    @property
    def host(self) -> FpgaHost:
        return replace(super().host, sysfs=Path("/sys"))


@pytest.fixture
def benches(request: pytest.FixtureRequest) -> Iterator[Benches]:
    bed = UmockdevBed()
    made: list[KernelBench] = []
    tell = bed.send if issubclass(request.cls, ChangeSuite) else discard_uevent

    def make(*models: str) -> KernelBench:
        made.append(kernel_bench(MockedKernel(bed.root, tell), *models))
        return made[-1]

    yield make
    for bench in made:
        bench.hardware.close()
    bed.close()


class TestDiscoveryInUmockdev(DiscoverySuite):
    pass


class TestUeventsOfUmockdev(ChangeSuite):
    pass
