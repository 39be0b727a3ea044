"""`DriverContract` on devices that the pool driver has published, and attached to the node."""

from pathlib import Path

import pytest

import dradriver as dra
from dradriver.testing import DriverContract
from dradriver_fabric_cxl import FabricCxlDriver
from dradriver_fabric_cxl.attached import AttachedDevice
from tests.drivers.fabric_cxl.cxl_nodes import ACCELERATOR, GIB, MEMORY, OTHER, POOL, CxlNode


def device(name: str, mebibytes: int) -> dra.Device:
    consumed = [dra.CounterConsumption("pool-a", {"mebibytes": mebibytes})] if mebibytes else []
    return dra.Device(name, node_name="node-1", consumes_counters=consumed)


class TestContract(DriverContract):
    """Memory that overlaps by its counters, and an accelerator."""

    pools = (
        dra.Pool(
            POOL,
            devices=[
                device("memory-1", 1024),
                device("memory-2", 1024),
                device("whole", 2048),
                device("gpu", 0),
            ],
            counter_sets=[dra.CounterSet("pool-a", {"mebibytes": 2048})],
            per_device_node_selection=True,
        ),
    )
    data = {
        "memory-1": AttachedDevice.of(MEMORY, GIB).to_data(),
        "memory-2": AttachedDevice.of(OTHER, GIB).to_data(),
        "whole": AttachedDevice.of(3, 2 * GIB).to_data(),
        "gpu": AttachedDevice.of(ACCELERATOR).to_data(),
    }

    @pytest.fixture(autouse=True)
    def hardware(self, tmp_path: Path) -> None:
        self.node = CxlNode(tmp_path / "node")
        self.node.plug_all()
        self.node.memory.plug(3, 2 * GIB)

    def make_driver(self) -> FabricCxlDriver:
        return self.node.driver()
