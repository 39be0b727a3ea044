"""The contract of accelerators on the simulator."""

from pathlib import Path

import pytest

from dradriver_fabric_cxl.accelerator.simulator import AcceleratorFileStore, SimulatedAccelerators
from tests.drivers.fabric_cxl.accelerator_suite import FIRST, AcceleratorsSuite


class TestSimulator(AcceleratorsSuite):
    @pytest.fixture
    def slots(self) -> SimulatedAccelerators:
        return SimulatedAccelerators()

    @pytest.fixture
    def accelerators(self, slots: SimulatedAccelerators) -> SimulatedAccelerators:
        return slots


def test_another_process_sees_what_one_process_plugs(tmp_path: Path) -> None:
    one, other = (SimulatedAccelerators(AcceleratorFileStore(tmp_path / "state.json")) for _ in range(2))
    one.plug(FIRST)
    one.plug(FIRST)
    assert [each.serial for each in other.devices()] == [FIRST]
