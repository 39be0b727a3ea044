"""The suites over the simulator."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from dradriver_fpga.card import Hardware
from dradriver_fpga.card.simulator import FileStore, SimulatedHardware
from tests.drivers.fpga.card_suite import Bench, Benches, ChangeSuite, DiscoverySuite, ProgrammingSuite

FAST = 1000.0


@dataclass
class SimulatedBench:
    hardware: SimulatedHardware
    path: Path

    @property
    def hand(self) -> SimulatedHardware:
        return self.hardware

    def another(self) -> Hardware:
        return SimulatedHardware(store=FileStore(self.path), speed=FAST)


@pytest.fixture
def benches(tmp_path: Path) -> Benches:
    def make(*models: str) -> Bench:
        path = tmp_path / "cards.json"
        bench = SimulatedBench(SimulatedHardware(models, store=FileStore(path), speed=FAST), path)
        bench.hardware.open()
        return bench

    return make


class TestSimulatedDiscovery(DiscoverySuite):
    pass


class TestSimulatedProgramming(ProgrammingSuite):
    pass


class TestSimulatedChanges(ChangeSuite):
    pass
