"""The contract of every controller driver, on a simulated fabric that outlives the driver."""

import asyncio
from collections.abc import Mapping

import pytest

import dradriver as dra
from dradriver.testing import ControllerContract
from dradriver_fabric_cxl import FabricPoolsDriver
from dradriver_fabric_cxl.configs import FabricClass, MemoryAmount
from dradriver_fabric_cxl.fabric.simulator import FabricMemoryStore, SimulatedFabric
from tests.drivers.fabric_cxl.controller.controlled_claims import CONTROLLER, NODES
from tests.drivers.fabric_cxl.fabric_suite import PACE
from tests.drivers.fabric_cxl.pool_claims import report_all


class ReportedDriver(FabricPoolsDriver):
    """A driver whose nodes have all reported."""

    reports: Mapping[str, dra.NodeReport] = {}

    async def node_reports(self) -> Mapping[str, dra.NodeReport]:
        return self.reports


class FabricContract(ControllerContract):
    """The contract on the four hosts of a simulated fabric."""

    nodes = NODES

    @pytest.fixture(autouse=True)
    def fabric(self) -> None:
        self.store = FabricMemoryStore()

    def make_driver(self) -> ReportedDriver:
        fabric = SimulatedFabric(self.store, pace=PACE)
        driver = ReportedDriver(CONTROLLER, fabric)
        driver.reports = report_all(asyncio.run(fabric.inventory()))
        return driver


class TestMemory(FabricContract):
    class_config = FabricClass()
    claim_config = MemoryAmount(size="8Gi")


class TestAccelerator(FabricContract):
    class_config = FabricClass(type="accelerator")
