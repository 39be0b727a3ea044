"""`DriverContract` on DFL ports, a manager without regions, and an XRT card."""

from pathlib import Path

import pytest

from dradriver.testing import DriverContract
from dradriver_fpga import FpgaConfig, FpgaDriver
from tests.drivers.fpga.bitstream_files import AFU
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


class TestShared(OnCards):
    """A slot of an XRT card that two claims may use, and names for its IDs."""

    models = ("alveo",)

    def make_driver(self) -> FpgaDriver:
        image = self.node.images.fitting("alveo")
        self.node.settings["sharing"] = {"claimsPerSlot": 2}
        self.node.settings["names"] = {"functions": {"matrix": AFU}}
        self.node.controls.program("0000:af:00.1/0", image, timeout=10)
        return super().make_driver()
