"""`DriverContract` over MIG devices that are made for claims, and over whole GPUs."""

import pytest

from dradriver.testing import DriverContract
from drivers.gpu_mig import GpuConfig, GpuDriver
from drivers.gpu_mig.card.simulator import MemoryStore, SimulatedHardware


class TwoCards(DriverContract):
    """Two cards; each test has cards of its own."""

    mode = ""
    mig = True

    @pytest.fixture(autouse=True)
    def cards(self) -> None:
        self.store = MemoryStore()

    def make_driver(self) -> GpuDriver:
        hardware = SimulatedHardware(("a100-40", "a100-40"), store=self.store, mig=self.mig)
        return GpuDriver(f"mode: {self.mode}", hardware)


class TestDynamic(TwoCards):
    """Every place of every profile."""

    mode = "dynamic"


class TestWhole(TwoCards):
    """GPUs that are not divided, with settings of their own for each claim."""

    mode = "whole"
    mig = False
    configs = (GpuConfig(compute_mode="ExclusiveProcess"),)
