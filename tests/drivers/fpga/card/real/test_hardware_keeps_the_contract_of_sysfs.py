"""The suites on sysfs below a folder. test_uevents_are_received.py tests reports of changes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.drivers.fpga.card_suite import Benches, DiscoverySuite, ProgrammingSuite
from tests.drivers.fpga.kernel.bench import KernelBench, kernel_bench
from tests.drivers.fpga.kernel.fake import FakeKernel


@pytest.fixture
def benches(tmp_path: Path) -> Iterator[Benches]:
    made: list[KernelBench] = []

    def make(*models: str) -> KernelBench:
        made.append(kernel_bench(FakeKernel(tmp_path / "node"), *models))
        return made[-1]

    yield make
    for bench in made:
        bench.hardware.close()


class TestDiscoveryInSysfs(DiscoverySuite):
    pass


class TestProgrammingByTheKernel(ProgrammingSuite):
    pass
