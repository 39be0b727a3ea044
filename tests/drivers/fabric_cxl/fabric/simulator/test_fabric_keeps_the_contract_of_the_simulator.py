"""The contract of `Fabric` on the simulator."""

from pathlib import Path

import pytest

from dradriver_fabric_cxl.fabric import Fabric, FabricHealth
from dradriver_fabric_cxl.fabric.simulator import FabricCall, FabricFault, FabricFileStore, SimulatedFabric
from tests.drivers.fabric_cxl.fabric_suite import PACE, FabricSuite, FaultSuite, ForgetfulSuite, ImpatientTime


class SimulatedBench:
    def __init__(self, path: Path) -> None:
        store = FabricFileStore(path)
        self.fabric = SimulatedFabric(store, pace=PACE, task_looks=2)
        self.impatient = SimulatedFabric(store, pace=ImpatientTime().pace(), task_looks=2)

    async def fail(self, call: FabricCall, fault: FabricFault, times: int = 1) -> None:
        self.fabric.fail(call, fault, times)

    async def set_health(self, domain: str, health: FabricHealth) -> None:
        self.fabric.set_health(domain, health)


@pytest.fixture
def bench(tmp_path: Path) -> SimulatedBench:
    return SimulatedBench(tmp_path / "fabric.json")


@pytest.fixture(params=[0, 2], ids=["at once", "as a task"])
def forgetful(request: pytest.FixtureRequest) -> Fabric:
    fabric = SimulatedFabric(pace=PACE, task_looks=request.param)
    fabric.fail(FabricCall.CREATE_CHUNK, FabricFault.TAG_DROPPED, times=1_000_000)
    return fabric


class TestFabric(FabricSuite):
    pass


class TestFaults(FaultSuite):
    pass


class TestForgetfulManager(ForgetfulSuite):
    pass
