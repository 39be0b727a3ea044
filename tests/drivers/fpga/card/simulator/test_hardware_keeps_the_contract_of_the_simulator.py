"""The suites on the simulator."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from dradriver_fpga.card import FpgaHardware
from dradriver_fpga.card.simulator import FpgaFileStore, SimulatedFpgas
from tests.drivers.fpga.card_suite import Bench, Benches, ChangeSuite, DiscoverySuite, ProgrammingSuite

FAST = 1000.0


@dataclass
class SimulatedBench:
    hardware: SimulatedFpgas
    path: Path

    @property
    def controls(self) -> SimulatedFpgas:
        return self.hardware

    def another(self) -> FpgaHardware:
        return SimulatedFpgas(store=FpgaFileStore(self.path), speed=FAST)


@pytest.fixture
def benches(tmp_path: Path) -> Benches:
    def make(*models: str) -> Bench:
        path = tmp_path / "cards.json"
        bench = SimulatedBench(SimulatedFpgas(models, store=FpgaFileStore(path), speed=FAST), path)
        bench.hardware.open()
        return bench

    return make


class TestSimulatedDiscovery(DiscoverySuite):
    pass


class TestSimulatedProgramming(ProgrammingSuite):
    pass


class TestSimulatedChanges(ChangeSuite):
    pass
