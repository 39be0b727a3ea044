"""`DriverContract` on DFL ports, a manager without regions, and an XRT card."""

from pathlib import Path

import pytest

from dradriver.testing import DriverContract
from dradriver_fpga import FpgaConfig, FpgaDriver
from tests.drivers.fpga.nodes import Node


class OnCards(DriverContract):
    """Each test has cards of its own."""

    models: tuple[str, ...] = ()

    @pytest.fixture(autouse=True)
    def cards(self, tmp_path: Path) -> None:
        folder = tmp_path / "cards"
        folder.mkdir()
        self.node = Node(folder, self.models)

    def make_driver(self) -> FpgaDriver:
        return self.node.driver()


class TestPorts(OnCards):
    """Slots, regions and cards of two shells."""

    models = ("pac",)
    configs = (FpgaConfig(),)

    def make_driver(self) -> FpgaDriver:
        if not self.node.settings:
            self.node.with_shells()
        return super().make_driver()


class TestOthers(OnCards):
    """A card that is no PCI device, and one with the vendor's tools."""

    models = ("zynq", "alveo", "u55c", "u200", "n6001")
