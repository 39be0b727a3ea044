"""`DriverContract` on MIG devices that are created for claims, and on whole GPUs."""

import pytest

from dradriver.testing import DriverContract
from dradriver_gpu_mig import GpuConfig, GpuDriver
from dradriver_gpu_mig.card.simulator import GpuMemoryStore, SimulatedGpus


class OnCards(DriverContract):
    """Each test has cards of its own."""

    mode = ""
    models: tuple[str, ...] = ()

    @pytest.fixture(autouse=True)
    def cards(self) -> None:
        self.store = GpuMemoryStore()

    def make_driver(self) -> GpuDriver:
        return GpuDriver(f"mode: {self.mode}", SimulatedGpus(self.models, store=self.store))


class TestDynamic(OnCards):
    """Every place of every profile."""

    mode = "dynamic"
    models = ("a30",)


class TestWhole(OnCards):
    """GPUs that are not divided, with settings of their own for each claim."""

    mode = "whole"
    models = ("t4", "t4")
    configs = (GpuConfig(compute_mode="ExclusiveProcess"),)
